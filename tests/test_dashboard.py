"""The dashboard for Grafana: every query names metrics that the server has, with labels that they have."""

import json
import re
from typing import Any

import pytest

from tests.test_architecture import REPOSITORY
from tests.test_docs import exposed_metrics

DASHBOARD = REPOSITORY / "contrib" / "grafana" / "penstock.json"
METRIC = re.compile(r"\b(?:penstock|process)_\w+")
OF_PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"}
SUFFIXES = {"counter": (), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return found


def known_metrics() -> set[str]:
    # The type of a counter is told under the name of its samples, _total included.
    return OF_PROCESS | {
        name + suffix
        for name, kind in exposed_metrics()
        for suffix in (*SUFFIXES[kind], *([""] if kind == "counter" else []))
    }


def unknown_metrics(queries: list[str]) -> list[str]:
    known = known_metrics()
    return [name for query in queries for name in METRIC.findall(query) if name not in known]


def queries_of(board: dict[str, Any]) -> list[str]:
    of_panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return of_panels + [each["query"] for each in board["templating"]["list"] if each["type"] == "query"]


def test_every_query_names_metrics_that_exist() -> None:
    queries = queries_of(dashboard())
    assert len(queries) > 20
    assert [query for query in queries if not METRIC.search(query)] == []
    assert unknown_metrics(queries) == []


@pytest.mark.parametrize(
    "query", ["penstock_stream_viewer", "rate(penstock_sent_bytes[1m])", "penstock_pump_round_seconds"]
)
def test_a_metric_that_is_not_there_is_found(query: str) -> None:
    assert len(unknown_metrics([query])) == 1


def test_panels_have_titles_and_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
    assert len({panel["title"] for panel in panels}) == len({panel["id"] for panel in panels}) == len(panels)


def test_queries_are_of_the_chosen_servers() -> None:
    chosen = re.compile(r"\{instance=~\"\$instance\"")
    of_panels = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    assert [query for query in of_panels if len(METRIC.findall(query)) != len(chosen.findall(query))] == []
