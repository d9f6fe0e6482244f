"""The whole schema against a real server: Schemathesis asks everything that it allows, and much that it does not.

No answer may be a 5xx, and each has to be as described: status, content type, headers and shape. What ends the server
is asked last, while a connection keeps it from ending.
"""

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import ignored_auth

from penstock.web.api.app import make_app
from penstock.web.events import routes as event_routes
from penstock.web.events.batches import Batches
from penstock.web.events.rhythm import Rhythm
from penstock.web.events.subscription import EventFeed
from penstock.web.hooks import routes as hook_routes
from penstock.web.hooks.hooks import Hooks
from tests.support.processes import running
from tests.web.api.api_server import HEADERS, ApiServer, api_server
from tests.web.api.calling import Caller

DRAIN = "/api/v1/drain"
CHECK = "/api/v1/config/check"
EVENTS = "/api/v1/events"
BOUNDED = settings(
    max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def operations() -> list[tuple[str, str]]:
    caller = Caller(Path(tempfile.gettempdir()))
    feed = EventFeed(Batches(caller.happenings.log), Rhythm(), time.monotonic)
    more = (event_routes.router(feed), hook_routes.router(cast("Hooks", None)))
    paths = make_app(caller.context, more).openapi()["paths"]
    found = [(path, method) for path, methods in paths.items() for method in methods]
    return sorted(found, key=lambda each: each[0] == DRAIN)


@schemathesis.serializer("application/toml")
def as_toml(_context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder = tmp_path_factory.mktemp("api")
    with api_server(folder, ["--record", "all"]) as served:
        url = served.server.url("a")
        publish = [sys.executable, "-m", "penstock", "publish", url, "--test-pattern", "--size", "64x64"]
        play = [sys.executable, "-m", "penstock", "play", url, "--output", str(folder / "played.flv")]
        with running(publish, folder / "publish.log"), running(play, folder / "play.log"):
            yield served


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("path", "method"), operations())
def test_every_answer_is_as_described(server: ApiServer, path: str, method: str, mode: GenerationMode) -> None:
    if path == CHECK and mode is GenerationMode.NEGATIVE:
        pytest.skip("whatever is sent is a text")
    schema = schemathesis.openapi.from_url(f"{server.url}/api/v1/openapi.json")

    @BOUNDED
    @given(case=schema[path][method].as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        if path == EVENTS:
            begin_to_follow(server, case)
            return
        if path == DRAIN:
            keep_the_server(case)
        # It asks by wrong tokens each time, whose answers wait: `test_wrong_tokens` and `test_routes` look at those.
        case.call_and_validate(headers=HEADERS, excluded_checks=[ignored_auth])

    # What takes nothing cannot be asked wrongly.
    with contextlib.suppress(Unsatisfiable):
        ask()


def begin_to_follow(server: ApiServer, case: Any) -> None:
    """An answer without an end: its head has to be as described, and the rest is not waited for."""
    request = case.as_transport_kwargs(base_url=server.url, headers=HEADERS)
    with requests.request(**request, stream=True, timeout=10) as answer:
        assert answer.status_code in (200, 403, 422)
        kind = "text/event-stream" if answer.status_code == 200 else "application/problem+json"
        assert answer.headers["content-type"].partition(";")[0] == kind


def keep_the_server(case: Any) -> None:
    """A drain that lasts longer than the test, and as much within its bounds as before."""
    within_s = case.body.get("within_s", 30.0) if isinstance(case.body, dict) else None
    if isinstance(within_s, int | float) and not isinstance(within_s, bool) and 0 <= within_s <= 86_400:
        case.body["within_s"] = 80_000.0
