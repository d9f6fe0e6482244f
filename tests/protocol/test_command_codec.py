"""Commands as literal bytes in both directions, softly converted arguments, and what real clients send."""

# Long because: the bytes of every command stand here in full, once as we write them and once as each client does.

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.amf import UNDEFINED, AmfValue
from penstock.errors import MalformedAmf, ProtocolViolation
from penstock.protocol import command as command_module
from penstock.protocol.command import (
    CheckBandwidth,
    CloseStream,
    Command,
    Connect,
    CreateStream,
    DeleteStream,
    Error,
    FCPublish,
    FCSubscribe,
    FCUnpublish,
    FCUnsubscribe,
    GetStreamLength,
    OnBWDone,
    OnFCPublish,
    OnFCSubscribe,
    OnFCUnpublish,
    OnFCUnsubscribe,
    OnStatus,
    Pause,
    PauseRaw,
    Play,
    Play2,
    Publish,
    ReceiveAudio,
    ReceiveVideo,
    ReleaseStream,
    Result,
    Seek,
    UnknownCommand,
)
from penstock.protocol.command_codec import as_flag, as_number, as_text, read_command, write_command
from penstock.protocol.work import WorkMeter
from tests.support.golden import golden_bytes
from tests.support.independent_rtmp import AMF0_COMMAND, read_messages

ZERO = b"\x00\x00\x00\x00\x00\x00\x00\x00\x00"
ONE = b"\x00\x3f\xf0\x00\x00\x00\x00\x00\x00"
TWO = b"\x00\x40\x00\x00\x00\x00\x00\x00\x00"
FOUR = b"\x00\x40\x10\x00\x00\x00\x00\x00\x00"
THOUSAND = b"\x00\x40\x8f\x40\x00\x00\x00\x00\x00"
MINUS_ONE = b"\x00\xbf\xf0\x00\x00\x00\x00\x00\x00"
MINUS_TWO = b"\x00\xc0\x00\x00\x00\x00\x00\x00\x00"
NAN = b"\x00\x7f\xf8\x00\x00\x00\x00\x00\x00"
INFINITY = b"\x00\x7f\xf0\x00\x00\x00\x00\x00\x00"
TRUE, FALSE = b"\x01\x01", b"\x01\x00"
NULL, UNDEFINED_VALUE = b"\x05", b"\x06"
END = b"\x00\x00\x09"
TEST = b"\x02\x00\x04test"

# The examples of the protocol's contract, with the true lengths of their strings.
CONTRACT: list[tuple[str, Command]] = [
    (
        """02 0007 636F6E6E656374  00 3FF0000000000000  03
           0003 617070  02 0004 6C697665
           0008 666C617368566572  02 0008 464D4C452F332E30
           0005 746355726C  02 0015 72746D703A2F2F6C6F63616C686F73742F6C697665
           000E 6F626A656374456E636F64696E67  00 0000000000000000
           0000 09""",
        Connect(
            1.0,
            {"app": "live", "flashVer": "FMLE/3.0", "tcUrl": "rtmp://localhost/live", "objectEncoding": 0.0},
        ),
    ),
    (
        """02 0007 5F726573756C74  00 3FF0000000000000  03
           0006 666D73566572  02 000E 464D532F332C352C372C37303039
           000C 6361706162696C6974696573  00 403F000000000000
           0000 09  03
           0005 6C6576656C  02 0006 737461747573
           0004 636F6465  02 001D 4E6574436F6E6E656374696F6E2E436F6E6E6563742E53756363657373
           0000 09""",
        Result(
            1.0,
            (
                {"fmsVer": "FMS/3,5,7,7009", "capabilities": 31.0},
                {"level": "status", "code": "NetConnection.Connect.Success"},
            ),
        ),
    ),
    (
        """02 0006 5F6572726F72  00 3FF0000000000000  05  03
           0005 6C6576656C  02 0005 6572726F72
           0004 636F6465  02 001E 4E6574436F6E6E656374696F6E2E436F6E6E6563742E52656A6563746564
           0000 09""",
        Error(1.0, (None, {"level": "error", "code": "NetConnection.Connect.Rejected"})),
    ),
    ("02 000C 63726561746553747265616D  00 4010000000000000  05", CreateStream(4.0)),
    ("02 0007 5F726573756C74  00 4010000000000000  05  00 3FF0000000000000", Result(4.0, (None, 1.0))),
    (
        "02 0007 7075626C697368  00 0000000000000000  05  02 0004 74657374  02 0004 6C697665",
        Publish(0.0, "test", "live"),
    ),
    (
        """02 0004 706C6179  00 0000000000000000  05  02 0004 74657374
           00 C000000000000000  00 BFF0000000000000  01 01""",
        Play(0.0, "test", -2.0, -1.0, reset=True),
    ),
    ("02 000C 64656C65746553747265616D  00 0000000000000000  05  00 3FF0000000000000", DeleteStream(0.0, 1)),
    (
        """02 0008 6F6E537461747573  00 0000000000000000  05  03
           0005 6C6576656C  02 0006 737461747573
           0004 636F6465  02 0017 4E657453747265616D2E5075626C6973682E5374617274
           0000 09""",
        OnStatus(0.0, {"level": "status", "code": "NetStream.Publish.Start"}),
    ),
]

