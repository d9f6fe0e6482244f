"""Where inputs start from: bytes that other programs sent or wrote, and literal payloads for what no capture has.

Owns the pools and the tokens of each format. Nothing here is made by the product's own writers, but for the recordings
that `flv_repair` completes, since no other program writes that kind.
"""

import functools
import struct
from collections.abc import Sequence
from typing import Final

from tests.amf import payloads
from tests.media import setup_messages
from tests.support.golden import GOLDEN_DIR, golden_bytes
from tests.support.independent_rtmp import HANDSHAKE_BYTES, OracleMessage, read_messages

from penstock.media.flv_writer import FlvFileWriter

# Readers look at the start of a media payload; the rest would only draw damage to where it does nothing.
_MAX_MEDIA_BYTES: Final = 300
_MAX_FILE_BYTES: Final = 4096
_MEDIA_TYPES: Final = (8, 9)
_COMMAND_TYPES: Final = (15, 17, 18, 20)

AMF0_TOKENS: Final = (
    b"\x00\x7f\xf0\x00\x00\x00\x00\x00\x00",
    b"\x00\x7f\xf8\x00\x00\x00\x00\x00\x00",
    b"\x00\x7f\xef\xff\xff\xff\xff\xff\xff",
    b"\x02\x00\x00",
    b"\x02\x00\x051e999",
    b"\x02\x00\x03nan",
    b"\x03\x00\x01a",
    b"\x07\x00\x00",
    b"\x08\x00\x00\x00\x01\x00\x01a",
    b"\x00\x00\x09",
    b"\x0a\x00\x00\x00\x01",
    b"\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x80\x00",
    b"\x0c\x00\x00\x00\x02hi",
    b"\x10\x00\x01C\x00\x01a",
    b"\x11\x0a\x0b\x01",
)
AMF3_TOKENS: Final = (
    b"\x04\xff\xff\xff\xff",
    b"\x06\x00",
    b"\x06\x03a",
    b"\x09\x03\x01",
    b"\x09\x01\x03a",
    b"\x0a\x0b\x01\x03a",
    b"\x0a\x01",
    b"\x0a\x02",
    b"\x0a\x23\x01\x03x\x03y",
    b"\x0c\x03a",
    b"\x10\x03\x00\x01",
    b"\x11\x03\x00",
)
MEDIA_TOKENS: Final = (
    *(b"avc1", b"hvc1", b"vvc1", b"av01", b"vp09", b"vp08", b"mp4a", b"Opus", b"fLaC", b".mp3", b"ac-3", b"ec-3"),
    b"\x97\x02\x00\x00\x01\x00",
    b"\x07\x02\x0f\xff\xff\x07",
    b"\x96\x11avc1\x00\x00\x00\x01",
    b"\x96\x20avc1\x00\x00\x00\x01",
    b"\x95\x11Opus\x00\x00\x00\x01",
    b"\x00\x00\x03",
    b"\x00\x00\x00\x02\x65\x88",
)
FLV_TOKENS: Final = (b"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00", b"\x08\x00\x00\x02", b"\x12\x00\x00\x00", b"\x28")
CHUNK_TOKENS: Final = (
    b"\x02\x00\x00\x00\x00\x00\x04\x01\x00\x00\x00\x00\x00\x00\x00\x01",
    b"\x02\x00\x00\x00\x00\x00\x04\x02\x00\x00\x00\x00\x00\x00\x00\x03",
    b"\x03\xff\xff\xff\x00\x00\x85\x09\x01\x00\x00\x00\x01\x00\x00\x00",
    b"\x03\xff\xff\xff\x00\x01\x03\x09\x01\x00\x00\x00\x00\x00\x00\x00",
    b"\xc3",
    b"\xc3\x01\x00\x00\x00",
    b"\x43\x00\x00\x00\x00\x00\x01\x08",
    b"\x01\xff\xff",
    b"\x00\xff",
)


def string(text: str) -> bytes:
    """An AMF0 string."""
    return b"\x02" + struct.pack(">H", len(text)) + text.encode()


def number(value: float) -> bytes:
    """An AMF0 number."""
    return b"\x00" + struct.pack(">d", value)


def command(name: str, transaction_id: float, *arguments: bytes) -> bytes:
    """An AMF0 command with null in the place of the command object."""
    return string(name) + number(transaction_id) + b"\x05" + b"".join(arguments)


def status(code: str, level: str = "status") -> bytes:
    """An onStatus command."""
    members = b"".join(
        struct.pack(">H", len(name)) + name.encode() + string(value)
        for name, value in (("level", level), ("code", code), ("description", "x"), ("tcUrl", "rtmp://h/a"))
    )
    return command("onStatus", 0, b"\x03" + members + b"\x00\x00\x09")


