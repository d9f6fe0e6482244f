"""The whole schema against a real server: Schemathesis asks everything that it allows, and much that it does not.

No answer may be a 5xx, and each has to be as described: status, content type, headers and shape. What ends the server
is asked last, while a connection keeps it from ending.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from tests.support.processes import running
from tests.web.api.api_server import HEADERS, ApiServer, api_server

pytestmark = pytest.mark.waits

BOUNDED = settings(
    max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@schemathesis.serializer("application/toml")
def as_toml(_context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder: Path = tmp_path_factory.mktemp("api")
    with api_server(folder, ["--record", "all"]) as served:
        import sys

        url = served.server.url("a")
        publish = [sys.executable, "-m", "penstock", "publish", url, "--test-pattern", "--size", "64x64"]
        play = [sys.executable, "-m", "penstock", "play", url]
        with running(publish, folder / "publish.log"), running(play, folder / "play.log"):
            yield served


@pytest.fixture(scope="module")
def schema(server: ApiServer) -> Any:
    return schemathesis.openapi.from_url(f"{server.url}/api/v1/openapi.json")


everything = schemathesis.pytest.from_fixture("schema")


@everything.exclude(path="/api/v1/drain").parametrize()
@BOUNDED
def test_every_answer_is_as_described(case: Any) -> None:
    case.call_and_validate(headers=HEADERS)


@everything.include(path="/api/v1/drain").parametrize()
@BOUNDED
def test_a_drain_is_as_described_too(case: Any) -> None:
    if (
        isinstance(case.body, dict)
        and isinstance(case.body.get("within_s"), int | float)
        and case.body["within_s"] >= 0
    ):
        case.body["within_s"] = 80_000 + case.body["within_s"] % 1000 if case.body["within_s"] <= 86_400 else 1e6
    case.call_and_validate(headers=HEADERS)