CODE = b"\x03\x00\x04code\x02\x00\x01x" + END

LITERALS: list[tuple[bytes, Command]] = [
    (b"\x02\x00\x07connect" + ONE + b"\x03" + END, Connect(1.0, {})),
    (b"\x02\x00\x07connect" + ONE + b"\x03" + END + TEST + NULL, Connect(1.0, {}, ("test", None))),
    (b"\x02\x00\x0dreleaseStream" + TWO + NULL + TEST, ReleaseStream(2.0, "test")),
    (b"\x02\x00\x09FCPublish" + TWO + NULL + TEST, FCPublish(2.0, "test")),
    (b"\x02\x00\x0bFCUnpublish" + TWO + NULL + TEST, FCUnpublish(2.0, "test")),
    (b"\x02\x00\x0bFCSubscribe" + TWO + NULL + TEST, FCSubscribe(2.0, "test")),
    (b"\x02\x00\x0dFCUnsubscribe" + TWO + NULL + TEST, FCUnsubscribe(2.0, "test")),
    (b"\x02\x00\x0fgetStreamLength" + TWO + NULL + TEST, GetStreamLength(2.0, "test")),
    (b"\x02\x00\x0ccreateStream" + TWO + NULL, CreateStream(2.0)),
    (b"\x02\x00\x08_checkbw" + TWO + NULL, CheckBandwidth(2.0)),
    (b"\x02\x00\x0bcloseStream" + ZERO + NULL, CloseStream(0.0)),
    (b"\x02\x00\x0cdeleteStream" + ZERO + NULL + TWO, DeleteStream(0.0, 2)),
    (b"\x02\x00\x07publish" + ZERO + NULL + TEST + b"\x02\x00\x06record", Publish(0.0, "test", "record")),
    (b"\x02\x00\x07publish" + ZERO + NULL + TEST + b"\x02\x00\x06append", Publish(0.0, "test", "append")),
    (b"\x02\x00\x04play" + ZERO + NULL + TEST, Play(0.0, "test")),
    (b"\x02\x00\x04play" + ZERO + NULL + TEST + MINUS_TWO, Play(0.0, "test", -2.0)),
    (b"\x02\x00\x04play" + ZERO + NULL + TEST + THOUSAND + MINUS_ONE, Play(0.0, "test", 1000.0, -1.0)),
    (b"\x02\x00\x04play" + ZERO + NULL + TEST + ZERO + ZERO + FALSE, Play(0.0, "test", 0.0, 0.0, reset=False)),
    (b"\x02\x00\x05play2" + ZERO + NULL + CODE, Play2(0.0, {"code": "x"})),
    (b"\x02\x00\x05pause" + ZERO + NULL + TRUE + THOUSAND, Pause(0.0, is_paused=True, position_ms=1000.0)),
    (b"\x02\x00\x08pauseRaw" + ZERO + NULL + FALSE + THOUSAND, PauseRaw(0.0, is_paused=False, position_ms=1000.0)),
    (b"\x02\x00\x04seek" + ZERO + NULL + THOUSAND, Seek(0.0, 1000.0)),
    (b"\x02\x00\x0creceiveAudio" + ZERO + NULL + FALSE, ReceiveAudio(0.0, is_wanted=False)),
    (b"\x02\x00\x0creceiveVideo" + ZERO + NULL + TRUE, ReceiveVideo(0.0, is_wanted=True)),
    (b"\x02\x00\x07_result" + FOUR, Result(4.0, ())),
    (b"\x02\x00\x07_result" + FOUR + NULL + UNDEFINED_VALUE, Result(4.0, (None, UNDEFINED))),
    (b"\x02\x00\x06_error" + FOUR + NULL + CODE, Error(4.0, (None, {"code": "x"}))),
    (b"\x02\x00\x08onStatus" + ZERO + NULL + CODE, OnStatus(0.0, {"code": "x"})),
    (b"\x02\x00\x0bonFCPublish" + ZERO + NULL + CODE, OnFCPublish(0.0, {"code": "x"})),
    (b"\x02\x00\x0donFCUnpublish" + ZERO + NULL + CODE, OnFCUnpublish(0.0, {"code": "x"})),
    (b"\x02\x00\x0donFCSubscribe" + ZERO + NULL + CODE, OnFCSubscribe(0.0, {"code": "x"})),
    (b"\x02\x00\x0fonFCUnsubscribe" + ZERO + NULL + CODE, OnFCUnsubscribe(0.0, {"code": "x"})),
    (b"\x02\x00\x08onBWDone" + ZERO + NULL, OnBWDone(0.0)),
    (b"\x02\x00\x05hello" + FOUR + NULL + TEST, UnknownCommand(4.0, "hello", (None, "test"))),
    (b"\x02\x00\x05hello" + FOUR, UnknownCommand(4.0, "hello")),
    (b"\x02\x00\x00" + ZERO, UnknownCommand(0.0, "")),
]