def golden_command(name: str) -> bytes:
    """A literal command payload."""
    return next(golden.data for golden in payloads.COMMANDS if golden.name == name)


TRUE, FALSE = b"\x01\x01", b"\x01\x00"

CLIENT_COMMANDS: Final = (
    *(golden_command(name) for name in ("connect", "createStream", "publish", "play", "deleteStream")),
    *(command(name, 5, string("test?key=1")) for name in ("releaseStream", "FCPublish", "FCUnpublish", "FCSubscribe")),
    *(command(name, 6, string("test")) for name in ("getStreamLength", "FCUnsubscribe", "_checkbw", "unheardOf")),
    command("publish", 0, string("test"), string("append")),
    command("play", 0, string("test?key=1"), number(1e300), number(5), number(1)),
    command("play2", 0, b"\x03\x00\x0astreamName" + string("other") + b"\x00\x00\x09"),
    command("pause", 0, TRUE, number(1000)),
    command("pause", 0, FALSE, number(1e300)),
    command("pauseRaw", 0, TRUE, number(1)),
    command("seek", 0, number(1e308)),
    command("closeStream", 0),
    command("deleteStream", 0, number(1)),
    command("receiveAudio", 0, FALSE),
    command("receiveVideo", 0, number(1)),
    *(command(name, 0, string("n" * 20_000)) for name in ("publish", "play", "FCPublish")),
    string("pause"),
    string("FCPublish"),
)
SERVER_COMMANDS: Final = (
    *(golden_command(name) for name in ("result of connect", "error of connect", "result of createStream", "onStatus")),
    *(command("_result", each, number(each)) for each in range(1, 7)),
    *(command("_error", each) for each in range(1, 7)),
    command("_result", 4, number(4294967295)),
    command("onBWDone", 0),
    command("close", 7),
    *(status(f"NetStream.Play.{each}") for each in ("Start", "Stop", "Reset", "UnpublishNotify", "Complete")),
    *(status(f"NetStream.{each}") for each in ("Publish.Start", "Unpublish.Success", "Pause.Notify")),
    *(status(f"NetStream.{each}", "error") for each in ("Publish.BadName", "Play.StreamNotFound", "Failed")),
    status("NetConnection.Connect.ReconnectRequest"),
)
_DATA: Final = (
    string("@setDataFrame")
    + string("onMetaData")
    + b"\x08\x00\x00\x00\x01\x00\x05width"
    + number(640)
    + b"\x00\x00\x09",
    string("@clearDataFrame") + string("onMetaData"),
    string("onTextData") + b"\x03\x00\x04text" + string("hello") + b"\x00\x00\x09",
    string("|RtmpSampleAccess") + TRUE + FALSE,
)
_HDR: Final = (
    b"\xd4hvc1"
    + string("colorInfo")
    + b"\x03\x00\x0bcolorConfig\x03\x00\x08bitDepth"
    + number(10)
    + b"\x00\x00\x09\x00\x07hdrMdcv\x03\x00\x04redX"
    + number(0.68)
    + b"\x00\x00\x09\x00\x00\x09"
)
# Extended times, and payloads that look like the timestamp or the zeros that peers put between chunks.
_LATE: Final = tuple(
    OracleMessage(6, timestamp, 9, 1, (filler * 300)[:size])
    for timestamp in (0xFFFFFF, 0x01000000, 0xFFFFFFFF)
    for filler in (b"\x00", b"\x01\x00\x00\x00", b"\xff", b"\xc6")
    for size in (33, 130, 131, 257, 264)
)
_FLV_TAG_IN_AGGREGATE: Final = bytes.fromhex("08 000003 000010 00 000000 af0111 0000000e")
_CONTROL: Final = (
    *((1, size.to_bytes(4, "big")) for size in (1, 128, 4096, 0x7FFFFFFF)),
    *((2, csid.to_bytes(4, "big")) for csid in (3, 4, 64)),
    (3, b"\x00\x01\x00\x00"),
    *((4, event.to_bytes(2, "big") + b"\x00\x00\x00\x01") for event in (0, 1, 2, 4, 6, 7, 26, 31)),
    (4, b"\x00\x03\x00\x00\x00\x01\x00\x00\x0b\xb8"),
    *((5, size.to_bytes(4, "big")) for size in (1, 2500000)),
    *((6, b"\x00\x00\x10\x00" + bytes((limit,))) for limit in range(3)),
    (22, _FLV_TAG_IN_AGGREGATE * 3),
    (16, b"so"),
    (99, b""),
)


@functools.cache
def captures(role: str) -> tuple[bytes, ...]:
    """All that clients ("client") or servers ("server") sent in the recorded sessions."""
    return tuple(path.read_bytes() for path in sorted((GOLDEN_DIR / "sessions").glob(f"*.{role}.bin")))


