"""AMF payloads that our own writers had no part in: worked out by hand, or sent by other programs."""

from dataclasses import dataclass

from penstock.amf import UNDEFINED, UNSUPPORTED, AmfDate, AmfValue, AmfXml, EcmaArray, TypedObject


@dataclass(frozen=True, slots=True)
class Golden:
    """A payload and the values in it. `is_ours` where we would send the very same bytes for them."""

    name: str
    data: bytes
    values: list[AmfValue]
    is_ours: bool = True

    def __str__(self) -> str:
        return self.name


COMMANDS = [
    Golden(
        "connect",
        bytes.fromhex("""
            02 00 07 63 6F 6E 6E 65 63 74
            00 3F F0 00 00 00 00 00 00
            03
              00 03 61 70 70  02 00 04 6C 69 76 65
              00 08 66 6C 61 73 68 56 65 72  02 00 08 46 4D 4C 45 2F 33 2E 30
              00 05 74 63 55 72 6C
              02 00 15 72 74 6D 70 3A 2F 2F 6C 6F 63 61 6C 68 6F 73 74 2F 6C 69 76 65
              00 0E 6F 62 6A 65 63 74 45 6E 63 6F 64 69 6E 67  00 00 00 00 00 00 00 00 00
            00 00 09
        """),
        [
            "connect",
            1.0,
            {"app": "live", "flashVer": "FMLE/3.0", "tcUrl": "rtmp://localhost/live", "objectEncoding": 0.0},
        ],
    ),
    Golden(
        "result of connect",
        bytes.fromhex("""
            02 00 07 5F 72 65 73 75 6C 74
            00 3F F0 00 00 00 00 00 00
            03
              00 06 66 6D 73 56 65 72  02 00 0E 46 4D 53 2F 33 2C 35 2C 37 2C 37 30 30 39
              00 0C 63 61 70 61 62 69 6C 69 74 69 65 73  00 40 3F 00 00 00 00 00 00
            00 00 09
            03
              00 05 6C 65 76 65 6C  02 00 06 73 74 61 74 75 73
              00 04 63 6F 64 65
              02 00 1D 4E 65 74 43 6F 6E 6E 65 63 74 69 6F 6E 2E 43 6F 6E 6E 65 63 74 2E 53 75 63 63 65 73 73
            00 00 09
        """),
        [
            "_result",
            1.0,
            {"fmsVer": "FMS/3,5,7,7009", "capabilities": 31.0},
            {"level": "status", "code": "NetConnection.Connect.Success"},
        ],
    ),
    Golden(
        "error of connect",
        bytes.fromhex("""
            02 00 06 5F 65 72 72 6F 72
            00 3F F0 00 00 00 00 00 00
            05
            03
              00 05 6C 65 76 65 6C  02 00 05 65 72 72 6F 72
              00 04 63 6F 64 65
              02 00 1E 4E 65 74 43 6F 6E 6E 65 63 74 69 6F 6E 2E 43 6F 6E 6E 65 63 74 2E 52 65 6A 65 63 74 65 64
            00 00 09
        """),
        ["_error", 1.0, None, {"level": "error", "code": "NetConnection.Connect.Rejected"}],
    ),
    Golden(
        "createStream",
        bytes.fromhex("02 00 0C 63 72 65 61 74 65 53 74 72 65 61 6D  00 40 10 00 00 00 00 00 00  05"),
        ["createStream", 4.0, None],
    ),
    Golden(
        "result of createStream",
        bytes.fromhex("""
            02 00 07 5F 72 65 73 75 6C 74  00 40 10 00 00 00 00 00 00  05  00 3F F0 00 00 00 00 00 00
        """),
        ["_result", 4.0, None, 1.0],
    ),
    Golden(
        "publish",
        bytes.fromhex("""
            02 00 07 70 75 62 6C 69 73 68  00 00 00 00 00 00 00 00 00  05
            02 00 04 74 65 73 74  02 00 04 6C 69 76 65
        """),
        ["publish", 0.0, None, "test", "live"],
    ),
    Golden(
        "play",
        bytes.fromhex("""
            02 00 04 70 6C 61 79  00 00 00 00 00 00 00 00 00  05  02 00 04 74 65 73 74
            00 C0 00 00 00 00 00 00 00  00 BF F0 00 00 00 00 00 00  01 01
        """),
        ["play", 0.0, None, "test", -2.0, -1.0, True],
    ),
    Golden(
        "deleteStream",
        bytes.fromhex("""
            02 00 0C 64 65 6C 65 74 65 53 74 72 65 61 6D  00 00 00 00 00 00 00 00 00  05  00 3F F0 00 00 00 00 00 00
        """),
        ["deleteStream", 0.0, None, 1.0],
    ),
    Golden(
        "onStatus",
        bytes.fromhex("""
            02 00 08 6F 6E 53 74 61 74 75 73  00 00 00 00 00 00 00 00 00  05
            03
              00 05 6C 65 76 65 6C  02 00 06 73 74 61 74 75 73
              00 04 63 6F 64 65
              02 00 17 4E 65 74 53 74 72 65 61 6D 2E 50 75 62 6C 69 73 68 2E 53 74 61 72 74
            00 00 09
        """),
        ["onStatus", 0.0, None, {"level": "status", "code": "NetStream.Publish.Start"}],
    ),
]