LITERAL_EXAMPLES = [(bytes.fromhex(payload), command) for payload, command in CONTRACT] + LITERALS


@pytest.mark.parametrize(("payload", "command"), LITERAL_EXAMPLES)
def test_a_payload_gives_its_command(payload: bytes, command: Command) -> None:
    read = read_command(payload)
    assert type(read) is type(command)
    assert read == command


@pytest.mark.parametrize(("payload", "command"), LITERAL_EXAMPLES)
def test_a_command_gives_its_payload(payload: bytes, command: Command) -> None:
    assert write_command(command) == payload


def test_every_command_has_a_literal_example() -> None:
    shown = {type(command).__name__ for _, command in LITERAL_EXAMPLES}
    known = {
        name for name, kind in vars(command_module).items() if isinstance(kind, type) and issubclass(kind, Command)
    }
    assert shown == {name for name in known if not name.startswith("_")} - {"Command"}


# Each command, and what it is with nothing but its name: absent and unusable arguments mean the same.
BARE: list[tuple[bytes, Command]] = [
    (b"\x02\x00\x07connect", Connect(0.0, {})),
    (b"\x02\x00\x0dreleaseStream", ReleaseStream(0.0, "")),
    (b"\x02\x00\x09FCPublish", FCPublish(0.0, "")),
    (b"\x02\x00\x0bFCUnpublish", FCUnpublish(0.0, "")),
    (b"\x02\x00\x0bFCSubscribe", FCSubscribe(0.0, "")),
    (b"\x02\x00\x0dFCUnsubscribe", FCUnsubscribe(0.0, "")),
    (b"\x02\x00\x0fgetStreamLength", GetStreamLength(0.0, "")),
    (b"\x02\x00\x0ccreateStream", CreateStream(0.0)),
    (b"\x02\x00\x08_checkbw", CheckBandwidth(0.0)),
    (b"\x02\x00\x0bcloseStream", CloseStream(0.0)),
    (b"\x02\x00\x0cdeleteStream", DeleteStream(0.0, 0)),
    (b"\x02\x00\x07publish", Publish(0.0, "", "live")),
    (b"\x02\x00\x04play", Play(0.0, "", None, None, None)),
    (b"\x02\x00\x05play2", Play2(0.0, {})),
    (b"\x02\x00\x05pause", Pause(0.0, is_paused=True, position_ms=0.0)),
    (b"\x02\x00\x08pauseRaw", PauseRaw(0.0, is_paused=True, position_ms=0.0)),
    (b"\x02\x00\x04seek", Seek(0.0, 0.0)),
    (b"\x02\x00\x0creceiveAudio", ReceiveAudio(0.0, is_wanted=True)),
    (b"\x02\x00\x0creceiveVideo", ReceiveVideo(0.0, is_wanted=True)),
    (b"\x02\x00\x08onStatus", OnStatus(0.0, {})),
    (b"\x02\x00\x0bonFCPublish", OnFCPublish(0.0, {})),
    (b"\x02\x00\x0donFCUnpublish", OnFCUnpublish(0.0, {})),
    (b"\x02\x00\x0donFCSubscribe", OnFCSubscribe(0.0, {})),
    (b"\x02\x00\x0fonFCUnsubscribe", OnFCUnsubscribe(0.0, {})),
    (b"\x02\x00\x08onBWDone", OnBWDone(0.0)),
]


