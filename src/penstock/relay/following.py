"""Following a log from another process: every message between the two, as a value.

Owns their names, fields and encoding, and the version of all of it. Whoever writes logs is called the writer here; on
the other side a follower reads segments through descriptors that travel beside messages, so no media byte is copied
between them. The exception is a segment in plain memory, where the writer could have no descriptor: its bytes are in
the message. Both sides are processes of one server; a message that cannot be read is a defect, and ends the link.

Beside that either asks the other for a picture of a stream, which is decoded where the stream is written.

A follower asks by `Follow`; the answer is `Opened` or `NotHere`. What a log holds then, and what becomes visible later,
comes as `News`, all streams of a round in one `Round`. News tell the state of a log, not what happened to it: several
changes that a slow link could not tell apart in time are one. Every segment that was told of is to be given back by
`Released`, once; until then its memory is held and charged where it was written.
"""

import struct
from collections.abc import Iterable
from typing import Final

import msgspec

from penstock.errors import MalformedInput
from penstock.media.frame import FrameKind, frame_of
from penstock.relay.codec_config import CodecConfig
from penstock.relay.entry_points import EntryPoint
from penstock.relay.packaging.boundaries import Boundary, Numbering
from penstock.relay.segment import Entry

VERSION: Final = 2
_LAYER: Final = "following"
_ENTRY: Final = struct.Struct("<IIqB")
PACKED_ENTRY_BYTES: Final = _ENTRY.size
_KEY_BIT: Final = 0x80
_SETUP_BIT: Final = 0x40
_KIND_BITS: Final = 0x3F
_KINDS: Final = {int(kind): kind for kind in FrameKind}
_new_entry: Final = tuple.__new__


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """What all have in common."""


class Hello(_Message, frozen=True, tag="Hello"):
    """The first message of both sides. It stays as it is in every version."""

    version: int


# From a follower to the writer.


class Follow(_Message, frozen=True):
    """A stream is wanted, as it is known since an epoch of its name."""

    name: bytes
    epoch: int


class Unfollow(_Message, frozen=True):
    """A stream that was opened is not wanted any more."""

    stream: int


class Released(_Message, frozen=True):
    """Segments whose descriptors were closed."""

    segments: list[int]


class Watching(_Message, frozen=True):
    """How many watch a stream in the follower's process."""

    stream: int
    viewers: int
    kept_ms: int = 0
    """How much of the stream is to be kept for a packager there."""


class WantPicture(_Message, frozen=True):
    """The newest key frame of a stream is wanted as JPEG, whether it is followed or not. Answered by `Picture`."""

    name: bytes


# From the writer to a follower.


class Opened(_Message, frozen=True):
    """To `Follow`: the log is told of from a position on, under a number of this link."""

    name: bytes
    epoch: int
    stream: int
    position: int


class NotHere(_Message, frozen=True):
    """To `Follow`: there is no such stream here."""

    name: bytes
    epoch: int


class Picture(_Message, frozen=True):
    """To `WantPicture`."""

    name: bytes
    jpegs: dict[int, bytes]
    """By width. Empty: there is no picture now."""
    status: int
    """As over HTTP."""
    complaint: str
    """Why there is none, in words for people."""
    at: float
    """When it was asked for, by the machine's monotonic clock."""


class Config(msgspec.Struct, frozen=True, array_like=True):
    """A codec configuration, under a number that entry points refer to."""

    number: int
    frames: list[tuple[int, int, bytes]]
    """Kind, time and payload of each message in force."""
    audio_codec_id: float | None
    video_codec_id: float | None


class Point(msgspec.Struct, frozen=True, array_like=True):
    """A place where one may begin."""

    position: int
    timestamp_ms: int
    config: int
    at: float
    """By the machine's monotonic clock, which all its processes share."""


class Points(msgspec.Struct, frozen=True, array_like=True):
    """All places where one may begin."""

    newest: list[Point]
    to_look_back: list[Point]


class Run(msgspec.Struct, frozen=True, array_like=True):
    """Messages of one segment that are visible from now on."""

    segment: int
    start: int | None
    """The log position at which the segment begins, if it was not told of before."""
    entries: bytes
    """As `pack_entries` makes them."""
    copied: bytes | None = None
    """The bytes themselves, if the segment is in plain memory; else the descriptor of a new one is beside the round."""

    @property
    def has_descriptor(self) -> bool:
        """Whether a descriptor travels for it."""
        return self.start is not None and self.copied is None


