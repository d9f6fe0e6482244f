"""Logs: the shape of a line, text that cannot forge one, and a stream that nobody reads."""

import io
import json
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import logs
from penstock.logs import LineWriter, OncePerSecond, _pieces, configure_logs, get_logger


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Leaves the logging of this process as it was found."""
    level = logging.root.level
    yield
    if logs._current.writer is not None and logs._current.handler is not None:
        logs._current.writer.close()
        logging.root.removeHandler(logs._current.handler)
    logs._current.__init__()  # type: ignore[misc]
    logging.root.setLevel(level)


def lines_of(stream: io.StringIO, writer: LineWriter) -> list[str]:
    assert writer.flush(5)
    return stream.getvalue().splitlines()


def json_of(stream: io.StringIO, writer: LineWriter) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines_of(stream, writer)]


def test_a_json_line_has_time_level_and_msg_in_front_of_the_fields() -> None:
    stream = io.StringIO()
    writer = configure_logs("info", "json", stream)
    get_logger(conn_id="c1a2b3c4").info("Connection accepted", peer_addr="192.168.1.100:54321", csid=6, rtt_ms=1.5)
    ((time, level, *rest),) = (line.items() for line in json_of(stream, writer))
    assert time[0] == "time"
    assert time[1].endswith("Z")
    assert abs(datetime.fromisoformat(time[1]) - datetime.now(UTC)) < timedelta(minutes=1)
    assert [level, *rest] == [
        ("level", "INFO"),
        ("msg", "Connection accepted"),
        ("conn_id", "c1a2b3c4"),
        ("peer_addr", "192.168.1.100:54321"),
        ("csid", 6),
        ("rtt_ms", 1.5),
    ]


def test_a_console_line_reads_from_left_to_right() -> None:
    stream = io.StringIO()
    writer = configure_logs("debug", "console", stream)
    get_logger(conn_id="c1").warning("Viewer falls behind", stream_key="live/test", lag_ms=900)
    (line,) = lines_of(stream, writer)
    assert line.split() == [
        *(line.split()[0], "[warning", "]"),
        *("Viewer", "falls", "behind", "conn_id=c1", "stream_key=live/test", "lag_ms=900"),
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_auto_is_json_for_programs_and_text_for_a_person_on_a_terminal() -> None:
    pipe, terminal = io.StringIO(), Terminal()
    writer = configure_logs("info", "auto", pipe)
    get_logger().info("Connection accepted", conn_id="c1")
    (line,) = json_of(pipe, writer)
    assert (line["msg"], line["conn_id"]) == ("Connection accepted", "c1")
    writer = configure_logs("info", "auto", terminal)
    get_logger().info("Connection accepted", conn_id="c1")
    (text,) = lines_of(terminal, writer)
    words = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert re.fullmatch(r"\d\d:\d\d:\d\d \[info +\] Connection accepted +conn_id=c1", words)


def test_json_is_json_on_a_terminal_too_if_it_is_asked_for() -> None:
    terminal = Terminal()
    writer = configure_logs("info", "json", terminal)
    get_logger().info("Connection accepted")
    (line,) = lines_of(terminal, writer)
    assert json.loads(line)["msg"] == "Connection accepted"


def test_a_person_is_not_told_again_what_the_message_says() -> None:
    terminal = Terminal()
    writer = configure_logs("info", "auto", terminal)
    get_logger().info("Connection closed: by the peer", conn_id="c1", reason="by the peer", msid=1)
    (text,) = lines_of(terminal, writer)
    fields = re.sub(r"\x1b\[[0-9;]*m", "", text).split("by the peer")
    assert [part.split() for part in fields[1:]] == [["conn_id=c1", "msid=1"]]


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("debug", ["DEBUG", "INFO", "WARNING", "ERROR"]),
        ("info", ["INFO", "WARNING", "ERROR"]),
        ("warning", ["WARNING", "ERROR"]),
        ("error", ["ERROR"]),
    ],
)
def test_a_level_keeps_out_what_is_below_it(level: logs.Level, written: list[str]) -> None:
    stream = io.StringIO()
    writer = configure_logs(level, "json", stream)
    log = get_logger()
    for write in (log.debug, log.info, log.warning, log.error):
        write("x")
    assert [line["level"] for line in json_of(stream, writer)] == written
    assert log.is_enabled_for(logging.DEBUG) is (level == "debug")


def test_nothing_is_written_before_logs_are_configured(capfd: pytest.CaptureFixture[str]) -> None:
    log = get_logger(conn_id="c1")
    log.error("x")
    log.exception("x")
    assert (log.is_enabled_for(logging.ERROR), capfd.readouterr()) == (False, ("", ""))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("live/te\nst", "live/te\\x0ast"),
        ("\x1b[31m\x7f\x9b", "\\x1b[31m\\x7f\\x9b"),
        ("a\u2028b\u202e", "a\\u2028b\\u202e"),
        ("\udcff", "\\xff"),
        ("é 直播", "é 直播"),
        (b"\x00\xff", "00 ff"),
        (memoryview(b"\x01"), "01"),
        (float("nan"), "nan"),
        (True, True),
        (None, None),
        (("a\n", 1), ["a\\x0a", 1]),
        ({"a": "\n"}, "{'a': '\\n'}"),
        ("x" * 2000, "x" * 1023 + "…"),
        (b"\0" * 5000, " ".join(["00"] * 341)),
    ],
)
def test_values_are_made_safe_and_short(value: object, shown: object) -> None:
    stream = io.StringIO()
    writer = configure_logs("info", "json", stream)
    get_logger().info("x", value=value)
    (line,) = json_of(stream, writer)
    assert line["value"] == shown


@given(st.text(max_size=40), st.sampled_from(["json", "console"]))
def test_no_text_of_a_peer_makes_a_second_line(text: str, form: logs.Format) -> None:
    stream = io.StringIO()
    writer = configure_logs("info", form, stream)
    get_logger(peer_addr=text).info(text, stream_key=text)
    (line,) = lines_of(stream, writer)
    assert line.isprintable()


def test_a_traceback_is_one_field_in_json() -> None:
    stream = io.StringIO()
    writer = configure_logs("info", "json", stream)
    try:
        int("bad\n\x1b")
    except ValueError:
        get_logger().exception("Failed", conn_id="c1")
    (line,) = json_of(stream, writer)
    assert (line["level"], line["conn_id"]) == ("ERROR", "c1")
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ValueError: invalid literal for int() with base 10: 'bad\\n\\x1b'")


def test_a_traceback_cannot_pass_for_lines_on_the_console() -> None:
    stream = io.StringIO()
    writer = configure_logs("info", "console", stream)
    get_logger().error("Failed", exc_info=ValueError("bad\n2026-01-01T00:00:00.000Z [info     ] forged"))
    first, *rest = lines_of(stream, writer)
    assert "Failed" in first
    assert rest[-2:] == ["| ValueError: bad", "| 2026-01-01T00:00:00.000Z [info     ] forged"]


def test_lines_of_the_standard_library_join_the_others() -> None:
    stream = io.StringIO()
    writer = configure_logs("info", "json", stream)
    logging.getLogger("asyncio").warning("slow: %s", "a\nb")
    logging.getLogger("asyncio").critical("worse")
    logging.getLogger("asyncio").debug("kept out")
    assert [(line["level"], line["msg"], line["logger"]) for line in json_of(stream, writer)] == [
        ("WARNING", "slow: a\\x0ab", "asyncio"),
        ("ERROR", "worse", "asyncio"),
    ]


def test_libraries_that_log_whole_addresses_do_not() -> None:
    stream = io.StringIO()
    writer = configure_logs("debug", "json", stream)
    for name in ("httpx", "httpcore.http11"):
        logging.getLogger(name).info("HTTP Request: POST http://127.0.0.1/?t=hunter2")
        logging.getLogger(name).warning("broken")
    assert [(line["msg"], line["logger"]) for line in json_of(stream, writer)] == [
        ("broken", "httpx"),
        ("broken", "httpcore.http11"),
    ]


def test_a_line_whose_arguments_do_not_fit_is_written_all_the_same() -> None:
    stream = io.StringIO()
    writer = configure_logs("info", "json", stream)
    assert logs._current.handler is not None
    # Not through logging itself: the handler of pytest would raise.
    logs._current.handler.handle(logging.LogRecord("x", logging.INFO, "x.py", 1, "%d", ("no number",), None))
    (line,) = json_of(stream, writer)
    assert line["msg"] == "%d ('no number',)"


def test_configuring_again_replaces_the_stream() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logs("info", "json", first)
    get_logger().info("one")
    writer = configure_logs("info", "json", second)
    get_logger().info("two")
    logging.getLogger("x").info("three")
    assert [line["msg"] for line in json_of(second, writer)] == ["two", "three"]
    assert [json.loads(line)["msg"] for line in first.getvalue().splitlines()] == ["one"]


def test_standard_error_is_the_default_and_is_written_to_before_exit() -> None:
    program = (
        "from penstock.logs import configure_logs, get_logger\n"
        "configure_logs('info', 'json')\n"
        "for n in range(200):\n    get_logger().info('line', n=n)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [json.loads(line)["n"] for line in ended.stderr.splitlines()] == list(range(200))


@pytest.mark.parametrize("is_blocking", [True, False])
def test_a_pipe_that_nobody_reads_costs_lines_and_no_time(is_blocking: bool) -> None:
    reader, pipe = os.pipe()
    os.set_blocking(pipe, is_blocking)
    stream = os.fdopen(pipe, "w")
    writer = configure_logs("info", "json", stream)
    log = get_logger()
    for number in range(3000):
        log.info("Message received", payload=b"x" * 300, number=number)
    # Nothing of this waited: a single write into the full pipe would never return.
    assert 0 < writer.dropped_lines < 3000
    assert not writer.flush(0.01)
    dropped_lines = writer.dropped_lines

    received = io.BytesIO()
    draining = threading.Thread(target=lambda: drain(reader, received))
    draining.start()
    writer.close(5)
    stream.close()
    draining.join(5)
    lines = [json.loads(line) for line in received.getvalue().splitlines()]
    assert [line["number"] for line in lines[:-1]] == list(range(3000 - dropped_lines))
    assert (lines[-1]["level"], lines[-1]["msg"], lines[-1]["lines"]) == ("WARNING", "Log lines dropped", dropped_lines)


def drain(descriptor: int, into: io.BytesIO) -> None:
    while data := os.read(descriptor, 65536):
        into.write(data)
    os.close(descriptor)


def test_a_process_ends_although_nobody_reads_its_lines() -> None:
    program = (
        "import sys\nfrom penstock.logs import configure_logs, get_logger\n"
        "configure_logs('info', 'json')\n"
        "for n in range(1000):\n    get_logger().info('line', text='x' * 1000)\n"
        "print('done', flush=True)\n"
    )
    reader, pipe = os.pipe()
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=pipe, timeout=20, check=True)
    os.close(reader)
    os.close(pipe)
    assert ended.stdout == b"done\n"


def test_a_reader_that_went_away_costs_lines_only() -> None:
    reader, pipe = os.pipe()
    os.close(reader)
    with os.fdopen(pipe, "w") as stream:
        writer = LineWriter(stream)
        writer.write("one")
        assert writer.flush(5)
        writer.write("two")
        assert writer.flush(5)
        assert writer.dropped_lines == 2
        writer.close()


def test_a_line_after_the_end_is_counted_as_dropped() -> None:
    stream = io.StringIO()
    writer = LineWriter(stream)
    writer.write("one")
    writer.close()
    writer.write("two")
    assert (stream.getvalue(), writer.dropped_lines) == ("one\n", 1)


def test_a_stream_that_was_closed_under_the_writer_costs_lines_only() -> None:
    stream = io.StringIO()
    writer = LineWriter(stream)
    stream.close()
    writer.write("one")
    assert writer.flush(5)
    assert writer.dropped_lines == 1
    writer.close()


def test_room_comes_back_after_a_stall() -> None:
    released = threading.Event()

    class Stalled(io.StringIO):
        def write(self, text: str) -> int:
            released.wait(5)
            return super().write(text)

    stream: TextIO = Stalled()
    writer = LineWriter(stream, max_pending_bytes=10)
    told: list[int] = []
    writer.tell_dropped = told.append
    for line in ("12345678", "no room", "nor here"):
        writer.write(line)
    assert writer.dropped_lines == 2
    released.set()
    assert writer.flush(5)
    writer.write("again")
    writer.close()
    assert (stream.getvalue(), told) == ("12345678\nagain\n", [2])  # type: ignore[attr-defined]


def test_one_warning_per_second_passes_and_the_rest_are_counted() -> None:
    seconds = iter([100.0, 100.1, 100.9, 101.0, 101.5, 105.0])
    warnings = OncePerSecond(lambda: next(seconds))
    assert [warnings.admit() for _ in range(3)] == [0, None, None]
    assert warnings.swallowed == 2
    assert [warnings.admit() for _ in range(3)] == [2, None, 1]
    assert warnings.swallowed == 0


def test_the_first_warning_passes_whatever_the_clock_says() -> None:
    assert OncePerSecond(lambda: -5.0).admit() == 0


WRITING = """
import sys
from penstock.logs import LineWriter
writer = LineWriter(sys.stderr, max_pending_bytes=64 * 1024 * 1024)
for number in range(20_000):
    writer.write(f"{sys.argv[1]} {number} " + sys.argv[1] * (number % 300))
