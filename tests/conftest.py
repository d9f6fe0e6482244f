"""How tests run here: which of them alone, and hypothesis with few examples and no deadline, since machines are shared.

In CI the examples are the same each time, so that a red run is the fault of the change in hand.
"""

import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("local", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

TESTS: Final = Path(__file__).parent
SIDE_BY_SIDE: Final = frozenset(
    {
        "amf",
        "media",
        "pipeline",
        "pipeline/build",
        "pipeline/engine",
        "pipeline/ingest",
        "pipeline/jobs",
        "pipeline/lake",
        "pipeline/ops",
        "pipeline/queries",
        "pipeline/reports",
        "pipeline/scenarios_lake",
        "pipeline/sources",
        "pipeline/sources/flv",
        "pipeline/sources/rtmp",
        "pipeline/transforms",
        "pipeline/transforms/gold",
        "pipeline/transforms/rollup",
        "pipeline/transforms/silver",
        "protocol",
        "relay",
        "serve/connections",
        "serve/streams",
    }
)
"""Folders of tests that compute, or wait for Spark. A module there with a server or a measured time is marked alone."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as alone whatever is in another folder, so that a new folder is slow at worst, and not flaky."""
    for item in items:
        if item.path.parent.relative_to(TESTS).as_posix() not in SIDE_BY_SIDE:
            item.add_marker(pytest.mark.alone)
