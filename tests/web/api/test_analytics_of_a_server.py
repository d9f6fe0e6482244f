"""Figures out of the tables, from a real server: those that the pipeline wrote, and new ones through its socket."""

import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PipelineError
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.queries.answers import QueryRunner
from penstock.pipeline.queries.sql_service import Notify, SqlService
from penstock.pipeline.reports.serving import write_serving
from tests.web.api.api_server import ApiServer, api_server

PARTS = {"now", "audience", "quality", "health", "incidents", "usage", "recordings"}


class Writer:
    """The pipeline, as far as it writes these files."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake

    def refresh(self, notify: Notify) -> None:
        write_serving(Storage(self._lake), datetime.now(UTC))

    @contextlib.contextmanager
    def session(self, notify: Notify) -> Iterator[QueryRunner]:
        raise PipelineError("not asked for")
        yield


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with api_server(tmp_path_factory.mktemp("analytics")) as served:
        yield served


def data(api: ApiServer) -> Path:
    return api.server.program.log_path.parent / "data"


def refreshed(api: ApiServer) -> dict[str, Any]:
    ends_at = time.monotonic() + 15
    while (found := api.get("/analytics"))["refresh"]["state"] == "running":
        assert time.monotonic() < ends_at
        time.sleep(0.05)
    return dict(found)


def test_before_the_first_run_there_is_nothing_and_nobody_to_ask(api: ApiServer) -> None:
    found = api.get("/analytics")
    assert {each["part"]: each["as_of"] for each in found["parts"]} == dict.fromkeys(PARTS)
    assert found["pipeline"] == {
        "is_running": False,
        "runs": 0,
        "failures": 0,
        "last_run_at": None,
        "last_run_s": None,
        "lag_s": None,
    }
    missing = api.ask("GET", "/api/v1/analytics/audience")
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")
    refused = api.ask("POST", "/api/v1/analytics/refresh")
    assert (refused.status_code, "penstock up" in refused.json()["detail"]) == (409, True)
    assert api.ask("GET", "/api/v1/analytics/secrets").status_code == 422


def test_new_figures_are_asked_for_and_come_from_the_pipelines_files(api: ApiServer) -> None:
    with SqlService(Writer(data(api) / "lake"), data(api)):
        assert api.get("/analytics")["pipeline"]["is_running"]
        answer = api.ask("POST", "/api/v1/analytics/refresh")
        assert (answer.status_code, answer.json()["state"]) == (202, "running")
        assert refreshed(api)["refresh"]["state"] == "done"
    for part in PARTS:
        found = api.get(f"/analytics/{part}")
        assert (found["part"], found["age_s"] < 60) == (part, True)
    assert api.get("/analytics/audience")["figures"]["streams"] == []
    assert api.get("/analytics/incidents")["figures"] == {"incidents": [], "incidents_left_out": 0}


def test_who_may_only_read_asks_for_nothing(api: ApiServer) -> None:
    assert api.ask("POST", "/api/v1/analytics/refresh", headers={}).status_code == 401


def test_neither_spark_nor_arrow_is_in_the_web_process(api: ApiServer) -> None:
    api.get("/analytics")
    web = next(each["pid"] for each in api.get("/server")["processes"] if each["role"] == "web")
    mapped = Path(f"/proc/{web}/maps").read_text()
    assert "libarrow" not in mapped
    assert "deltalake" not in mapped


def test_a_server_whose_facts_go_nowhere_and_whose_lake_is_elsewhere_says_so(tmp_path: Path) -> None:
    config = '[facts]\nenabled = false\n[pipeline]\nlake = "s3a://bucket/lake"\n'
    with api_server(tmp_path, [], config) as api:
        refused = api.ask("POST", "/api/v1/analytics/refresh")
        assert (refused.status_code, "facts.enabled" in refused.json()["detail"]) == (409, True)
        elsewhere = api.ask("GET", "/api/v1/analytics/usage")
        assert (elsewhere.status_code, "not on this machine" in elsewhere.json()["detail"]) == (409, True)