FROM_PEERS = [
    Golden(
        "FFmpeg 5.1 connects to publish",
        bytes.fromhex(
            "020007636f6e6e656374003ff00000000000000300036170700200046c69766500047479706502000a6e6f6e70726976617465"
            "0008666c617368566572020024464d4c452f332e302028636f6d70617469626c653b204c61766635392e32372e313030290005"
            "746355726c02001b72746d703a2f2f3132372e302e302e313a33353939372f6c697665000009"
        ),
        [
            "connect",
            1.0,
            {
                "app": "live",
                "type": "nonprivate",
                "flashVer": "FMLE/3.0 (compatible; Lavf59.27.100)",
                "tcUrl": "rtmp://127.0.0.1:35997/live",
            },
        ],
    ),
    Golden(
        "FFmpeg 5.1 connects to play",
        bytes.fromhex(
            "020007636f6e6e656374003ff00000000000000300036170700200046c6976650008666c61736856657202000d4c4e5820392c"
            "302c3132342c320005746355726c02001b72746d703a2f2f3132372e302e302e313a35303439352f6c69766500046670616401"
            "00000c6361706162696c697469657300402e000000000000000b617564696f436f646563730040afce0000000000000b766964"
            "656f436f6465637300406f800000000000000d766964656f46756e6374696f6e003ff0000000000000000009"
        ),
        [
            "connect",
            1.0,
            {
                "app": "live",
                "flashVer": "LNX 9,0,124,2",
                "tcUrl": "rtmp://127.0.0.1:50495/live",
                "fpad": False,
                "capabilities": 15.0,
                "audioCodecs": 4071.0,
                "videoCodecs": 252.0,
                "videoFunction": 1.0,
            },
        ],
    ),
    Golden(
        "FFmpeg 5.1 writes onMetaData",
        bytes.fromhex(
            "02000a6f6e4d65746144617461080000000c00086475726174696f6e003ff05e353f7ced910005776964746800405000000000"
            "00000006686569676874004050000000000000000d766964656f64617461726174650040686a00000000000009667261"
            "6d6572617465004014000000000000000c766964656f636f6465636964004000000000000000000d617564696f6461746172"
            "617465004050d88000000000000f617564696f73616d706c65726174650040e5888000000000000f617564696f73616d706c"
            "6573697a65004030000000000000000673746572656f0100000c617564696f636f646563696400402400000000000000"
            "0866696c6573697a650040cd230000000000000009"
        ),
        [
            "onMetaData",
            EcmaArray(
                {
                    "duration": 1.023,
                    "width": 64.0,
                    "height": 64.0,
                    "videodatarate": 195.3125,
                    "framerate": 5.0,
                    "videocodecid": 2.0,
                    "audiodatarate": 67.3828125,
                    "audiosamplerate": 44100.0,
                    "audiosamplesize": 16.0,
                    "stereo": False,
                    "audiocodecid": 10.0,
                    "filesize": 14918.0,
                }
            ),
        ],
    ),
    Golden(
        "PyAMF writes the same object twice",
        bytes.fromhex("0a0000000203000161020003616263000162020003616263000009070001"),
        [[{"a": "abc", "b": "abc"}, {"a": "abc", "b": "abc"}]],
        is_ours=False,
    ),
    Golden(
        "PyAMF writes an object of a class",
        bytes.fromhex("10000e6f72672e61636d652e506f696e74000178003ff0000000000000000179004000000000000000000009"),
        [TypedObject("org.acme.Point", {"x": 1.0, "y": 2.0})],
    ),
    Golden("PyAMF writes a date", bytes.fromhex("0b4278cc251f4000000000"), [AmfDate(1704067200000.0, 0)]),
    Golden("PyAMF writes XML", bytes.fromhex("0f000000053c61202f3e"), [AmfXml("<a />")]),
    Golden(
        "PyAMF announces no members",
        bytes.fromhex("0800000000000161003ff000000000000000016202000178000009"),
        [EcmaArray({"a": 1.0, "b": "x"})],
        is_ours=False,
    ),
]