@pytest.mark.parametrize(("name", "command"), BARE)
@pytest.mark.parametrize("rest", [b"", ZERO, ZERO + NULL])
def test_arguments_may_be_missing(name: bytes, command: Command, rest: bytes) -> None:
    assert read_command(name + rest) == command


@pytest.mark.parametrize(("name", "command"), BARE[1:])
def test_an_argument_that_is_undefined_is_as_good_as_missing(name: bytes, command: Command) -> None:
    assert read_command(name + ZERO + NULL + UNDEFINED_VALUE) == command


def test_answers_may_have_no_values() -> None:
    assert read_command(b"\x02\x00\x07_result") == Result(0.0, ())
    assert read_command(b"\x02\x00\x06_error") == Error(0.0, ())


@pytest.mark.parametrize(
    ("payload", "command"),
    [
        (payload, command)
        for payload, command in LITERAL_EXAMPLES
        if not isinstance(command, Connect | Result | Error | UnknownCommand | Play)
    ],
)
def test_arguments_behind_the_known_ones_are_ignored(payload: bytes, command: Command) -> None:
    assert read_command(payload + NULL + CODE + TEST) == command


def test_a_play_may_have_arguments_behind_its_fourth() -> None:
    payload = b"\x02\x00\x04play" + ZERO + NULL + TEST + MINUS_TWO + MINUS_ONE + TRUE
    assert read_command(payload + TEST + CODE) == Play(0.0, "test", -2.0, -1.0, reset=True)


