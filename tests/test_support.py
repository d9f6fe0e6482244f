"""The test support itself: ways to cut, golden files, the independent reader, and real processes."""

import struct
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.cuts import all_cuts, by_size, random_cuts, whole
from tests.support.golden import GOLDEN_DIR, golden_bytes
from tests.support.independent_rtmp import (
    HANDSHAKE_BYTES,
    OracleMessage,
    command_names,
    command_values,
    read_messages,
    read_messages_and_tail,
)
from tests.support.processes import ProgramFailed, ProgramMissing, find_program, free_port, run_to_end, running

HANDSHAKE = b"\x03" + bytes(HANDSHAKE_BYTES - 1)
PUBLISHING = ["connect", "releaseStream", "FCPublish", "createStream", "publish", "FCUnpublish", "deleteStream"]
SESSION_FILES = sorted(path.name for path in (GOLDEN_DIR / "sessions").glob("*.bin"))


def session(name: str) -> list[OracleMessage]:
    return read_messages(golden_bytes(f"sessions/{name}.bin"))


def count(messages: list[OracleMessage], type_id: int) -> int:
    return sum(message.type_id == type_id for message in messages)


def test_every_way_to_cut_gives_the_same_bytes_in_the_same_order() -> None:
    data = bytes(range(256)) * 20
    cuts = all_cuts(data)
    assert [name for name, _ in cuts] == [
        "whole",
        "byte by byte",
        "by 7",
        "by 128",
        "random, seed 1",
        "random, seed 2",
        "random, seed 3",
    ]
    assert all(b"".join(pieces) == data for _, pieces in cuts)
    assert all(piece for _, pieces in cuts for piece in pieces)


def test_cuts_have_the_sizes_they_say() -> None:
    assert whole(b"abcde") == [b"abcde"]
    assert by_size(b"abcde", 2) == [b"ab", b"cd", b"e"]
    assert by_size(b"", 2) == []


def test_random_cuts_are_repeatable_and_differ_by_seed() -> None:
    data = bytes(5000)
    assert random_cuts(data, 1) == random_cuts(data, 1)
    assert random_cuts(data, 1) != random_cuts(data, 2)
    assert max(len(piece) for piece in random_cuts(data, 1)) <= 1500


def test_a_missing_golden_file_is_named_with_what_is_there() -> None:
    with pytest.raises(FileNotFoundError, match=r"no golden file sessions/no\.bin.*ffmpeg_publish\.client\.bin"):
        golden_bytes("sessions/no.bin")


@pytest.mark.parametrize(
    ("name", "audio", "video", "commands"),
    [
        ("ffmpeg_publish.client", 35, 17, PUBLISHING),
        ("ffmpeg_publish_chunk_128.client", 35, 17, PUBLISHING),
        ("ffmpeg_publish_audio_only.client", 35, 0, PUBLISHING),
        ("ffmpeg_publish_video_only.client", 0, 17, PUBLISHING),
        ("ffmpeg_publish.server", 0, 0, ["_result", "_result", "onStatus", "onStatus"]),
        ("ffmpeg_play.client", 0, 0, ["connect", "createStream", "getStreamLength", "play", "deleteStream"]),
        ("ffmpeg_play.server", 24, 8, ["_result", "_result", "onStatus"]),
        ("ffmpeg7_publish_hevc.client", 35, 17, PUBLISHING),
        ("ffmpeg7_publish_av1.client", 35, 18, PUBLISHING),
        ("ffmpeg7_publish_vp9.client", 35, 17, PUBLISHING),
        ("gstreamer_rtmp2sink_publish.client", 35, 17, PUBLISHING),
        ("gstreamer_rtmpsink_publish.client", 35, 17, PUBLISHING),
        ("gstreamer_rtmp2src_play.client", 0, 0, ["connect", "createStream", "play"]),
        ("rtmpdump_play.client", 0, 0, ["connect", "createStream", "FCSubscribe", "play", "deleteStream"]),
        ("obs_publish.client", 105, 26, PUBLISHING),
        ("vlc_play.client", 0, 0, ["connect", "createStream", "getStreamLength", "play"]),
        ("nginx_push.client", 34, 17, ["connect", "createStream", "publish"]),
        ("pyav_publish_opus.client", 78, 17, PUBLISHING),
        ("pyav_publish_flac.client", 21, 17, PUBLISHING),
        ("pyav_publish_multitrack.client", 151, 34, PUBLISHING),
    ],
)
def test_the_oracle_finds_what_each_program_sent(name: str, audio: int, video: int, commands: list[str]) -> None:
    messages = session(name)
    assert (count(messages, 8), count(messages, 9), command_names(messages)) == (audio, video, commands)


