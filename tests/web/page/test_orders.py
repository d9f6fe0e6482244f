"""Orders on the page whose outcome is elsewhere: a file that is deleted, a link that plays, figures made anew."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from penstock.access.keys import key_line
from penstock.errors import PipelineError
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.queries.answers import QueryRunner
from penstock.pipeline.queries.sql_service import Notify, SqlService
from penstock.pipeline.reports.serving import write_serving
from tests.web.api.api_server import ApiServer, api_server
from tests.web.page.pages import WITHIN_MS, opened, published, until
from tests.web.watch.watching import wait_for_picture

RULES = f"""
[access.live]
publish = ["open"]
play = ["key"]
keys = ["{key_line("studio", "6xygj3cykoilmjp4zqtyw27yfwcid6ro")}"]
"""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with api_server(tmp_path_factory.mktemp("orders"), ["--record", "live/kept"], RULES) as served:
        yield served


def test_deleting_a_recording_asks_first_and_removes_file_and_row(api: ApiServer, tmp_path: Path) -> None:
    with published(api, "kept", tmp_path, "--seconds", "3") as publisher:
        assert publisher.wait_for_exit(60) == 0
    (recording,) = until(lambda: [each for each in api.get("/recordings")["items"] if each["status"] == "closed"])
    file = api.server.program.log_path.parent / "data" / "recordings" / recording["path"]
    with opened(api, "#/recordings") as (seen, page):
        row = page.get_by_role("row").filter(has_text=recording["path"])
        delete = row.get_by_role("button", name="Delete")
        dialog = page.get_by_role("dialog")
        delete.click()
        expect(dialog).to_contain_text(f"{recording['path']} is deleted from the disk of the server for good.")
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_have_count(0)
        expect(row).to_be_visible()
        assert file.exists()
        delete.click()
        dialog.get_by_role("button", name="Delete").click()
        expect(row).to_have_count(0)
        expect(page.get_by_text(f"{recording['path']} is deleted", exact=True)).to_be_visible()
        assert api.get("/recordings")["items"] == []
        assert not file.exists()
        assert seen.seen.console_errors == []


def test_a_link_that_was_made_plays_where_nobody_else_may(api: ApiServer, tmp_path: Path) -> None:
    with published(api, "main", tmp_path), opened(api, "#/access") as (seen, page):
        maker = page.locator("section").filter(has=page.get_by_role("heading", name="Make a link to watch"))
        maker.get_by_label("Stream", exact=True).fill("main")
        maker.get_by_label("For how long").select_option("5 minutes")
        maker.get_by_role("button", name="Make a link").click()
        made = maker.locator(".snippet-row").filter(has=page.get_by_role("heading", name="Page", exact=True))
        link = made.locator("code").inner_text()
        expect(page.get_by_text("may watch live/main until")).to_be_visible()
        assert httpx.get(f"{api.url}/live/main.m3u8", trust_env=False).status_code == 401
        # A browser of its own would have no more than this: tokens are in the storage of the other tab.
        watching = seen.page()
        watching.goto(link)
        wait_for_picture(watching)
        assert {each["rule"] for each in api.get("/viewers")["items"]} == {"server"}
        assert seen.seen.console_errors == []


class Pipeline:
    """As far as it writes the files that the page is drawn from, or fails to."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self.asked = 0

    def refresh(self, notify: Notify) -> None:
        self.asked += 1
        if self.asked > 1:
            raise PipelineError("the disk is full")
        write_serving(Storage(self._lake), datetime.now(UTC))

    @contextlib.contextmanager
    def session(self, notify: Notify) -> Iterator[QueryRunner]:
        raise PipelineError("not asked for")
        yield


def test_the_button_for_new_figures_asks_the_pipeline_and_says_what_became_of_it(api: ApiServer) -> None:
    data = api.server.program.log_path.parent / "data"
    pipeline = Pipeline(data / "lake")
    with opened(api, "#/analytics") as (seen, page):
        button = page.get_by_role("button", name="New figures")
        expect(page.get_by_text("No figures yet")).to_be_visible()
        expect(button).to_be_disabled()
        assert pipeline.asked == 0
        # The page asks for its state every five seconds.
        with SqlService(pipeline, data):
            expect(button).to_be_enabled(timeout=WITHIN_MS)
            button.click()
            expect(page.get_by_text("The pipeline was asked for new figures")).to_be_visible()
            told = page.get_by_role("status").filter(has_text="As of")
            expect(told).to_contain_text("old.", timeout=WITHIN_MS)
            assert pipeline.asked == 1
            expect(button).to_be_enabled(timeout=WITHIN_MS)
            button.click()
            expect(told).to_contain_text("The last attempt failed:", timeout=WITHIN_MS)
            expect(told).to_contain_text("the disk is full")
            assert pipeline.asked == 2
        assert seen.seen.console_errors == []
