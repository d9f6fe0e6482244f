"""What a person sees and does on the page, held against what the API says."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Dialog, Page, expect

from tests.support.processes import free_port
from tests.web.api.api_server import ApiServer, api_server
from tests.web.page.pages import VIEWS, WITHIN_MS, next_answer, opened, published, until, watched

HOSTILE = "<img src=x onerror=alert(1)>"
FIRST_PAINT_BYTES = 300_000


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder = tmp_path_factory.mktemp("page")
    with (
        api_server(folder, ["--record", "all"]) as served,
        published(served, "main", folder),
        watched(served, "main", folder),
    ):
        yield served


def bitrate(bps: int) -> str:
    """As the page words it."""
    kbit_s = bps / 1000
    if kbit_s < 1000:
        return f"{kbit_s:.0f} kbit/s"
    return f"{kbit_s / 1000:.2f} Mbit/s"


def test_figures_of_a_stream_are_those_of_the_api(api: ApiServer) -> None:
    with opened(api) as (_, page):
        card = page.get_by_role("article").filter(has_text="live/main")
        expect(card).to_contain_text("128\u00d772 · H.264 · AAC", timeout=WITHIN_MS)
        expect(page.locator("[data-figure=viewers]")).to_have_text("1")
        (stream,) = next_answer(page, "/streams?")["items"]
        expect(card).to_contain_text(bitrate(stream["bitrate_bps"]))
        card.get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("live/main")
        # The page is a viewer too, once it plays.
        expect(page.locator("[data-figure=viewers]")).to_have_text("2")
        told = next_answer(page, "/streams/live/main")
        assert told["viewers_by_protocol"] == {"rtmp": 1, "http-mp4": 1}
        expect(page.locator("[data-figure=keys]")).to_have_text("every 2.0 s")
        expect(page.locator("[data-figure=client]")).to_have_text(told["publisher"]["client"])
        for viewer in api.get("/viewers")["items"]:
            expect(page.get_by_role("row").filter(has_text=viewer["peer_addr"])).to_be_visible()


def test_a_kick_removes_the_row_of_the_viewer(api: ApiServer, tmp_path: Path) -> None:
    with watched(api, "main", tmp_path) as viewer, opened(api, "#/streams/live/main") as (seen, page):
        row = page.get_by_role("row").filter(has_text=viewer["peer_addr"])
        row.get_by_role("button", name="Kick").click()
        page.get_by_role("dialog").get_by_role("button", name="Kick").click()
        expect(row).to_have_count(0)
        assert viewer["view_id"] not in [each["view_id"] for each in api.get("/viewers")["items"]]
        assert seen.seen.console_errors == []


def test_who_thinks_better_of_it_kicks_nobody(api: ApiServer) -> None:
    with opened(api, "#/streams/live/main") as (_, page):
        (viewer,) = (each for each in api.get("/viewers")["items"] if each["protocol"] == "rtmp")
        page.get_by_role("row").filter(has_text=viewer["peer_addr"]).get_by_role("button", name="Kick").click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        next_answer(page, "/viewers")
        assert viewer["view_id"] in [each["view_id"] for each in api.get("/viewers")["items"]]


def _is_recorded(api: ApiServer, wanted: bool) -> bool:
    return bool(api.get("/streams/live/main")["is_recording"]) is wanted


def test_recording_is_switched_off_and_on(api: ApiServer) -> None:
    with opened(api, "#/streams/live/main") as (_, page):
        switch = page.get_by_role("switch", name="Record")
        expect(switch).to_be_checked()
        for is_recording in (False, True):
            switch.click()
            until(partial(_is_recorded, api, is_recording))
        expect(switch).to_be_checked()


def test_a_reader_is_offered_no_orders(api: ApiServer) -> None:
    with opened(api, "#/streams/live/main", token=None) as (_, page):
        expect(page.get_by_role("row").filter(has_text="http-mp4")).to_be_visible()
        expect(page.get_by_role("button", name="Kick")).to_have_count(0)
        expect(page.get_by_role("switch", name="Record")).to_be_disabled()


def test_a_token_signs_in_and_is_in_neither_address_nor_cookie(api: ApiServer) -> None:
    with opened(api, token=None) as (seen, page):
        page.get_by_role("button", name="Sign in").click()
        page.get_by_label("Token").fill("a" * 32)
        page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
        expect(page.get_by_text("boss")).to_be_visible()
        assert "aaaa" not in page.url
        assert seen.context.cookies() == []
        assert page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])") == "[{},{}]"
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_text("This machine")).to_be_visible()


def test_a_wrong_token_signs_out_and_says_so(api: ApiServer) -> None:
    with opened(api, token="b" * 32) as (_, page):
        expect(page.get_by_role("dialog")).to_contain_text("That token is not known here, or not any more.")
        assert page.evaluate("sessionStorage.length") == 0
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Go on without").click()
        expect(page.get_by_text("This machine")).to_be_visible()
        expect(page.get_by_role("heading", name="Streams")).to_be_visible()


def test_events_show_as_they_happen_and_can_be_filtered(api: ApiServer, tmp_path: Path) -> None:
    with opened(api, "#/events") as (_, page):
        expect(page.get_by_role("listitem").filter(has_text="Publishing").first).to_contain_text("live/main")
        with watched(api, "main", tmp_path) as viewer:
            expect(page.get_by_role("listitem").filter(has_text=viewer["peer_addr"]).first).to_be_visible()
        page.get_by_label("Kind").select_option("publish")
        expect(page.get_by_role("listitem").filter(has_text="Viewer joined")).to_have_count(0)
        expect(page.get_by_role("listitem").filter(has_text="Publishing").first).to_be_visible()
        page.get_by_label("Find events").fill("no such word")
        expect(page.get_by_text("No event is like that.")).to_be_visible()


def test_a_hostile_name_is_text(api: ApiServer, tmp_path: Path) -> None:
    with published(api, HOSTILE, tmp_path), opened(api) as (seen, page):
        page.on("dialog", fail_for)
        card = page.get_by_role("article").filter(has_text=HOSTILE)
        card.get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"live/{HOSTILE}")
        page.goto(f"{api.url}/#/events")
        expect(page.get_by_text(HOSTILE).first).to_be_visible()
        assert page.locator("img[src=x]").count() == 0
        assert seen.seen.console_errors == []


def test_settings_show_where_each_comes_from_and_check_a_text(api: ApiServer) -> None:
    with opened(api, "#/settings") as (_, page):
        row = page.locator('[data-key="recording.streams"]')
        expect(row).to_contain_text(api.get("/config")["settings"]["recording.streams"]["origin"])
        page.get_by_label("Text of a configuration file").fill("[limits]\nmax_connections = -1\n")
        page.get_by_role("button", name="Check").click()
        expect(page.get_by_role("status").filter(has_text="limits.max_connections")).to_be_visible()


def test_who_skips_to_the_content_stays_in_the_view(api: ApiServer) -> None:
    with opened(api, "#/settings") as (_, page):
        expect(page.get_by_role("heading", level=1)).to_have_text("Settings")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("main")).to_be_focused()
        page.wait_for_timeout(300)
        expect(page.get_by_role("heading", level=1)).to_have_text("Settings")


def test_walking_through_all_views_meets_no_error_and_no_other_host(api: ApiServer) -> None:
    with opened(api) as (seen, page):
        for view in (*VIEWS, "streams/live/main"):
            page.goto(f"{api.url}/#/{view}")
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            page.wait_for_timeout(300)
        assert seen.seen.console_errors == []
        assert seen.seen.foreign_requests == []


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious(api: ApiServer, width: int, is_dark: bool) -> None:
    with opened(api, width=width, is_dark=is_dark) as (_, page):
        for view in (*VIEWS, "streams/live/main"):
            page.goto(f"{api.url}/#/{view}")
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            page.wait_for_timeout(300)
            assert serious(page) == [], view
            # Nothing is wider than the screen.
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view


def fail_for(dialog: Dialog) -> None:
    pytest.fail(f"a script ran: {dialog.message}")


def serious(page: Page) -> list[str]:
    violations = Axe().run(page).response["violations"]
    found = [each for each in violations if each["impact"] in ("serious", "critical")]
    return [f"{each['id']}: {json.dumps([node['html'][:200] for node in each['nodes'][:3]])}" for each in found]


def test_the_first_paint_takes_little(api: ApiServer) -> None:
    with opened(api) as (_, page):
        expect(page.get_by_role("article").first).to_be_visible()
        sizes = page.evaluate(
            "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
            ".map((each) => each.encodedBodySize)"
        )
        assert 0 < sum(sizes) < FIRST_PAINT_BYTES


def test_an_empty_server_begins_with_how_to_start(tmp_path: Path) -> None:
    port = free_port()
    with api_server(tmp_path, ["--rtmp", f"127.0.0.1:{port}"]) as empty, opened(empty, "") as (seen, page):
        expect(page.get_by_role("heading", level=1)).to_have_text("Start here")
        expect(page.get_by_role("navigation", name="Main").get_by_role("link").first).to_have_text("Start here")
        expect(page.get_by_text(f"rtmp://127.0.0.1:{port}/live", exact=True)).to_be_visible()
        page.get_by_label("Stream", exact=True).fill("mine")
        page.get_by_role("tab", name="FFmpeg").click()
        expect(page.get_by_role("tabpanel")).to_contain_text("/live/mine")
        page.goto(f"{empty.url}/#/streams")
        expect(page.get_by_text("No streams now")).to_be_visible()
        assert seen.seen.console_errors == []


def test_a_stream_is_sent_on_and_no_more(api: ApiServer) -> None:
    with opened(api, "#/streams/live/main") as (seen, page):
        page.get_by_label("Name").fill("backup")
        page.get_by_label("Address").fill(f"rtmp://127.0.0.1:{free_port()}/live/{{stream}}")
        page.get_by_role("button", name="Send it there too").click()
        row = page.get_by_role("region", name="Push targets").get_by_role("row").filter(has_text="backup")
        expect(row).to_contain_text("retrying")
        assert api.get("/pushes")["items"][0]["streams"] == ["live/main"]
        row.get_by_role("button", name="Remove").click()
        page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        expect(row).to_have_count(0)
        assert api.get("/pushes")["items"] == []
        assert seen.seen.console_errors == []
