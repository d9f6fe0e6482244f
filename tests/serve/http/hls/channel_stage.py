"""A stream, its channel and a loop of the test: what would be answered over HTTP, as bytes."""

from collections.abc import Iterable

from penstock.media.frame import Frame
from penstock.relay.log import LogBudget, StreamLog
from penstock.relay.packaging.boundaries import Boundaries, Numbering
from penstock.relay.packaging.names import Name, read_name
from penstock.relay.packaging.window import Place
from penstock.relay.readable_log import LogLimits, ReadableLog
from penstock.relay.segment import MemoryStore
from penstock.serve.http.answers import AnswerTable
from penstock.serve.http.hls.channel import HlsChannel
from penstock.serve.http.hls.playlists import Form
from penstock.serve.http.site import Answer, Wait
from penstock.serve.settings import HlsSettings
from tests.relay.packaging.stage import WALL_MS
from tests.relay.support import CHUNK_SIZE, ENCODERS
from tests.serve.fakes import FakeLoop

SETTINGS = HlsSettings(playlist_ms=8000)
LOW = Form(is_low_latency=True)
CLASSIC = Form(is_low_latency=False)
KEEPING = LogLimits(max_gops=1000, max_age_s=1000.0, max_messages=1 << 20)


class PublishedStream:
    """A stream whose log is written here."""

    def __init__(self, limits: LogLimits = KEEPING, store: MemoryStore | None = None) -> None:
        assert SETTINGS.rule is not None
        self.budget = LogBudget(1 << 40)
        stamps = Boundaries(SETTINGS.rule, Numbering.at(WALL_MS))
        self.written = StreamLog(store or MemoryStore(), ENCODERS, limits, self.budget, stamps=stamps)
        self.log: ReadableLog = self.written
        self.channels: list[HlsChannel] = []

    def publish(self, frames: Iterable[Frame]) -> None:
        """Each frame is flushed by itself."""
        for frame in frames:
            now = frame.timestamp_ms / 1000
            self.written.append(frame, now, WALL_MS + frame.timestamp_ms)
            flush = self.written.flush(now)
            assert flush is not None
            for channel in self.channels:
                channel.on_flush(flush, now)


class ChannelStage:
    """One channel."""

    def __init__(self, stream: PublishedStream, settings: HlsSettings = SETTINGS, max_bytes: int = 1 << 30) -> None:
        self.is_guarded = False
        self.loop = FakeLoop()
        self.table = AnswerTable()
        self.budget = LogBudget(1 << 40)
        self.stream = stream
        self.channel = HlsChannel(
            "live",
            "a",
            settings,
            secret=b"secret",
            chunk_size=CHUNK_SIZE,
            budget=self.budget,
            max_bytes=lambda: max_bytes,
            table=self.table,
            loop=self.loop,
            cors=lambda: b"",
            is_guarded=lambda: self.is_guarded,
            view_of=lambda _key, _address, _traits: None,
        )
        self.channel.attach(stream)
        stream.channels.append(self.channel)

    def settle(self) -> None:
        self.loop.settle()

    def text(self, form: Form = LOW, place: Place | None = None) -> str:
        """A playlist that is there."""
        self.settle()
        return body_of(self.channel.playlist(form, place)).decode()

    def file(self, name: str) -> bytes:
        """What a playlist names."""
        self.settle()
        return body_of(self.channel.named(parsed(name)))


def parsed(name: str) -> Name:
    found = read_name(name)
    assert found is not None, name
    return found


def data_of(answer: Answer | Wait | None) -> bytes:
    """Head and body."""
    if isinstance(answer, Wait):
        answer = answer.answer
    assert isinstance(answer, Answer), "it is not there"
    return answer.flush.data


def body_of(answer: Answer | Wait | None) -> bytes:
    head, _, body = data_of(answer).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    assert b"Content-Length: %d\r\n" % len(body) in head
    return body


def status_of(answer: Answer | Wait | None) -> int:
    return int(data_of(answer).split(b" ")[1])