@pytest.mark.parametrize(
    ("payload", "command"),
    [
        # A flag as a number, or as a number in text.
        (b"\x02\x00\x05pause" + ZERO + NULL + ONE + ZERO, Pause(0.0, is_paused=True, position_ms=0.0)),
        (b"\x02\x00\x05pause" + ZERO + NULL + ZERO + ZERO, Pause(0.0, is_paused=False, position_ms=0.0)),
        (b"\x02\x00\x0creceiveAudio" + ZERO + NULL + ZERO, ReceiveAudio(0.0, is_wanted=False)),
        (b"\x02\x00\x0creceiveVideo" + ZERO + NULL + b"\x02\x00\x010", ReceiveVideo(0.0, is_wanted=False)),
        (b"\x02\x00\x04play" + ZERO + NULL + TEST + MINUS_TWO + MINUS_ONE + TWO, Play(0.0, "test", -2.0, -1.0, True)),
        (b"\x02\x00\x04play" + ZERO + NULL + TEST + MINUS_TWO + MINUS_ONE + ZERO, Play(0.0, "test", -2.0, -1.0, False)),
        # A number as text, or as a flag.
        (b"\x02\x00\x04play" + ZERO + NULL + TEST + b"\x02\x00\x02-2", Play(0.0, "test", -2.0)),
        (b"\x02\x00\x04seek" + ZERO + NULL + b"\x02\x00\x041500", Seek(0.0, 1500.0)),
        (b"\x02\x00\x0cdeleteStream" + ZERO + NULL + b"\x02\x00\x012", DeleteStream(0.0, 2)),
        (b"\x02\x00\x0ccreateStream\x02\x00\x014" + NULL, CreateStream(4.0)),
        (b"\x02\x00\x0ccreateStream" + TRUE + NULL, CreateStream(1.0)),
        # Text as a number.
        (b"\x02\x00\x07publish" + ZERO + NULL + FOUR, Publish(0.0, "4", "live")),
        (b"\x02\x00\x04play" + ZERO + NULL + THOUSAND, Play(0.0, "1000")),
        # Neither: as if it were not there.
        (b"\x02\x00\x04play" + ZERO + NULL + TEST + b"\x02\x00\x04live" + NULL + CODE, Play(0.0, "test")),
        (b"\x02\x00\x04play" + ZERO + NULL + TEST + NAN + INFINITY + NAN, Play(0.0, "test")),
        (b"\x02\x00\x04play" + ZERO + NULL + TRUE, Play(0.0, "")),
        (b"\x02\x00\x07publish" + ZERO + NULL + CODE + TRUE, Publish(0.0, "", "live")),
        (b"\x02\x00\x0cdeleteStream" + ZERO + NULL + INFINITY, DeleteStream(0.0, 0)),
        (b"\x02\x00\x0ccreateStream" + NAN + NULL, CreateStream(0.0)),
        (b"\x02\x00\x0ccreateStream" + CODE + NULL, CreateStream(0.0)),
        (b"\x02\x00\x08onStatus" + ZERO + NULL + TEST, OnStatus(0.0, {})),
        (b"\x02\x00\x07connect" + ONE + NULL + TEST, Connect(1.0, {}, ("test",))),
        # An ECMA array is as good as an object.
        (b"\x02\x00\x07connect" + ONE + b"\x08\x00\x00\x00\x01\x00\x03app" + TEST + END, Connect(1.0, {"app": "test"})),
        # The command object is never looked at.
        (b"\x02\x00\x07publish" + ZERO + CODE + TEST, Publish(0.0, "test")),
        (b"\x02\x00\x07publish" + ZERO + UNDEFINED_VALUE + TEST, Publish(0.0, "test")),
        # Half a transaction id, a large one and a negative one are echoed.
        (b"\x02\x00\x0ccreateStream\x00\x40\x04\x00\x00\x00\x00\x00\x00" + NULL, CreateStream(2.5)),
        (b"\x02\x00\x0ccreateStream\x00\x43\x40\x00\x00\x00\x00\x00\x00" + NULL, CreateStream(9007199254740992.0)),
        (b"\x02\x00\x0ccreateStream" + MINUS_ONE + NULL, CreateStream(-1.0)),
    ],
)
def test_arguments_are_taken_softly(payload: bytes, command: Command) -> None:
    assert read_command(payload) == command


def test_a_command_in_amf3_is_read_behind_its_format_byte() -> None:
    # 0x11 holds one AMF3 value: an object with one dynamic member.
    payload = b"\x00\x02\x00\x07connect" + ONE + b"\x11\x0a\x0b\x01\x07app\x06\x09live\x01"
    assert read_command(payload[1:]) == Connect(1.0, {"app": "live"})


@pytest.mark.parametrize(
    ("play", "arguments"),
    [
        (Play(0.0, "test", duration=1000.0), MINUS_TWO + THOUSAND),
        (Play(0.0, "test", reset=True), MINUS_TWO + MINUS_ONE + TRUE),
        (Play(0.0, "test", start=0.0, reset=False), ZERO + MINUS_ONE + FALSE),
        (Play(0.0, "test", duration=1000.0, reset=True), MINUS_TWO + THOUSAND + TRUE),
    ],
)
def test_a_gap_in_a_plays_arguments_is_filled_with_what_it_means(play: Play, arguments: bytes) -> None:
    assert write_command(play) == b"\x02\x00\x04play" + ZERO + NULL + TEST + arguments