MARKERS = [
    Golden("number", bytes.fromhex("00 3FF8000000000000"), [1.5]),
    Golden("infinity", bytes.fromhex("00 7FF0000000000000"), [float("inf")]),
    Golden("false", bytes.fromhex("01 00"), [False]),
    Golden("true", bytes.fromhex("01 01"), [True]),
    Golden("any other byte is true too", bytes.fromhex("01 7F"), [True], is_ours=False),
    Golden("string", b"\x02\x00\x04test", ["test"]),
    Golden("string in UTF-8", bytes.fromhex("02 0006 E79BB4E692AD"), ["直播"]),
    Golden("string in GBK", bytes.fromhex("02 0004 D6D0CEC4"), ["\udcd6\udcd0\udcce\udcc4"]),
    Golden("empty string", bytes.fromhex("02 0000"), [""]),
    Golden("object", b"\x03\x00\x03key\x02\x00\x05value\x00\x00\x09", [{"key": "value"}]),
    Golden("empty object", bytes.fromhex("03 000009"), [{}]),
    Golden("object in an object", bytes.fromhex("03 000161 03 000162 05 000009 000009"), [{"a": {"b": None}}]),
    Golden("member with an empty name", bytes.fromhex("03 0000 05 000161 0101 000009"), [{"": None, "a": True}]),
    Golden("null", b"\x05", [None]),
    Golden("undefined", b"\x06", [UNDEFINED]),
    Golden("reference", bytes.fromhex("03 000161 05 000009 07 0000"), [{"a": None}, {"a": None}], is_ours=False),
    Golden("ECMA array", bytes.fromhex("08 00000001 000161 05 000009"), [EcmaArray({"a": None})]),
    Golden("empty ECMA array", bytes.fromhex("08 00000000 000009"), [EcmaArray()]),
    Golden("too high a count", bytes.fromhex("08 FFFFFFFF 000161 05 000009"), [EcmaArray({"a": None})], is_ours=False),
    Golden(
        "strict array",
        bytes.fromhex("0A 00000003 00 3FF0000000000000 00 4000000000000000 00 4008000000000000"),
        [[1.0, 2.0, 3.0]],
    ),
    Golden("empty strict array", bytes.fromhex("0A 00000000"), [[]]),
    Golden("date west of Greenwich", bytes.fromhex("0B 3FF0000000000000 FED4"), [AmfDate(1.0, -300)]),
    Golden("short long string", bytes.fromhex("0C 00000002 6869"), ["hi"], is_ours=False),
    Golden("long string", b"\x0c\x00\x01\x00\x00" + b"x" * 65536, ["x" * 65536]),
    Golden("unsupported", b"\x0d", [UNSUPPORTED]),
    Golden("XML", b"\x0f\x00\x00\x00\x04<a/>", [AmfXml("<a/>")]),
    Golden("typed object", bytes.fromhex("10 000143 000161 05 000009"), [TypedObject("C", {"a": None})]),
    Golden("AMF3 between AMF0", bytes.fromhex("05 11 04 7F 05"), [None, 127, None], is_ours=False),
    Golden("byte array, which is AMF3", bytes.fromhex("11 0C 05 00FF"), [b"\x00\xff"]),
    Golden(
        "AMF3 strings shared by two values",
        bytes.fromhex("11 06 07 617070 11 06 00"),
        ["app", "app"],
        is_ours=False,
    ),
]

AMF0 = COMMANDS + FROM_PEERS + MARKERS

_ARRAY_COLLECTION = bytes.fromhex("666c65782e6d6573736167696e672e696f2e4172726179436f6c6c656374696f6e")
_OBJECT_PROXY = bytes.fromhex("666c65782e6d6573736167696e672e696f2e4f626a65637450726f7879")

