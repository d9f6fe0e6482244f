"""What the page does when answers are refused, cut off or late, and when what it asks for is not taken."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from penstock.access.keys import key_line
from tests.support.processes import free_port
from tests.web.api.api_server import TOKEN, ApiServer, api_server
from tests.web.page.pages import opened, published, until

RULES = f"""loopback_reads = false
[access.live]
publish = ["open"]
play = ["key"]
keys = ["{key_line("studio", "6xygj3cykoilmjp4zqtyw27yfwcid6ro")}"]
"""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder = tmp_path_factory.mktemp("faults")
    with api_server(folder, config=RULES) as served, published(served, "main", folder):
        yield served


def test_who_signs_out_asks_for_nothing_more(api: ApiServer) -> None:
    with opened(api) as (_, page):
        expect(page.get_by_role("article")).to_contain_text("live/main")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("dialog")).to_contain_text("This server asks for a token.")
        page.wait_for_timeout(1500)
        assert len(asked) < 10
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("article")).to_contain_text("live/main")
        page.goto(f"{api.url}/#/events")
        expect(page.get_by_role("listitem").filter(has_text="Publishing").first).to_contain_text("live/main")


def test_what_cannot_be_a_token_is_not_taken_for_one(api: ApiServer) -> None:
    with opened(api, token=None) as (_, page):
        # As word processors make of a quoted word: a header cannot carry it.
        page.get_by_label("Token").fill("\u201caaaa\u201d")
        page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
        assert (
            page.get_by_label("Token").evaluate("input => input.validationMessage") == "A token is letters and digits."
        )
        page.get_by_label("Token").fill(f" {TOKEN} ")
        page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("article")).to_contain_text("live/main")


def test_an_answer_that_is_cut_off_ends_nothing(api: ApiServer) -> None:
    with opened(api) as (seen, page):
        expect(page.get_by_role("article")).to_contain_text("live/main")
        page.route("**/api/v1/server", lambda route: route.fulfill(status=200, body='{"server_id": "no'))
        expect(page.get_by_text("No connection to the server.")).to_be_visible()
        page.unroute("**/api/v1/server")
        expect(page.get_by_text("No connection to the server.")).to_have_count(0)
        assert seen.seen.console_errors == []


def test_figures_that_are_refused_are_told_in_the_words_of_the_server(api: ApiServer) -> None:
    def refuse(route: Route) -> None:
        route.fulfill(status=409, content_type="application/problem+json", body='{"detail": "Not today."}')

    with opened(api, "#/server") as (_, page):
        expect(page.get_by_role("region", name="Workers")).to_contain_text("Worker 1")
        page.route("**/api/v1/workers", refuse)
        expect(page.get_by_text("The server refuses figures: Not today.")).to_be_visible()
        page.unroute("**/api/v1/workers")
        expect(page.get_by_text("The server refuses figures")).to_have_count(0)


def test_a_view_that_could_not_be_loaded_is_opened_when_the_server_is_back(api: ApiServer) -> None:
    with opened(api) as (_, page):
        expect(page.get_by_role("article")).to_contain_text("live/main")
        page.route("**/api/v1/**", lambda route: route.abort())
        page.route("**/page/views/access.js", lambda route: route.abort())
        expect(page.get_by_text("No connection to the server.")).to_be_visible()
        page.get_by_role("link", name="Access").click()
        page.wait_for_timeout(300)
        expect(page.get_by_role("heading", level=1)).to_have_text("Streams")
        page.unroute("**/page/views/access.js")
        page.unroute("**/api/v1/**")
        expect(page.get_by_role("heading", level=1)).to_have_text("Access")


def test_what_is_wrong_with_an_order_is_said_field_by_field(api: ApiServer) -> None:
    with opened(api, "#/access") as (_, page):
        page.get_by_label("Keep out").fill("not an address")
        page.get_by_role("button", name="Keep out").click()
        page.get_by_role("dialog").get_by_role("button", name="Keep out").click()
        expect(page.get_by_text("Not taken: address should be an address of IPv4 or IPv6.")).to_be_visible()


def test_a_link_may_be_made_for_each_length_that_is_offered(api: ApiServer) -> None:
    with opened(api, "#/access") as (_, page):
        lengths = page.get_by_label("For how long").first
        page.get_by_label("Stream", exact=True).fill("main")
        for title in lengths.locator("option").all_inner_texts():
            lengths.select_option(title)
            with page.expect_response("**/api/v1/links") as answer:
                page.get_by_role("button", name="Make a link").click()
            assert answer.value.status == 201, title


def test_the_player_begins_with_a_link_of_its_own_that_lasts(api: ApiServer) -> None:
    with opened(api) as (_, page):
        # The picture on the card is asked for by a link too, which may be near its end.
        expect(page.get_by_role("article").locator("img")).to_be_visible(timeout=30_000)
        with page.expect_request("**/api/v1/links"):
            page.get_by_role("article").get_by_role("link").click()


def test_a_clock_that_is_wrong_here_does_not_change_how_long_something_lasts(api: ApiServer) -> None:
    with opened(api, "healthz") as (_, page):
        page.add_init_script("const now = Date.now; Date.now = () => now.call(Date) + 86400000;")
        page.goto(f"{api.url}/#/streams")
        up = page.get_by_role("article").locator(".card-top .chip").last
        expect(up).to_have_text(re.compile(r"^\d:\d\d$"))


def test_the_picture_comes_back_after_a_restart_though_links_of_before_are_void(tmp_path: Path) -> None:
    options = ["--http", f"127.0.0.1:{free_port()}"]
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first = api_server(tmp_path / "first", options, RULES)
    api = first.__enter__()
    video = "document.querySelector('video')?.currentTime > 0.5"
    with opened(api, "#/streams/live/main") as (_, page):
        with published(api, "main", tmp_path / "first"):
            until(lambda: page.evaluate(video))
        first.__exit__(None, None, None)
        expect(page.get_by_text("No connection to the server.")).to_be_visible()
        with api_server(tmp_path / "second", options, RULES) as second, published(second, "main", tmp_path / "second"):
            until(lambda: page.evaluate(video), 30)
            until(lambda: [each["rule"] for each in second.get("/viewers")["items"]] == ["server"])