print("queued", flush=True)
writer.close(30.0)
"""


def test_lines_of_two_processes_in_one_pipe_stay_whole() -> None:
    reading, writing = os.pipe()
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITING, name], stdout=subprocess.PIPE, stderr=writing) for name in "ab"
    ]
    os.close(writing)
    # Both wait for room by then.
    assert [writer.stdout.readline() for writer in writers if writer.stdout is not None] == [b"queued\n"] * 2
    with open(reading, "rb") as pipe:
        lines = pipe.read().decode().splitlines()
    assert [writer.communicate(timeout=30)[0] for writer in writers] == [b"", b""]
    expected = [[f"{name} {number} " + name * (number % 300) for number in range(20_000)] for name in "ab"]
    assert [[line for line in lines if line.startswith(name)] for name in "ab"] == expected
    assert len(lines) == 40_000


def test_a_line_that_is_longer_than_a_pipe_takes_at_once_is_written_by_itself() -> None:
    lines = [b"a" * 3000 + b"\n", b"b" * 1000 + b"\n", b"c" * 5000 + b"\n", b"d\n", b"e\n"]
    assert list(_pieces(lines)) == [lines[0] + lines[1], lines[2], lines[3] + lines[4]]
    assert list(_pieces([b"a" * 4095 + b"\n", b"b\n"])) == [b"a" * 4095 + b"\n", b"b\n"]