AMF3 = [
    Golden("undefined", b"\x00", [UNDEFINED]),
    Golden("null", b"\x01", [None]),
    Golden("false", b"\x02", [False]),
    Golden("true", b"\x03", [True]),
    Golden("0", bytes.fromhex("04 00"), [0]),
    Golden("greatest of one byte", bytes.fromhex("04 7F"), [127]),
    Golden("least of two bytes", bytes.fromhex("04 8100"), [128]),
    Golden("greatest of two bytes", bytes.fromhex("04 FF7F"), [16383]),
    Golden("least of three bytes", bytes.fromhex("04 818000"), [16384]),
    Golden("greatest of three bytes", bytes.fromhex("04 FFFF7F"), [2097151]),
    Golden("least of four bytes", bytes.fromhex("04 80C08000"), [2097152]),
    Golden("greatest integer", bytes.fromhex("04 BFFFFFFF"), [268435455]),
    Golden("-1", bytes.fromhex("04 FFFFFFFF"), [-1]),
    Golden("least integer", bytes.fromhex("04 C0808000"), [-268435456]),
    Golden("double", bytes.fromhex("05 41B0000000000000"), [268435456.0]),
    Golden("string", bytes.fromhex("06 07 616263"), ["abc"]),
    Golden("empty string", bytes.fromhex("06 01"), [""]),
    Golden("string in GBK", bytes.fromhex("06 05 D6D0"), ["\udcd6\udcd0"]),
    Golden(
        "empty strings take no place among references",
        bytes.fromhex("09 0D 01 06 07616263 06 01 06 03 7A 06 00 06 01 06 02"),
        [["abc", "", "z", "abc", "", "z"]],
        is_ours=False,
    ),
    Golden("XML document", bytes.fromhex("07 0B 3c61202f3e"), [AmfXml("<a />")], is_ours=False),
    Golden("XML", bytes.fromhex("0B 0B 3c61202f3e"), [AmfXml("<a />")]),
    Golden("date", bytes.fromhex("08 01 4278cc251f400000"), [AmfDate(1704067200000.0)]),
    Golden(
        "date by reference",
        bytes.fromhex("09 05 01 08 01 4278cc251f400000 08 02"),
        [[AmfDate(1704067200000.0), AmfDate(1704067200000.0)]],
        is_ours=False,
    ),
    Golden("dense array", bytes.fromhex("09 05 01 04 01 03"), [[1, True]]),
    Golden("empty array", bytes.fromhex("09 01 01"), [[]]),
    Golden("associative array", bytes.fromhex("09 01 03 61 04 01 01"), [EcmaArray({"a": 1})]),
    Golden(
        "array with both parts", bytes.fromhex("09 03 03 61 04 01 01 06 00"), [EcmaArray({"a": 1, "0": "a"})], False
    ),
    Golden(
        "anonymous object",
        bytes.fromhex("0a 0b 01 0b 6c6576656c 06 0d 737461747573 03 6e 04 01 01"),
        [{"level": "status", "n": 1}],
    ),
    Golden("empty object", bytes.fromhex("0a 0b 01 01"), [{}]),
    Golden(
        "object by reference",
        bytes.fromhex("0905010a0b010361060761626303620602010a02"),
        [[{"a": "abc", "b": "abc"}, {"a": "abc", "b": "abc"}]],
        is_ours=False,
    ),
    Golden(
        "dynamic class by reference",
        bytes.fromhex("0905010a0b1d6f72672e61636d652e506f696e740378040103790402010a010204030405401200000000000001"),
        [[TypedObject("org.acme.Point", {"x": 1, "y": 2}), TypedObject("org.acme.Point", {"x": 3, "y": 4.5})]],
        is_ours=False,
    ),
    Golden(
        "sealed class by reference",
        bytes.fromhex("0905010a23035303780379040104020a0104030404"),
        [[TypedObject("S", {"x": 1, "y": 2}), TypedObject("S", {"x": 3, "y": 4})]],
        is_ours=False,
    ),
    Golden("typed object", bytes.fromhex("0a 0b 03 43 03 61 01 01"), [TypedObject("C", {"a": None})]),
    Golden(
        "array collection of Flex",
        bytes.fromhex("0a 07 43") + _ARRAY_COLLECTION + bytes.fromhex("09 05 01 04 01 04 02"),
        [[1, 2]],
        is_ours=False,
    ),
    Golden(
        "object proxy of Flex",
        bytes.fromhex("0a 07 3b") + _OBJECT_PROXY + bytes.fromhex("0a 0b 01 03 61 04 01 01"),
        [{"a": 1}],
        is_ours=False,
    ),
    Golden("byte array", bytes.fromhex("0c 07 0001ff"), [b"\x00\x01\xff"]),
    Golden("vector of int", bytes.fromhex("0d 05 00 FFFFFFFF 00000001"), [[-1, 1]], is_ours=False),
    Golden("vector of uint", bytes.fromhex("0e 03 01 FFFFFFFF"), [[4294967295]], is_ours=False),
    Golden("vector of double", bytes.fromhex("0f 03 00 3FF8000000000000"), [[1.5]], is_ours=False),
    Golden("vector of objects", bytes.fromhex("10 05 00 03 43 01 0a 0b 01 01"), [[None, {}]], is_ours=False),
    Golden("vector by reference", bytes.fromhex("09 05 01 0d 03 00 00000007 0d 02"), [[[7], [7]]], is_ours=False),
    Golden("dictionary", bytes.fromhex("11 05 00 06 03 61 04 01 04 02 03"), [[["a", 1], [2, True]]], is_ours=False),
]
