"""The page while its server goes, comes back, or takes a token away."""

import os
import re
import signal
from pathlib import Path

from playwright.sync_api import expect

from penstock.access.keys import role_line
from tests.support.processes import free_port
from tests.web.api.api_server import api_server
from tests.web.page.pages import opened, published


def test_a_restart_of_the_server_mends_itself(tmp_path: Path) -> None:
    options = ["--http", f"127.0.0.1:{free_port()}"]
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first = api_server(tmp_path / "first", options)
    api = first.__enter__()
    with opened(api) as (_, page):
        expect(page.get_by_text("No streams now")).to_be_visible()
        page.evaluate("window.isSamePage = true")
        first.__exit__(None, None, None)
        banner = page.get_by_role("status").filter(has_text="No connection to the server.")
        expect(banner).to_contain_text(re.compile(r"Figures are those of \d\d:\d\d:\d\d"))
        with api_server(tmp_path / "second", options) as second, published(second, "again", tmp_path):
            expect(page.get_by_role("article")).to_contain_text("live/again")
            expect(banner).to_have_count(0)
            assert page.evaluate("window.isSamePage") is True


def test_figures_stop_while_the_server_does_not_answer(tmp_path: Path) -> None:
    with api_server(tmp_path) as api, published(api, "main", tmp_path), opened(api) as (_, page):
        expect(page.get_by_role("article")).to_contain_text("live/main")
        # The one who accepts connections.
        os.kill(api.server.program.pid, signal.SIGSTOP)
        try:
            expect(page.get_by_text("No connection to the server.")).to_be_visible(timeout=30_000)
            before = page.get_by_role("article").inner_text()
            page.wait_for_timeout(1500)
            assert page.get_by_role("article").inner_text() == before
        finally:
            os.kill(api.server.program.pid, signal.SIGCONT)
        expect(page.get_by_text("No connection to the server.")).to_have_count(0, timeout=30_000)


def test_a_revoked_token_signs_out(tmp_path: Path) -> None:
    token = "c" * 32
    with api_server(tmp_path) as api:
        config = tmp_path / "penstock.toml"
        without = config.read_text()
        config.write_text(re.sub(r"keys = \[", f'keys = ["{role_line("guest", "operate", token)}", ', without, count=1))
        api.ask("POST", "/api/v1/config/reload").raise_for_status()
        with opened(api, token=token) as (_, page):
            expect(page.get_by_text("guest")).to_be_visible()
            config.write_text(without)
            api.ask("POST", "/api/v1/config/reload").raise_for_status()
            expect(page.get_by_role("dialog")).to_contain_text("That token is not known here, or not any more.")
