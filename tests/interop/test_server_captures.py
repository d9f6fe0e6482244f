"""The real server fed with recorded and hand-made bytes, and read back by a recorded viewer.

What no program at hand can produce is made by hand after Enhanced RTMP v2: messages of many tracks, ModEx, colour
information as OBS writes it, and data in the AMF3 form. Nothing of the product is on the clients' side.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.golden import GOLDEN_DIR
from tests.support.independent_rtmp import read_amf0_values
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.raw_sessions import RawPublisher, RawViewer, replay_publisher, samples_in
from tests.support.samples import AUDIO, DATA, VIDEO, Sample, fingerprints, golden_samples, media_of

AMF3_DATA = 15
PUBLISHERS = sorted(
    path.name.removesuffix(".client.bin")
    for pattern in ("*_publish*.client.bin", "nginx_push.client.bin")
    for path in (GOLDEN_DIR / "sessions").glob(pattern)
)

AVC_RECORD = bytes.fromhex("01 42 C0 0A FF E1 00 04 67 42 C0 0A 01 00 02 68 CE")
HEVC_RECORD = bytes.fromhex("01 01 60 00 00 00 90 00 00 00 00 00 1E F0 00 FC FD F8 F8 00 00 0F 00")
AUDIO_CONFIG = bytes.fromhex("12 10")
OPUS_HEAD = b"OpusHead" + bytes.fromhex("01 01 38 01 80 BB 00 00 00 00 00")
PICTURE = bytes.fromhex("00 00 00 05 65 88 84 00 10")
HEVC_PICTURE = bytes.fromhex("00 00 00 05 26 01 AF 08 40")
LATER_PICTURE = bytes.fromhex("00 00 00 03 41 9A 02")
SOUND = bytes.fromhex("21 10 04 60")
# A string and an object with one number: colorInfo, {colorConfig: {bitDepth: 10}}.
COLOR_INFO = (
    b"\x02\x00\x09colorInfo\x03\x00\x0bcolorConfig\x03\x00\x08bitDepth\x00\x40\x24\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x09\x00\x00\x09"
)
TEXT = b"\x02\x00\x0aonTextData\x03\x00\x04text\x02\x00\x02hi\x00\x00\x09"
# The same text as an AMF3 value behind the marker that switches to AMF3: a dynamic object without a class.
TEXT_IN_AMF3 = b"\x02\x00\x0aonTextData\x11\x0a\x0b\x01\x09text\x06\x05hi\x01"


def sized(body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + body


# Each: set-up, then a key frame at 40 ms with what comes after it.
BY_HAND: dict[str, tuple[list[Sample], list[Sample]]] = {
    "many tracks of one codec": (
        [Sample(VIDEO, 0, b"\x96\x10avc1\x00" + sized(AVC_RECORD) + b"\x01" + sized(AVC_RECORD))],
        [
            Sample(VIDEO, 40, b"\x96\x13avc1\x00" + sized(PICTURE) + b"\x01" + sized(PICTURE)),
            Sample(VIDEO, 80, b"\xa6\x13avc1\x00" + sized(LATER_PICTURE) + b"\x01" + sized(LATER_PICTURE)),
        ],
    ),
    "many tracks of many codecs": (
        [
            Sample(VIDEO, 0, b"\x96\x20avc1\x00" + sized(AVC_RECORD) + b"hvc1\x01" + sized(HEVC_RECORD)),
            Sample(AUDIO, 0, b"\x95\x20mp4a\x00" + sized(AUDIO_CONFIG) + b"Opus\x01" + sized(OPUS_HEAD)),
        ],
        [
            Sample(VIDEO, 40, b"\x96\x23avc1\x00" + sized(PICTURE) + b"hvc1\x01" + sized(HEVC_PICTURE)),
            Sample(AUDIO, 45, b"\x95\x21mp4a\x00" + sized(SOUND) + b"Opus\x01" + sized(SOUND)),
        ],
    ),
    "a nanosecond offset by ModEx": (
        [Sample(VIDEO, 0, b"\x90hvc1" + HEVC_RECORD)],
        [
            Sample(VIDEO, 40, b"\x97\x02\x07\xa1\x20\x01hvc1\x00\x00\x00" + HEVC_PICTURE),
            Sample(VIDEO, 80, b"\xa7\x02\x07\xa1\x20\x03hvc1" + LATER_PICTURE),
        ],
    ),
    "ModEx before many tracks": (
        [Sample(VIDEO, 0, b"\x96\x10avc1\x00" + sized(AVC_RECORD) + b"\x01" + sized(AVC_RECORD))],
        [Sample(VIDEO, 40, b"\x97\x02\x00\x00\x01\x06\x13avc1\x00" + sized(PICTURE) + b"\x01" + sized(PICTURE))],
    ),
    "colour information as OBS writes it": (
        [Sample(VIDEO, 0, b"\x90hvc1" + HEVC_RECORD), Sample(VIDEO, 0, b"\x84hvc1" + COLOR_INFO)],
        [Sample(VIDEO, 40, b"\x93hvc1" + HEVC_PICTURE)],
    ),
    "text as data": (
        [Sample(VIDEO, 0, b"\x17\x00\x00\x00\x00" + AVC_RECORD)],
        [Sample(VIDEO, 40, b"\x17\x01\x00\x00\x00" + PICTURE), Sample(DATA, 60, TEXT)],
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PenstockServer]:
    # Every capture has the same name, and some end by hanging up: nobody is to be waited for.
    with penstock_server(tmp_path_factory.mktemp("penstock"), config="[defaults]\ngrace_s = 0\n") as running_server:
        yield running_server


def assert_same(received: list[Sample], expected: list[Sample]) -> None:
    for type_id in (AUDIO, VIDEO, DATA):
        assert fingerprints(received, type_id) == fingerprints(expected, type_id)


def split_metadata(samples: list[Sample]) -> tuple[dict[str, object], list[Sample]]:
    """What the server itself told the viewer, and the rest."""
    assert samples[0].payload.startswith(b"\x02\x00\x11|RtmpSampleAccess")
    name, properties = read_amf0_values(samples[1].payload)
    assert (name, samples[1].type_id, samples[1].timestamp_ms) == ("onMetaData", DATA, 0)
    assert isinstance(properties, dict)
    return properties, samples[2:]


@pytest.mark.parametrize("capture", PUBLISHERS)
def test_every_recorded_publisher_reaches_the_viewer(server: PenstockServer, capture: str) -> None:
    with closing(RawViewer(server.port)) as viewer:
        replay_publisher(server.port, capture)
        received = viewer.read_to_end()
    assert_same(media_of(received), media_of(golden_samples(capture)))


@pytest.mark.parametrize("case", BY_HAND)
def test_what_was_made_by_hand_arrives_as_it_is(server: PenstockServer, case: str) -> None:
    set_up, frames = BY_HAND[case]
    with closing(RawViewer(server.port)) as viewer:
        with closing(RawPublisher(server.port)) as publisher:
            publisher.send([*set_up, *frames])
        _, received = split_metadata(viewer.read_to_end())
    assert received == [*set_up, *frames]


@pytest.mark.parametrize("case", BY_HAND)
def test_one_who_joins_late_gets_the_set_up_that_was_made_by_hand(server: PenstockServer, case: str) -> None:
    set_up, frames = BY_HAND[case]
    with closing(RawViewer(server.port)) as witness, closing(RawPublisher(server.port)) as publisher:
        publisher.send([*set_up, *frames])
        witness.read_until(lambda messages: frames[-1] in samples_in(messages))
        with closing(RawViewer(server.port)) as late:
            messages = late.read_until(lambda messages: frames[-1] in samples_in(messages))
    _, received = split_metadata(samples_in(messages))
    assert received == [*(sample._replace(timestamp_ms=40) for sample in set_up), *frames]


@pytest.mark.parametrize("payload", [TEXT, TEXT_IN_AMF3], ids=["values in AMF0", "a value in AMF3"])
def test_data_in_the_amf3_form_arrives_in_the_amf0_form(server: PenstockServer, payload: bytes) -> None:
    """The form is a byte before values that are AMF0 anyway, each of which may say that it is AMF3."""
    key_frame = Sample(VIDEO, 40, b"\x17\x01\x00\x00\x00" + PICTURE)
    with closing(RawViewer(server.port)) as viewer:
        with closing(RawPublisher(server.port)) as publisher:
            publisher.send([key_frame, Sample(AMF3_DATA, 60, b"\x00" + payload)])
        _, received = split_metadata(viewer.read_to_end())
    assert received == [key_frame, Sample(DATA, 60, payload)]


def test_all_of_a_burst_reaches_one_who_waited(server: PenstockServer) -> None:
    """Several key frames in one read: the first of them is where a viewer begins that was there before."""
    frames = [Sample(VIDEO, 40 * number, b"\x17\x01\x00\x00\x00" + PICTURE) for number in range(50)]
    with closing(RawViewer(server.port)) as viewer:
        with closing(RawPublisher(server.port)) as publisher:
            publisher.send(frames)
        _, received = split_metadata(viewer.read_to_end())
    assert received == frames