@pytest.mark.parametrize("payload", [b"", NULL, UNDEFINED_VALUE, ONE, CODE, TRUE + TEST, b"\x0a\x00\x00\x00\x00"])
def test_a_payload_without_a_name_breaks_the_protocol(payload: bytes) -> None:
    message = f"^command: a payload of {len(payload)} bytes does not start with a command name$"
    with pytest.raises(ProtocolViolation, match=message):
        read_command(payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"\x02",
        b"\x02\x00\x07conn",
        b"\x02\x00\x07connect" + ONE[:5],
        b"\x02\x00\x07connect" + ONE + b"\x03\x00\x03app",
        b"\x02\x00\x07connect" + ONE + b"\x05" * 999,
        b"\x02\x00\x07connect" + ONE + b"\x0a\x00\x00\x00\x01" * 40,
    ],
)
def test_what_is_no_amf_is_malformed_amf(payload: bytes) -> None:
    with pytest.raises(MalformedAmf):
        read_command(payload)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (7.0, 7.0),
        (7, 7.0),
        (True, 1.0),
        ("7", 7.0),
        (" -2.5 ", -2.5),
        ("1e3", 1000.0),
        ("", None),
        ("seven", None),
        ("nan", None),
        ("-inf", None),
        ("1e999", None),
        ("\udcff", None),
        (math.nan, None),
        (math.inf, None),
        (None, None),
        (UNDEFINED, None),
        ({}, None),
        ([7.0], None),
    ],
)
def test_a_number_is_made_of_what_says_one(value: AmfValue, number: float | None) -> None:
    assert as_number(value) == number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("test", "test"),
        ("", ""),
        (7.0, "7"),
        (7, "7"),
        (-1.0, "-1"),
        (0.5, "0.5"),
        (1234567.0, "1234567"),
        (20261115.0, "20261115"),
        (9007199254740991.0, "9007199254740991"),
        (True, None),
        (None, None),
        (UNDEFINED, None),
        ({}, None),
    ],
)
def test_a_name_that_came_as_a_number_is_written_as_a_person_would(value: AmfValue, text: str | None) -> None:
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("value", "flag"),
    [(True, True), (False, False), (1.0, True), (0.0, False), (3, True), ("1", True), ("0", False)],
)
def test_a_flag_may_be_a_number(value: AmfValue, flag: bool) -> None:
    assert as_flag(value) is flag


@pytest.mark.parametrize("value", [None, UNDEFINED, "yes", {}, math.nan])
def test_what_is_no_flag_is_none(value: AmfValue) -> None:
    assert as_flag(value) is None


def commands_of(session: str, direction: str = "client") -> list[Command]:
    messages = read_messages(golden_bytes(f"sessions/{session}.{direction}.bin"))
    return [read_command(each.payload) for each in messages if each.type_id == AMF0_COMMAND]


URL = "rtmp://127.0.0.1:19350/live"
FFMPEG_5: dict[str, AmfValue] = {
    "app": "live",
    "type": "nonprivate",
    "flashVer": "FMLE/3.0 (compatible; Lavf59.27.100)",
    "tcUrl": URL,
}
PLAYER: dict[str, AmfValue] = {"fpad": False, "capabilities": 15.0, "audioCodecs": 4071.0, "videoCodecs": 252.0}
PUBLISHING = [
    ReleaseStream(2.0, "test"),
    FCPublish(3.0, "test"),
    CreateStream(4.0),
    Publish(5.0, "test", "live"),
    FCUnpublish(6.0, "test"),
    DeleteStream(7.0, 1),
]