@pytest.mark.parametrize("file_name", SESSION_FILES)
def test_the_oracle_reads_every_session_to_its_last_byte(file_name: str) -> None:
    messages, tail_bytes = read_messages_and_tail(golden_bytes(f"sessions/{file_name}"))
    assert tail_bytes == (8 if file_name == "ffmpeg_play_cut_off.client.bin" else 0)
    assert {message.type_id for message in messages} <= {1, 3, 4, 5, 6, 8, 9, 18, 20}
    assert {message.stream_id for message in messages} <= {0, 1}


def test_chunk_size_changes_nothing_but_the_framing() -> None:
    large, small = session("ffmpeg_publish.client"), session("ffmpeg_publish_chunk_128.client")
    for type_id in (8, 9):
        assert [(each.timestamp, each.payload) for each in large if each.type_id == type_id] == [
            (each.timestamp, each.payload) for each in small if each.type_id == type_id
        ]


def test_extended_timestamps_are_followed_as_deltas_and_as_absolute_values() -> None:
    published = [each.timestamp for each in session("ffmpeg_publish_extended_delta.client") if each.type_id == 9]
    assert published[:4] == [0, 16_780_000, 16_780_100, 16_780_200]
    played = [each.timestamp for each in session("ffmpeg_play_extended_timestamp.server") if each.type_id in (8, 9)]
    assert (min(played), max(played)) == (16_777_500, 16_778_625)


def test_messages_opened_by_type_3_advance_by_the_last_delta() -> None:
    frames = [each for each in session("pyav_publish_opus.client") if each.payload.startswith(b"\x91Opus")]
    steps_ms = {later.timestamp - earlier.timestamp for earlier, later in pairwise(frames)}
    assert len(frames) == 76
    assert steps_ms <= {19, 20, 21}


def test_connect_of_obs_follows_its_chunk_size() -> None:
    first, second = session("obs_publish.client")[:2]
    assert (first.type_id, first.payload) == (1, bytes([0, 0, 0x10, 0]))
    assert command_values(second)[:2] == ["connect", 1.0]


def test_after_type_0_a_type_3_message_advances_by_the_timestamp_field() -> None:
    stream = HANDSHAKE + bytes.fromhex("04 00001a 000001 08 01000000 aa c4 bb")
    assert read_messages(stream) == [OracleMessage(4, 26, 8, 1, b"\xaa"), OracleMessage(4, 52, 8, 1, b"\xbb")]


@pytest.mark.parametrize("repeated", ["01000000", ""])
def test_a_continuation_may_repeat_the_extended_timestamp_or_leave_it_out(repeated: str) -> None:
    header = bytes.fromhex("06 ffffff 000084 09 01000000 01000000")
    continuation = b"\xc6" + bytes.fromhex(repeated) + b"tail"
    assert read_messages(HANDSHAKE + header + bytes(128) + continuation) == [
        OracleMessage(6, 0x01000000, 9, 1, bytes(128) + b"tail")
    ]


def test_long_chunk_stream_ids_are_read_in_both_forms() -> None:
    header = bytes.fromhex("000000 000001 08 01000000 aa")
    assert [message.csid for message in read_messages(HANDSHAKE + b"\x00\x01" + header + b"\x01\x02\x01" + header)] == [
        65,
        322,
    ]


