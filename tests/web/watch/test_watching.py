"""Watch pages of a real server, with a real publisher, in a real Chromium."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from playwright.sync_api import Page, Request, expect

from tests.support.browser import Browser, browser
from tests.support.processes import free_port
from tests.web.watch.watching import (
    PLAYER,
    WITHIN_MS,
    Watched,
    another_site,
    told,
    wait_for,
    wait_for_picture,
    watched,
    words,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


def test_a_page_shows_a_picture_that_moves_less_than_a_second_behind(site: Watched, chromium: Browser) -> None:
    with site.publishing("main"):
        page = chromium.page()
        page.goto(site.page_of("main"))
        wait_for_picture(page)
        wait_for(page, "p.stats.latency_ms < 1000 && p.stats.played_ms > 3000 && e.video.currentTime > 3")
        stats = told(page, "p.stats")
        expect(page.locator("#picture")).to_have_text("320 \N{MULTIPLICATION SIGN} 180")
        expect(page.locator("#codecs")).to_have_text("H.264, AAC")
        expect(page.locator("#state")).to_have_text("Live")
        expect(page.locator("#latency")).to_have_text(re.compile(r"^\d+ ms$"))
    assert stats["protocol"] == "http-mp4"
    assert stats["frames"] > 30
    assert stats["bitrate_bps"] > 50_000
    assert chromium.seen.console_errors == []
    assert chromium.seen.foreign_requests == []


def test_a_stream_that_is_not_there_is_waited_for(site: Watched, chromium: Browser) -> None:
    page = chromium.page()
    page.goto(site.page_of("later"))
    wait_for(page, "p.state === 'waiting'")
    assert words(page) == "This stream is not live now. It begins here as soon as it is."
    with site.publishing("later"):
        wait_for_picture(page)
        # What the stream let itself be waited for is not the player's.
        assert told(page, "p.stats.startup_ms") < 10_000


def test_a_picture_goes_on_when_its_publisher_comes_back(site: Watched, chromium: Browser) -> None:
    page = chromium.page()
    with site.publishing("again"):
        page.goto(site.page_of("again"))
        wait_for_picture(page)
    wait_for(page, "p.state === 'ended'")
    assert words(page) == "The stream has stopped. It goes on here as soon as it is back."
    with site.publishing("again"):
        wait_for_picture(page)
        wait_for(page, "p.stats.latency_ms < 1000")
    assert told(page, "e.video.error") is None


def test_a_codec_that_the_browser_cannot_decode_is_named(site: Watched, chromium: Browser) -> None:
    page = chromium.page()
    with site.publishing("new", "--codec", "hevc"):
        page.goto(site.page_of("new"))
        wait_for(page, "p.state === 'unsupported'")
        assert words(page) == "This browser cannot play HEVC"
    assert chromium.seen.console_errors == []


def test_names_are_text_and_nothing_else(site: Watched, chromium: Browser) -> None:
    name = "<img src=x onerror=alert(1)>&amp;"
    page = chromium.page()
    page.goto(site.page_of(quote(name, safe="")))
    expect(page.locator("#stream")).to_have_text(name)
    assert page.title() == name
    assert page.locator("img").count() == 0
    wait_for(page, "p.state === 'waiting'")


def test_pause_and_play_come_back_to_live_by_keys(site: Watched, chromium: Browser) -> None:
    page = chromium.page()
    with site.publishing("keys"):
        page.goto(site.page_of("keys"))
        wait_for_picture(page)
        page.locator("penstock-player").focus()
        page.keyboard.press("k")
        wait_for(page, "p.state === 'paused' && e.video.paused")
        # Paused, it falls behind; what is not watched is not fetched for ever.
        wait_for(page, "p.stats.latency_ms > 1500")
        page.keyboard.press(" ")
        wait_for(page, "p.state === 'playing' && p.stats.latency_ms < 1000")
        page.keyboard.press("m")
        wait_for(page, "e.video.muted")


def test_a_stream_that_is_not_there_is_not_paused_once_somebody_wants_it_again(
    site: Watched, chromium: Browser
) -> None:
    page = chromium.page()
    with site.publishing("held"):
        page.goto(site.page_of("held"))
        wait_for_picture(page)
    wait_for(page, "p.state === 'ended'")
    page.locator("penstock-player").focus()
    page.keyboard.press("k")
    wait_for(page, "p.state === 'paused'")
    page.keyboard.press("k")
    wait_for(page, "!e.video.paused && p.state !== 'paused'")
    assert words(page) != "Paused"
    with site.publishing("held"):
        wait_for_picture(page)


def test_a_browser_that_wants_a_click_for_sound_plays_without_it_at_first(site: Watched) -> None:
    with browser(plays_unasked=False) as chromium, site.publishing("quiet"):
        page = chromium.page()
        # Whatever Playwright asks of a page counts as a click on it. So the page tells by itself.
        look = f"if ({PLAYER}?.player?.state === 'playing') console.info('plays')"
        page.add_init_script(f"setInterval(() => {{ {look} }}, 50)")
        with page.expect_console_message(lambda message: message.text == "plays", timeout=WITHIN_MS):
            page.goto(site.page_of("quiet"))
        assert told(page, "[p.isMutedByBrowser, e.video.muted]") == [True, True]
        page.get_by_role("button", name="Turn sound on").click()
        wait_for(page, "!e.video.muted && !e.video.paused && !p.isMutedByBrowser")
        assert not page.get_by_role("button", name="Turn sound on").is_visible()


def test_the_player_alone_is_in_a_frame_of_another_site(site: Watched, chromium: Browser) -> None:
    html = f'<iframe src="{site.page_of("framed")}?embed=1" allow="autoplay"></iframe>'
    with site.publishing("framed"), another_site(html) as address:
        page = chromium.page()
        page.goto(address)
        frame = page.frames[1]
        wait_for_picture(frame)
        assert frame.locator("h1").is_hidden()
        box = frame.locator("penstock-player").bounding_box()
        assert box is not None
        assert (round(box["width"]), round(box["height"])) == (300, 150)
    assert chromium.seen.console_errors == []


def test_the_page_around_the_player_is_not_for_frames_of_other_sites(site: Watched, chromium: Browser) -> None:
    with another_site(f'<iframe src="{site.page_of("framed")}"></iframe>') as address:
        page = chromium.page()
        page.goto(address)
        page.wait_for_timeout(500)
        assert page.frames[1].locator("penstock-player").count() == 0
    assert any("frame-ancestors" in error for error in chromium.seen.console_errors)


def test_three_lines_put_the_player_into_another_site(site: Watched, chromium: Browser) -> None:
    page = chromium.page()
    with site.publishing("lines"):
        page.goto(site.page_of("lines"))
        wait_for_picture(page)
        lines = page.locator("#element").text_content() or ""
        assert len(lines.splitlines()) == 3
        with another_site(f"<!doctype html>{lines}") as address:
            asked = requests_of(page)
            page.goto(address)
            wait_for_picture(page)
        # One view for one viewer.
        assert len([url for url in asked if ".mp4" in url]) == 1
    assert chromium.seen.console_errors == []
    assert chromium.seen.foreign_requests == []


@pytest.mark.parametrize("is_dark", [False, True])
def test_a_page_fits_a_phone(site: Watched, *, is_dark: bool) -> None:
    with browser(width=360, height=740, is_dark=is_dark) as chromium:
        page = chromium.page()
        page.goto(site.page_of("a-long-name-without-any-place-to-break-it-in-two-and-more-of-it"))
        wait_for(page, "p.state === 'waiting'")
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every((n) => n < 64)")
        assert dark is is_dark


ACCESS = """
[access.live]
publish = ["open"]
play = ["key"]
keys = ["viewer:sha256:{digest}"]
"""


def requests_of(page: Page) -> list[str]:
    seen: list[str] = []

    def note(request: Request) -> None:
        seen.append(request.url)

    page.on("request", note)
    return seen


def test_a_key_in_the_address_lets_in_and_goes_to_media_alone(tmp_path: Path, chromium: Browser) -> None:
    key = "6xygj3cykoilmjp4zqtyw27yfwcid6ro"
    config = ACCESS.format(digest="26baf35368d832461705288f75396f8c768df0286fe66faf991333babaa3a260")
    with watched(tmp_path, config) as site, site.publishing("main"):
        page = chromium.page()
        page.goto(site.page_of("main"))
        wait_for(page, "p.state === 'denied'")
        assert words(page) == "You may not watch this stream. The link may have expired, or lacks a key."
        asked = requests_of(page)
        page.goto(f"{site.page_of('main')}?key={key}&embed=0")
        wait_for_picture(page)
        assert key not in (page.locator("main").text_content() or "")
        with_key = {url.partition("?")[0].removeprefix(site.url) for url in asked if key in url}
        assert with_key == {"/live/main", "/live/main.mp4", "/live/main.jpg"}


def told_beacons(site: Watched) -> int:
    with urlopen(f"{site.url}/metrics", timeout=10) as answer:
        figures = answer.read().decode()
    return int(float(re.findall(r'^penstock_beacons_total\{result="told"\} (\S+)$', figures, re.MULTILINE)[0]))


def test_the_server_is_told_what_a_viewer_saw(site: Watched, chromium: Browser) -> None:
    with site.publishing("beacons"):
        page = chromium.page()
        before = told_beacons(site)
        with page.expect_request("**/beacon", timeout=WITHIN_MS) as expected:
            page.goto(site.page_of("beacons"))
        (beacon,) = json.loads(expected.value.post_data or "")["beacons"]
        assert set(beacon) == {
            "view",
            "startup_ms",
            "played_ms",
            "stalls",
            "stalled_ms",
            "latency_ms",
            "dropped_frames",
        }
        assert beacon["startup_ms"] > 0
        assert "cookie" not in expected.value.all_headers()
        give_up_at = time.monotonic() + WITHIN_MS / 1000
        while told_beacons(site) == before:
            assert time.monotonic() < give_up_at, "no worker was told"
            time.sleep(0.5)


def test_where_pages_have_a_port_of_their_own_that_port_is_told_what_a_viewer_saw(
    tmp_path: Path, chromium: Browser
) -> None:
    pages, media = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    config = f'[http]\nweb_listen = "{pages}"\n'
    with watched(tmp_path, config, ["--http", media]) as site, site.publishing("apart"):
        page = chromium.page()
        with page.expect_response("**/beacon", timeout=WITHIN_MS) as expected:
            page.goto(f"http://{pages}/live/apart")
        assert (expected.value.url, expected.value.status) == (f"http://{pages}/beacon", 204)
    assert chromium.seen.console_errors == []


def test_a_page_comes_back_by_itself_when_the_server_does(tmp_path: Path, chromium: Browser) -> None:
    address = ["--http", f"127.0.0.1:{free_port()}"]
    page = chromium.page()
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
    with watched(tmp_path / "first", options=address) as site, site.publishing("main"):
        page.goto(site.page_of("main"))
        wait_for_picture(page)
    wait_for(page, "p.state === 'unreachable'")
    assert words(page) == "The server does not answer. Trying again."
    with watched(tmp_path / "second", options=address) as site, site.publishing("main"):
        wait_for_picture(page)
        wait_for(page, "p.stats.latency_ms < 1000")


def test_without_mse_a_stream_is_played_by_the_browsers_own_hls(site: Watched, chromium: Browser) -> None:
    begin = """async (address) => {
        const { Player } = await import("/watch/player.js");
        const video = document.body.appendChild(document.createElement("video"));
        const player = new Player(video, { address, prefersHls: true });
        const played = new Promise((resolve) => {
          video.addEventListener("timeupdate", () => video.currentTime > 1 && resolve());
        });
        player.start();
        await played;
        return [player.state, player.stats.protocol, video.videoWidth];
    }"""
    with site.publishing("hls"):
        page = chromium.page()
        page.goto(site.page_of("nothing"))
        assert page.evaluate(begin, "/live/hls") == ["playing", "hls", 320]


def test_the_browsers_own_hls_comes_back_when_its_stream_does(site: Watched, chromium: Browser) -> None:
    begin = """async (address) => {
        const { Player } = await import("/watch/player.js");
        const video = document.body.appendChild(document.createElement("video"));
        window.player = new Player(video, { address, prefersHls: true });
        window.player.start();
        const seen = [];
        let told = 0;
        window.player.addEventListener("state", () => seen.push(window.player.state));
        window.comesTo = async (state) => {
          const ends_ms = performance.now() + WITHIN_MS;
          while (window.player.state !== state && performance.now() < ends_ms) {
            await new Promise((resolve) => setTimeout(resolve, 50));
          }
          const since = seen.slice(told);
          told = seen.length;
          return [...since, window.player.state];
        };
    }""".replace("WITHIN_MS", str(WITHIN_MS))
    page = chromium.page()
    with site.publishing("over"):
        page.goto(site.page_of("nothing"))
        page.evaluate(begin, "/live/over")
        assert page.evaluate("comesTo('playing')")[-1] == "playing"
    seen = page.evaluate("comesTo('waiting')")
    assert "playing" not in seen[seen.index("ended") :], "the last of it was shown again"
    assert seen[-1] == "waiting"
    with site.publishing("over"):
        assert page.evaluate("comesTo('playing')")[-1] == "playing"
