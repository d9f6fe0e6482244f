"""How tests run here: which beside which, and hypothesis with few examples and no deadline, since machines are shared.

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
COMPUTES: Final = (
    ".",
    "access",
    "amf",
    "control",
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
    "pulls",
    "pushes",
    "relay",
    "relay/encodings",
    "relay/packaging",
    "serve/connections",
    "serve/http/hls",
    "serve/pulls",
    "serve/pushing",
    "serve/sending",
    "serve/streams",
    "serve/streams/access",
    "serve/thumbnails/test_site.py",
    "serve/thumbnails/test_thumbnails.py",
    "web/analytics",
    "web/api",
    "web/events/test_event_log.py",
    "web/incidents",
    "web/kept_lists",
    "web/live",
    "web/page/test_static_files.py",
    "web/recorded",
    "web/watch/test_site.py",
)
WAITS: Final = (
    "bench",
    "client",
    "commands",
    "commands/api",
    "interop",
    "pipeline/scenarios/test_up.py",
    "scenarios",
    "serve",
    "serve/connections/test_tls.py",
    "serve/connections/test_tls_acceptor.py",
    "serve/connections/test_tls_handshake.py",
    "serve/http",
    "serve/links",
    "serve/outgoing",
    "serve/pushing/test_pushes_live.py",
    "serve/recording",
    "serve/sending/test_memfd.py",
    "serve/sending/test_send_ring.py",
    "serve/supervisor",
    "serve/telemetry",
    "serve/telemetry/pushes",
    "serve/thumbnails",
    "test_certificates.py",
    "tools",
    "web",
    "web/access",
    "web/api/test_analytics_of_a_server.py",
    "web/api/test_links_of_a_server.py",
    "web/api/test_live.py",
    "web/api/test_media_of_recordings.py",
    "web/api/test_schema.py",
    "web/api/test_test_stream.py",
    "web/events",
    "web/hooks",
    "web/page",
    "web/programs",
    "web/watch",
    "workers",
)
KINDS: Final = dict.fromkeys(COMPUTES, "computes") | dict.fromkeys(WAITS, "waits")
"""What tests of a folder or a module do most of the time: compute, or wait for streams in real time and for programs.

A module or a test among them that measures a latency or a memory is marked as alone.
"""
LONGEST: Final = (
    "pipeline/scenarios_lake/test_killed_runs.py",
    "pipeline/ops/test_migrate.py",
    "pipeline/scenarios_lake/test_kept_rows.py",
    "test_examples.py",
    "pipeline/test_interrupted.py",
    "web/test_process.py",
    "web/page/test_page.py",
    "web/watch/test_watching.py",
    "workers/test_workers_http.py",
    "web/page/test_pictures.py",
    "interop/test_hls.py",
    "serve/pushing/test_pushes_live.py",
    "web/page/test_connection.py",
    "workers/test_workers_media.py",
    "pipeline/scenarios/test_up.py",
    "scenarios/test_edges.py",
    "web/page/test_media.py",
    "scenarios/test_slow_viewers.py",
    "scenarios/test_publishers.py",
    "interop/test_server_ffmpeg.py",
    "interop/test_server_enhanced.py",
)
"""Modules that begin first, so that no process is left with one of them at the end."""


TWO_WORKERS: Final = (
    "interop/test_server_captures.py",
    "interop/test_server_ffmpeg.py",
    "scenarios/test_controls.py",
    "scenarios/test_hostile_peers.py",
    "scenarios/test_joining.py",
    "scenarios/test_publishers.py",
    "scenarios/test_slow_viewers.py",
)
"""Modules whose servers have two workers in a second run; PENSTOCK_SERVER_WORKERS says so to all that start one."""


def kind_of(module: Path) -> str:
    """A module that is not in the table, nor its folder, is alone: slow at worst, and not flaky."""
    place = module.relative_to(TESTS)
    return KINDS.get(place.as_posix()) or KINDS.get(place.parent.as_posix(), "alone")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where one kind is asked for, modules of another are not imported: with Spark's, that takes each process 10 s."""
    wanted = config.getoption("markexpr")
    if collection_path.suffix != ".py":
        return None
    if wanted.startswith("two_workers"):
        return None if _is_for_two_workers(collection_path) else True
    is_other = wanted in KINDS.values() and kind_of(collection_path) != wanted
    return True if is_other else None


def _is_for_two_workers(module: Path) -> bool:
    return module.relative_to(TESTS).as_posix() in TWO_WORKERS


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test its kind, and begin with the longest modules."""
    places = {TESTS / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
    for item in items:
        if item.get_closest_marker("alone") is None:
            item.add_marker(getattr(pytest.mark, kind_of(item.path)))
        if _is_for_two_workers(item.path):
            item.add_marker(pytest.mark.two_workers)
