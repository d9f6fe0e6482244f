"""What attackers make the server write: logs, facts and recordings are bounded per second, by pattern and by file."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.scenarios.hostile_stage import ATTACK_S, NO_EXEMPTIONS, Stage, hostile_stage
from tests.support.attacks import (
    KEY_FRAME_TAG,
    come_and_go,
    connected,
    crowd,
    new_name,
    pipelined_opening,
    play_and_close,
    stream_command,
)
from tests.support.hostile_clients import VIDEO, HostileClient, command, flood, message
from tests.support.witness import STREAM_NAME

pytestmark = pytest.mark.alone

MAX_BYTES_PER_S = 200_000
"""Of the log, and of facts."""
VISITS_PER_S = 3_000
RECORDED = "allowed"
RECORDING = f"""{NO_EXEMPTIONS}
[recording]
streams = ["live/{RECORDED}"]
min_free_bytes = 0
"""
JUMPS = 400
MAX_FILES = 5
SAVED_S = 3.0


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with hostile_stage(tmp_path_factory.mktemp("attacks"), NO_EXEMPTIONS) as stage:
        yield stage


CYCLES = {
    "publish and closeStream": lambda: stream_command("publish", new_name(), "live") + stream_command("closeStream"),
    "play and closeStream": lambda: play_and_close(STREAM_NAME),
    "play of nothing": lambda: play_and_close("nobody"),
    "createStream and deleteStream": lambda: (
        command("createStream", 2.0, None) + b"".join(stream_command("deleteStream", float(id_)) for id_ in (1, 2))
    ),
}


@pytest.mark.parametrize("what", CYCLES)
def test_what_is_written_about_cycles_is_bounded(stage: Stage, what: str) -> None:
    with stage.attack(max_written_bytes_per_s=MAX_BYTES_PER_S), ExitStack() as stack:
        attackers = crowd(stage, stack, 8, connected)
        flood([(client, CYCLES[what]()) for client in attackers], ATTACK_S, reads=True)


@pytest.mark.parametrize(
    "data", [pytest.param(b"", id="saying nothing"), pytest.param(pipelined_opening(), id="past connect")]
)
def test_newcomers_as_fast_as_they_can_hold_up_nobody_and_fill_no_log(stage: Stage, data: bytes) -> None:
    with stage.attack(max_written_bytes_per_s=MAX_BYTES_PER_S):
        come_and_go(stage.attacker, data, ATTACK_S, VISITS_PER_S)
        with HostileClient(stage.port, source="127.0.0.3") as other:
            other.connected()


def test_a_publisher_makes_no_recordings_that_no_pattern_allows_and_few_that_one_does(tmp_path: Path) -> None:
    with hostile_stage(tmp_path, RECORDING) as stage:
        with stage.attack(), ExitStack() as stack:
            (stranger,) = crowd(stage, stack, 1, connected)
            stranger.send(stream_command("publish", "stranger", "record"))
            (jumper,) = crowd(stage, stack, 1, lambda client: client.publishing(RECORDED))
            for client in (stranger, jumper):
                client.send(b"".join(jumps()))
                client.send(command("getStreamLength", 7.0, None, "x"))
                client.until(b"_result")
            time.sleep(SAVED_S)
        files = sorted(path.name for path in (stage.data_dir / "recordings").glob("*.flv*"))
    assert not [name for name in files if "stranger" in name]
    assert len(files) <= MAX_FILES


def jumps() -> Iterator[bytes]:
    """A changed codec configuration before each key frame, an hour and more apart."""
    for number in range(JUMPS):
        level = bytes([20 + number % 20])
        config = (
            b"\x17\0\0\0\0\x01\x42\xc0" + level + b"\xff\xe1\0\x04\x67\x42\xc0" + level + b"\x01\0\x04\x68\xce\x3c\x80"
        )
        time_ms = number * 4_000_000 & 0x7FFFFFFF
        for payload in (config, KEY_FRAME_TAG + b"x"):
            yield message(VIDEO, payload, csid=6, stream_id=1, time_ms=time_ms)