@functools.cache
def handshakes(role: str) -> tuple[bytes, ...]:
    """What the other side sends in a handshake, with the start of what follows it."""
    names = {
        "client": ("ffmpeg_digest", "librtmp_digest", "librtmp_rtmpe_c0c1", "librtmp_simple", "nginx_push_digest"),
        "server": ("nginx_s0s1s2_digest", "nginx_s0s1s2_simple"),
    }
    golden = tuple(golden_bytes(f"handshake/{name}.bin") for name in names[role])
    return golden + tuple(capture[: HANDSHAKE_BYTES + 64] for capture in captures(role))


@functools.cache
def messages(role: str) -> tuple[OracleMessage, ...]:
    """Messages that clients or servers send: of the recorded sessions each kind of start once, and literal ones."""
    recorded = {(each.type_id, each.payload[:6]): each for capture in captures(role) for each in read_messages(capture)}
    literal = CLIENT_COMMANDS if role == "client" else SERVER_COMMANDS
    return (
        *(_shortened(each) for each in recorded.values() if each.type_id not in _COMMAND_TYPES),
        *(each for each in recorded.values() if each.type_id in _COMMAND_TYPES),
        *(OracleMessage(3, 0, 20, 1, payload) for payload in literal * 3),
        *(OracleMessage(3, 0, 17, 1, b"\x00" + payload) for payload in literal),
        *(OracleMessage(4, 0, 18, 1, payload) for payload in _DATA),
        *(OracleMessage(4, 0, 15, 1, b"\x00" + payload) for payload in _DATA),
        *(OracleMessage(2, 0, type_id, 0, payload) for type_id, payload in _CONTROL),
        *_LATE,
    )


def _shortened(message: OracleMessage) -> OracleMessage:
    payload = message.payload[:_MAX_MEDIA_BYTES]
    return OracleMessage(message.csid, message.timestamp, message.type_id, message.stream_id, payload)


@functools.cache
def amf0_payloads() -> tuple[bytes, ...]:
    """AMF0: commands, data and single values."""
    recorded = {each.payload for role in ("client", "server") for each in messages(role) if each.type_id in (18, 20)}
    short = (golden.data for golden in payloads.AMF0 if len(golden.data) < _MAX_FILE_BYTES)
    return (*sorted(recorded), *short)


@functools.cache
def amf3_payloads() -> tuple[bytes, ...]:
    """AMF3: single values."""
    return tuple(golden.data for golden in payloads.AMF3)


@functools.cache
def media_payloads(type_id: int) -> tuple[bytes, ...]:
    """Starts of audio (8) or video (9) messages."""
    recorded = {each.payload for each in messages("client") + messages("server") if each.type_id == type_id}
    made = [value for value in vars(setup_messages).values() if isinstance(value, bytes) and value]
    known = {value for value in made if (value[0] >> 4 in (2, 3, 6, 8, 10, 11)) == (type_id == 8)} | recorded
    if type_id == 8:
        return tuple(sorted(known))
    # MediaMTX leaves the frame type at 0, and the bitstream has to tell.
    untold = {bytes((payload[0] & 0x8F,)) + payload[1:] for payload in known if payload and payload[0] & 0x80}
    return (
        *sorted(known | untold),
        _HDR,
        *(first + setup_messages.VP8_KEY_FRAME for first in (b"\x91vp08", b"\x81vp08")),
    )


@functools.cache
def setup_records() -> tuple[bytes, ...]:
    """Decoder configuration records, without the headers of their messages."""
    made = [value for value in vars(setup_messages).values() if isinstance(value, bytes)]
    return tuple(value[skipped:] for value in made for skipped in (0, 2, 5) if len(value) > skipped)


@functools.cache
def flv_files() -> Sequence[bytes]:
    """Starts of FLV files of other programs."""
    return tuple(path.read_bytes()[:_MAX_FILE_BYTES] for path in sorted((GOLDEN_DIR / "flv").glob("*.flv")))


@functools.cache
def recordings() -> Sequence[bytes]:
    """Files as our recorder leaves them: finished and not, with and without room for key frames."""
    files: list[bytes] = []
    for keyframe_room in (0, 2, 40):
        writer = FlvFileWriter({"width": 640.0, "encoder": "x"}, keyframe_room=keyframe_room)
        begun = writer.begin()
        body = bytearray()
        for at in range(12):
            payload = (b"\x17\x01\x00\x00\x00key", b"\xaf\x01sound", b"\x27\x01\x00\x00\x00inter")[at % 3]
            kind = 8 if payload[0] == 0xAF else 9
            head, trail = writer.add_tag(kind, 40 * at, payload, is_key=at % 3 == 0)
            body += head + payload + trail
        files += [begun + body, writer.finish() + body]
    return files