SESSIONS: list[tuple[str, list[Command]]] = [
    ("ffmpeg_publish", [Connect(1.0, FFMPEG_5), *PUBLISHING]),
    (
        "ffmpeg7_publish_hevc",
        [
            Connect(
                1.0,
                {
                    "app": "live",
                    "fourCcList": ["hvc1", "av01", "vp09"],
                    "type": "nonprivate",
                    "flashVer": "FMLE/3.0 (compatible; Lavf61.1.100)",
                    "tcUrl": URL,
                },
            ),
            *PUBLISHING,
        ],
    ),
    (
        "obs_publish",
        [
            Connect(
                1.0,
                {
                    "app": "live",
                    "type": "nonprivate",
                    "supportsGoAway": True,
                    "flashVer": "FMLE/3.0 (compatible; FMSc/1.0)",
                    "swfUrl": URL,
                    "tcUrl": URL,
                },
            ),
            *PUBLISHING,
        ],
    ),
    ("gstreamer_rtmpsink_publish", [Connect(1.0, {"app": "live", "type": "nonprivate", "tcUrl": URL}), *PUBLISHING]),
    (
        "gstreamer_rtmp2sink_publish",
        [
            Connect(1.0, {"app": "live", "type": "nonprivate", "flashVer": "LNX 10,0,32,18", "tcUrl": URL}),
            ReleaseStream(0.0, "test"),
            FCPublish(0.0, "test"),
            CreateStream(2.0),
            Publish(0.0, "test", "live"),
            FCUnpublish(0.0, "test"),
            # It gives the name where the number belongs.
            DeleteStream(0.0, 0),
        ],
    ),
    (
        "nginx_push",
        [
            Connect(
                1.0,
                {
                    "app": "live",
                    "tcUrl": URL,
                    "pageUrl": "",
                    "swfUrl": "",
                    "flashVer": "LNX.11,1,102,55",
                    "audioCodecs": 3575.0,
                    "videoCodecs": 252.0,
                },
            ),
            CreateStream(2.0),
            Publish(0.0, "test", "live"),
        ],
    ),
    (
        "ffmpeg_play",
        [
            Connect(1.0, {"app": "live", "flashVer": "LNX 9,0,124,2", "tcUrl": URL, **PLAYER, "videoFunction": 1.0}),
            CreateStream(2.0),
            GetStreamLength(3.0, "test"),
            Play(4.0, "test", -2000.0),
            DeleteStream(5.0, 1),
        ],
    ),
    (
        "rtmpdump_play",
        [
            Connect(
                1.0,
                {
                    "app": "live",
                    "flashVer": "LNX 10,0,32,18",
                    "tcUrl": URL,
                    **PLAYER,
                    "audioCodecs": 3191.0,
                    "videoFunction": 1.0,
                },
            ),
            CreateStream(2.0),
            FCSubscribe(3.0, "test"),
            Play(4.0, "test", -1000.0),
            DeleteStream(5.0, 1),
        ],
    ),
    (
        "gstreamer_rtmp2src_play",
        [
            Connect(1.0, {"app": "live", "flashVer": "LNX 10,0,32,18", "tcUrl": URL, **PLAYER, "videoFunction": 1.0}),
            CreateStream(2.0),
            Play(0.0, "test", -2.0),
        ],
    ),
]


@pytest.mark.parametrize(("session", "commands"), SESSIONS, ids=[session for session, _ in SESSIONS])
def test_real_clients_are_understood(session: str, commands: list[Command]) -> None:
    assert commands_of(session) == commands


def test_properties_keep_the_order_in_which_a_client_gave_them() -> None:
    (connect, *_) = commands_of("obs_publish")
    assert isinstance(connect, Connect)
    assert list(connect.properties) == ["app", "type", "supportsGoAway", "flashVer", "swfUrl", "tcUrl"]


@pytest.mark.parametrize(("session", "direction"), [("obs_publish", "client"), ("ffmpeg_publish", "server")])
def test_real_commands_are_written_back_to_the_byte(session: str, direction: str) -> None:
    messages = read_messages(golden_bytes(f"sessions/{session}.{direction}.bin"))
    payloads = [each.payload for each in messages if each.type_id == AMF0_COMMAND]
    assert [write_command(read_command(payload)) for payload in payloads] == payloads


def test_a_real_server_is_understood() -> None:
    assert commands_of("ffmpeg_play", "server") == [
        Result(
            1.0,
            (
                {"fmsVer": "FMS/3,0,1,123", "capabilities": 31.0},
                {
                    "level": "status",
                    "code": "NetConnection.Connect.Success",
                    "description": "Connection succeeded.",
                    "objectEncoding": 0.0,
                },
            ),
        ),
        Result(2.0, (None, 1.0)),
        OnStatus(0.0, {"level": "status", "code": "NetStream.Play.Start", "description": "Start live"}),
    ]