def test_abort_drops_the_half_message_and_keeps_the_headers() -> None:
    half = bytes.fromhex("04 000005 0000c8 08 01000000") + bytes(128)
    abort = bytes.fromhex("02 000000 000004 02 00000000 00000004")
    next_one = bytes.fromhex("44 000001 000002 08 beef")
    messages = read_messages(HANDSHAKE + half + abort + next_one)
    assert messages[1:] == [OracleMessage(4, 6, 8, 1, b"\xbe\xef")]


def test_a_cut_off_end_is_counted_and_not_invented() -> None:
    stream = golden_bytes("sessions/ffmpeg_publish.client.bin")
    messages, tail_bytes = read_messages_and_tail(stream[:-5])
    assert len(messages) == 60
    assert tail_bytes == 37
    assert read_messages_and_tail(stream[:-37]) == (messages, 5)


@pytest.mark.parametrize(
    ("chunks", "complaint"),
    [
        ("c4", "type 3 header on unseen chunk stream 4"),
        ("04 000000 0000c8 08 01000000" + "00" * 128 + "04 000000 000001 08 01000000 aa", "type 0 header inside"),
    ],
)
def test_what_is_not_rtmp_is_refused(chunks: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_messages(HANDSHAKE + bytes.fromhex(chunks))
    with pytest.raises(ValueError, match="no RTMP handshake"):
        read_messages(b"\x06" + HANDSHAKE[1:])


def test_amf0_values_of_every_kind_that_sessions_hold_are_read() -> None:
    number = b"\x00" + struct.pack(">d", 2.0)
    payload = b"\x02\x00\x01n" + number + b"\x05\x06\x01\x01" + b"\x0a\x00\x00\x00\x01" + number
    payload += b"\x08\x00\x00\x00\x00\x00\x01k\x03\x00\x01v" + number + b"\x00\x00\x09\x00\x00\x09"
    expected = ["n", 2.0, None, None, True, [2.0], {"k": {"v": 2.0}}]
    assert command_values(OracleMessage(3, 0, 20, 0, payload)) == expected
    assert command_values(OracleMessage(3, 0, 17, 0, b"\x00" + payload)) == expected
    with pytest.raises(ValueError, match="AMF0 marker 13"):
        command_values(OracleMessage(3, 0, 20, 0, b"\x0d"))
    with pytest.raises(ValueError, match="message type 9"):
        command_values(OracleMessage(3, 0, 9, 0, b""))


def test_a_program_is_waited_for_by_log_and_by_port_and_is_stopped(tmp_path: Path) -> None:
    port = free_port()
    listen = (
        f"import socket,time; s=socket.create_server(('127.0.0.1',{port})); print('ready',flush=True); time.sleep(60)"
    )
    with running([sys.executable, "-c", listen], tmp_path / "log") as program:
        program.wait_for_log("ready", 10)
        program.wait_for_port(port, 10)
        assert program.process.poll() is None
    assert program.process.returncode == -15


def test_a_program_that_will_not_end_is_killed(tmp_path: Path) -> None:
    stubborn = (
        "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready',flush=True); time.sleep(60)"
    )
    with running([sys.executable, "-c", stubborn], tmp_path / "log") as program:
        program.wait_for_log("ready", 10)
        assert program.stop(grace_s=0.2) == -9


def test_failures_of_a_program_show_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('no such codec'); raise SystemExit(3)"]
    with pytest.raises(ProgramFailed, match=r"status 3\n(?s:.*)no such codec"):
        run_to_end(command, tmp_path / "log", 10)
    with (
        running(command, tmp_path / "log") as program,
        pytest.raises(ProgramFailed, match="status 3 while waiting for 'frame='"),
    ):
        program.wait_for_log("frame=", 10)


def test_deadlines_hold(tmp_path: Path) -> None:
    with running([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "log") as program:
        with pytest.raises(ProgramFailed, match=r"waited 0\.1 s for 'frame='"):
            program.wait_for_log("frame=", 0.1)
        with pytest.raises(ProgramFailed, match=r"still running after 0\.1 s"):
            program.wait_for_exit(0.1)


def test_a_missing_program_names_its_debian_package() -> None:
    with pytest.raises(ProgramMissing, match="no-such-program is not installed: apt-get install no-such-package"):
        find_program("no-such-program", "no-such-package")
