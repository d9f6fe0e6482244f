"""Structured logs: one line per event, as JSON or for the eye, written without ever holding up the server.

Owns the shape of a line (time, level, msg, then the fields), the bounded way to the stream, and the limiter for
warnings that repeat. A level that is off costs a call that does nothing. A line is formatted where it is logged and
written by a thread that does nothing but write: a stalled pipe costs lines, which are counted, never time. Lines of
several processes may go to one pipe. Text of peers is made printable, so it can neither forge a line nor steer a
terminal.

Fields that mean the same everywhere: conn_id, peer_addr, stream_key, msg_type, csid, msid, timestamp (of the media).
"""

import atexit
import logging
import math
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Literal, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from penstock.amf import printable

MAX_TEXT_CHARACTERS = 1024
MAX_TRACEBACK_CHARACTERS = 16 * 1024
MAX_PENDING_BYTES = 1024 * 1024
_SHORTEST_TOLD = 3
"""Characters. What is shorter may be in a line by chance."""

_TELLS_ADDRESSES = ("httpx", "httpcore")
"""Libraries that log each request with its whole address, and at level debug its headers: secrets are in both."""

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "console"]


class LineWriter:
    """Lines to a stream through a bounded queue and a thread. When the queue is full, lines are dropped and counted."""

    def __init__(self, stream: TextIO, max_pending_bytes: int = MAX_PENDING_BYTES) -> None:
        self.dropped_lines = 0
        self.tell_dropped: Callable[[int], None] = lambda _lines: None
        """Called by the thread when the stream takes lines again, with the number of those that it did not take."""
        self._told_lines = 0
        self._stream = stream
        self._max_pending_bytes = max_pending_bytes
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0
        self._is_writing = False
        self._is_closed = False
        # Reentrant, since a signal handler may log while the thread it interrupts holds it.
        self._changed = threading.Condition(threading.RLock())
        self._thread = threading.Thread(target=self._write_pending, name="penstock-logs", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Hand over one line, without its end. Never blocks and never raises."""
        data = (line + "\n").encode(errors="backslashreplace")
        with self._changed:
            # The thread itself still has to tell what was dropped.
            is_closed = self._is_closed and threading.current_thread() is not self._thread
            if is_closed or self._pending_bytes + len(data) > self._max_pending_bytes:
                self.dropped_lines += 1
                return
            self._pending.append(data)
            self._pending_bytes += len(data)
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything is written. False if the stream did not take it in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._pending or self._is_writing), timeout_s)

    def close(self, timeout_s: float = 1.0) -> None:
        """Write what is left, for so long. What a stalled stream does not take by then is lost with the process."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def _write_pending(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._pending or self._is_closed)
                if not self._pending:
                    return
                lines = list(self._pending)
                self._pending.clear()
                self._is_writing = True
            try:
                for piece in _pieces(lines):
                    self._write(piece)
            # The reader is gone or the disk is full: the next lines may fare better, these do not.
            except (OSError, ValueError):
                with self._changed:
                    self.dropped_lines += len(lines)
                    self._pending_bytes -= sum(map(len, lines))
                continue
            with self._changed:
                self._pending_bytes -= sum(map(len, lines))
                untold_lines = self.dropped_lines - self._told_lines
                self._told_lines = self.dropped_lines
            if untold_lines:
                self.tell_dropped(untold_lines)

    def _write(self, data: bytes) -> None:
        try:
            descriptor = self._stream.fileno()
        except OSError:
            self._stream.write(data.decode())
            self._stream.flush()
            return
        # Past the stream's own buffer: a thread that died inside it would hold its lock at exit.
        while data:
            try:
                data = data[os.write(descriptor, data) :]
            except BlockingIOError:
                writable = select.poll()
                writable.register(descriptor, select.POLLOUT)
                writable.poll()


def _pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines, as many at a time as a pipe takes in one go: other processes may write to it too.

    A line that is longer than that goes by itself, and may be cut by another's.
    """
    piece = b""
    for line in lines:
        if piece and len(piece) + len(line) > select.PIPE_BUF:
            yield piece
            piece = b""
        piece += line
    yield piece


class _LineLogger:
    """What structlog calls with a finished line."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = write


class _ToStructlog(logging.Handler):
    """Brings the lines of the standard library, asyncio's above all, into the same stream."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        level = min(max(record.levelno // 10 * 10, logging.DEBUG), logging.ERROR)
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):  # the arguments do not fit the format: a bug, but not ours to raise
            message = f"{record.msg} {record.args}"
        self._logger.log(level, message, logger=record.name, exc_info=record.exc_info)


def _ordered(_logger: WrappedLogger, level: str, fields: EventDict) -> EventDict:
    """Time, level and msg in front; every value a bounded, printable JSON value."""
    traceback = fields.pop("exception", None)
    line: EventDict = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": level.upper(),
        "msg": _safe(fields.pop("event")),
    }
    for name, value in fields.items():
        line[name] = _safe(value)
    if traceback is not None:
        line["exception"] = "\n".join(map(printable, traceback[-MAX_TRACEBACK_CHARACTERS:].split("\n")))
    return line


def _for_the_eye(_logger: WrappedLogger, level: str, fields: EventDict) -> EventDict:
    """As the renderer for consoles wants it."""
    fields["level"] = level
    if "exception" in fields:
        # The bar keeps the lines of a traceback from passing for lines of the log.
        fields["exception"] = "\n".join(f"| {line}" for line in fields["exception"].split("\n"))
    return fields


def _for_a_person(_logger: WrappedLogger, _level: str, fields: EventDict) -> EventDict:
    """For who sits in front of it: the time of day as other clocks there show it, and no field that msg has told."""
    fields["time"] = datetime.fromisoformat(fields["time"]).astimezone().strftime("%H:%M:%S")
    msg = fields["msg"]
    return {name: value for name, value in fields.items() if name == "msg" or not _is_told(value, msg)}


def _is_told(value: object, msg: str) -> bool:
    return isinstance(value, str) and len(value) >= _SHORTEST_TOLD and value in msg


def _safe(value: object) -> object:
    match value:
        case bool() | int() | None:
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes() | bytearray() | memoryview():
            return _clipped(bytes(value[: MAX_TEXT_CHARACTERS // 3]).hex(" "))
        case list() | tuple():
            return [_safe(each) for each in value[:64]]
        case _:
            return _clipped(str(value))


def _clipped(text: str) -> str:
    if len(text) > MAX_TEXT_CHARACTERS:
        text = text[: MAX_TEXT_CHARACTERS - 1] + "…"
    return printable(text)


class _Current:
    """What `configure_logs` set and `get_logger` hands out. Silent until then, as a library should be."""

    def __init__(self) -> None:
        self.logger = _make_logger("critical", [], lambda _line: None)
        self.writer: LineWriter | None = None
        self.handler: logging.Handler | None = None


def _make_logger(level: str, processors: list[Processor], write: Callable[[str], None]) -> FilteringBoundLogger:
    wrapper = structlog.make_filtering_bound_logger(level)
    lazy = structlog.wrap_logger(_LineLogger(write), processors, wrapper, context_class=dict)
    return cast("FilteringBoundLogger", lazy.bind())


_current = _Current()


def is_for_programs(format: Format, stream: TextIO | None = None) -> bool:  # noqa: A002
    """Whether lines to a stream, standard error unless told, are JSON. By `auto` they are not on a terminal."""
    if format == "auto":
        return not (sys.stderr if stream is None else stream).isatty()
    return format == "json"


def configure_logs(
    level: Level,
    format: Format,  # noqa: A002
    stream: TextIO | None = None,
    **bound: object,
) -> LineWriter:
    """Let loggers made from now on write to the stream, standard error unless told. Replaces what was there.

    `bound` are fields of every line.
    The writer is closed at exit; who ends in another way closes it to have the last lines written.
    """
    stream = sys.stderr if stream is None else stream
    processors: list[Processor] = [structlog.processors.format_exc_info, _ordered]
    if is_for_programs(format, stream):
        processors.append(structlog.processors.JSONRenderer(ensure_ascii=False, separators=(",", ":")))
    else:
        is_terminal = stream.isatty()
        processors += [_for_a_person] if is_terminal else []
        processors += [_for_the_eye, _console_renderer(has_colors=is_terminal)]
    writer = LineWriter(stream)
    logger = _make_logger(level, processors, writer.write).bind(**bound)
    writer.tell_dropped = lambda lines: logger.warning("Log lines dropped", lines=lines)
    if _current.writer is not None and _current.handler is not None:
        logging.root.removeHandler(_current.handler)
        atexit.unregister(_current.writer.close)
        _current.writer.close()
    _current.logger, _current.writer, _current.handler = logger, writer, _ToStructlog(logger)
    logging.root.addHandler(_current.handler)
    logging.root.setLevel(level.upper())
    for name in _TELLS_ADDRESSES:
        logging.getLogger(name).setLevel(logging.WARNING)
    atexit.register(writer.close)
    return writer


def _console_renderer(*, has_colors: bool) -> Processor:
    return structlog.dev.ConsoleRenderer(
        colors=has_colors,
        sort_keys=False,
        event_key="msg",
        timestamp_key="time",
        exception_formatter=structlog.dev.plain_traceback,
    )


def get_logger(**bound: object) -> FilteringBoundLogger:
    """A logger with these fields on each line, at the level in force now: ask after `configure_logs`, not at import.

    Where even the arguments cost too much, guard the call: `log.is_enabled_for(logging.DEBUG)`.
    """
    return _current.logger.bind(**bound)


class OncePerSecond:
    """Lets one through per second and counts the rest, for warnings that would otherwise come with each frame.

    ::

        if (swallowed := self._warnings.admit()) is not None:
            log.warning("Viewer falls behind", swallowed=swallowed)
    """

    __slots__ = ("_clock", "_next_at", "swallowed")

    def __init__(self, clock: Callable[[], float]) -> None:
        self.swallowed = 0
        """How many were held back since the last one that was let through."""
        self._clock = clock
        self._next_at = -math.inf

    def admit(self) -> int | None:
        """How many were held back since the last one, if this one may pass; None if it is held back too."""
        now = self._clock()
        if now < self._next_at:
            self.swallowed += 1
            return None
        self._next_at = now + 1.0
        swallowed, self.swallowed = self.swallowed, 0
        return swallowed