numbers = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(max_size=12)
values: st.SearchStrategy[AmfValue] = st.none() | st.booleans() | numbers | names
objects = st.dictionaries(names, values | st.lists(values, max_size=3), max_size=4)
many = st.lists(values | objects, max_size=4).map(tuple)
play_ends: st.SearchStrategy[tuple[float | bool, ...]] = st.one_of(
    st.just(()), st.tuples(numbers), st.tuples(numbers, numbers), st.tuples(numbers, numbers, st.booleans())
)
KNOWN_NAMES = {command.command_name for _, command in BARE} | {"_result", "_error"}
named = (ReleaseStream, FCPublish, FCUnpublish, FCSubscribe, FCUnsubscribe, GetStreamLength)
informing = (OnStatus, OnFCPublish, OnFCUnpublish, OnFCSubscribe, OnFCUnsubscribe)
commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(Connect, numbers, objects, many),
    *(st.builds(kind, numbers, names) for kind in named),
    *(st.builds(kind, numbers) for kind in (CreateStream, CheckBandwidth, CloseStream, OnBWDone)),
    st.builds(DeleteStream, numbers, st.integers(0, 0xFFFFFFFF)),
    st.builds(Publish, numbers, names, st.sampled_from(["live", "record", "append"])),
    st.builds(lambda number, name, end: Play(number, name, *end), numbers, names, play_ends),
    st.builds(Play2, numbers, objects),
    *(st.builds(kind, numbers, st.booleans(), numbers) for kind in (Pause, PauseRaw)),
    st.builds(Seek, numbers, numbers),
    *(st.builds(kind, numbers, st.booleans()) for kind in (ReceiveAudio, ReceiveVideo)),
    *(st.builds(kind, numbers, many) for kind in (Result, Error)),
    *(st.builds(kind, numbers, objects) for kind in informing),
    st.builds(UnknownCommand, numbers, names.filter(lambda name: name not in KNOWN_NAMES), many),
)


@given(st.lists(commands, min_size=1, max_size=6))
def test_any_command_comes_back_as_it_was_written(written: list[Command]) -> None:
    read = [read_command(write_command(command)) for command in written]
    assert [type(command) for command in read] == [type(command) for command in written]
    assert read == written


@given(st.sampled_from([b"", *(name for name, _ in BARE)]), st.binary(max_size=60))
def test_any_payload_gives_a_command_or_is_refused(name: bytes, rest: bytes) -> None:
    try:
        command = read_command(name + rest)
    except (MalformedAmf, ProtocolViolation):
        return
    written = write_command(command)
    assert write_command(read_command(written)) == written


def test_as_many_values_as_a_command_may_have_are_read_and_counted() -> None:
    work = WorkMeter()
    command = read_command(b"\x02\x00\x01x" + ONE + b"\x05" * 998, work)
    assert command == UnknownCommand(1.0, "x", (None,) * 998)
    assert work.done == 1000
    with pytest.raises(MalformedAmf, match="amf0: more than 1000 items"):
        read_command(b"\x02\x00\x01x" + ONE + b"\x05" * 999)


def test_values_inside_others_are_counted_too() -> None:
    work = WorkMeter()
    read_command(b"\x02\x00\x01x" + ONE + b"\x03\x00\x01a\x05\x00\x01b\x05\x00\x00\x09", work)
    assert work.done == 5


def test_what_cannot_be_decoded_is_left_out() -> None:
    assert read_command(b"\x02\x00\x07publish" + ZERO + NULL + TEST + b"\xff") == Publish(0.0, "test")
    circular = b"\x03\x00\x03app\x02\x00\x04live\x00\x01x\x07\x00\x00\x00\x00\x09"
    assert read_command(b"\x02\x00\x07connect" + ONE + circular) == Connect(1.0, {"app": "live", "x": None})
    unknown = b"\x03\x00\x03app\x02\x00\x04live\x00\x01x\x0e\x00\x00\x00\x00\x09"
    assert read_command(b"\x02\x00\x07connect" + ONE + unknown) == Connect(1.0, {"app": "live"})
    with pytest.raises(ProtocolViolation, match="does not start with a command name"):
        read_command(b"\xff")