class News(msgspec.Struct, frozen=True, array_like=True):
    """How one log is now."""

    stream: int
    position: int
    """Of the first message in `runs`; of the head, if there is none. Beyond the follower's head: some are missing."""
    start: int
    """What lies before it was dropped."""
    runs: list[Run]
    last_timestamp_ms: int
    video_interval_s: float
    has_video: bool
    publication_start: int
    publication: int
    """Counts the publications of the stream that have begun since it is followed."""
    is_live: bool
    """Whether there is a publisher; without one the stream may still go on within its grace."""
    is_over: bool
    """Whether the stream has ended. Nothing more comes, and what is here stays until it was released."""
    config: int
    """In force behind the last message."""
    configs: list[Config]
    """Those that were not told before, or were forgotten since: only those in use are remembered."""
    points: Points | None
    """None: as before, but for those that were dropped."""
    numbering: Numbering | None = None
    """How far parts and segments are counted."""
    boundaries: list[tuple[Boundary, int]] = []
    """Where they begin among the messages in `runs`, and by the number of which codec configuration."""


class Round(_Message, frozen=True):
    """What has become visible in all streams. Descriptors of new segments are beside it, in order."""

    news: list[News]


ToWriter = Hello | Follow | Unfollow | Released | Watching | WantPicture
ToFollower = Hello | Opened | NotHere | Round | Picture

_encoder: Final = msgspec.msgpack.Encoder()
_to_writer: Final[msgspec.msgpack.Decoder[ToWriter]] = msgspec.msgpack.Decoder(ToWriter)
_to_follower: Final[msgspec.msgpack.Decoder[ToFollower]] = msgspec.msgpack.Decoder(ToFollower)


def encode(message: ToWriter | ToFollower) -> bytes:
    """A message as bytes. Where it ends is for the link to know."""
    return _encoder.encode(message)


def decode_for_writer(data: bytes) -> ToWriter:
    """One whole message of a follower."""
    try:
        return _to_writer.decode(data)
    except msgspec.MsgspecError as error:
        raise MalformedInput(_LAYER, f"{len(data)} bytes from a follower: {error}") from error


def decode_for_follower(data: bytes) -> ToFollower:
    """One whole message of the writer."""
    try:
        return _to_follower.decode(data)
    except msgspec.MsgspecError as error:
        raise MalformedInput(_LAYER, f"{len(data)} bytes from the writer: {error}") from error


def check_version(hello: Hello) -> None:
    """Refuse a peer that speaks another version."""
    if hello.version != VERSION:
        raise MalformedInput(_LAYER, f"the other process speaks version {hello.version}, this one {VERSION}")


def pack_entries(entries: Iterable[Entry]) -> bytes:
    """Records of neighbouring messages. Where each begins follows from the lengths of those before it."""
    pack = _ENTRY.pack
    return b"".join(
        [
            pack(encoded_bytes, payload_bytes, timestamp_ms, kind | is_key << 7 | is_setup << 6)
            for _, encoded_bytes, kind, timestamp_ms, payload_bytes, is_key, is_setup in entries
        ]
    )


def unpack_entries(packed: bytes, position: int) -> list[Entry]:
    """The records again, of messages from a position on."""
    entries: list[Entry] = []
    try:
        for encoded_bytes, payload_bytes, timestamp_ms, traits in _ENTRY.iter_unpack(packed):
            kind = _KINDS[traits & _KIND_BITS]
            is_key, is_setup = traits & _KEY_BIT != 0, traits & _SETUP_BIT != 0
            entry = (position, encoded_bytes, kind, timestamp_ms, payload_bytes, is_key, is_setup)
            entries.append(_new_entry(Entry, entry))
            position += encoded_bytes
    except (struct.error, KeyError) as error:
        raise MalformedInput(_LAYER, f"{len(packed)} bytes of entries: {error}") from error
    return entries


def config_to_send(number: int, config: CodecConfig) -> Config:
    """A codec configuration as it travels."""
    frames = [(int(frame.kind), frame.timestamp_ms, frame.payload) for frame in config.frames]
    return Config(number, frames, config.audio_codec_id, config.video_codec_id)


def config_of(sent: Config) -> CodecConfig:
    """The codec configuration again: what its messages are is read from their payloads, as when they came."""
    try:
        frames = tuple(frame_of(FrameKind(kind), timestamp_ms, payload) for kind, timestamp_ms, payload in sent.frames)
    except ValueError as error:
        raise MalformedInput(_LAYER, f"codec configuration {sent.number}: {error}") from error
    return CodecConfig(frames, sent.audio_codec_id, sent.video_codec_id)


def point_to_send(point: EntryPoint, config: int) -> Point:
    """An entry point as it travels, with the number of its codec configuration."""
    return Point(point.position, point.timestamp_ms, config, point.at)
