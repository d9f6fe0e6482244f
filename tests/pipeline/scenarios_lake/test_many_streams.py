"""An absurd number of streams goes through all tables in bounded memory; `bench.many_streams` takes a million."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.many_streams import SENT_BYTES

ROOT = Path(__file__).parents[3]
STREAMS = 10_000
GROWN_MIB = 300
"""Of Python, by a million streams 182; Java has its heap."""


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    """Half of the default heap, which Spark needs to start at all."""
    command = [sys.executable, "-m", "bench.many_streams", "--streams", str(STREAMS), "--heap", "512m"]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, timeout=600)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


@pytest.mark.parametrize("table", ["silver.publications", "silver.views", "gold.stream_health", "gold.usage"])
def test_every_stream_is_in_every_table(measured: dict[str, Any], table: str) -> None:
    assert measured["rows"][table] == STREAMS
    assert measured["quarantined"] == 0


def test_usage_of_the_lost_server_is_that_of_the_last_samples_of_its_streams(measured: dict[str, Any]) -> None:
    assert measured["egress_bytes"] == STREAMS * SENT_BYTES


def test_the_driver_keeps_nothing_of_each_stream(measured: dict[str, Any]) -> None:
    assert measured["python_grown_mib"] < GROWN_MIB
    assert measured["state_bytes"] < 20_000
