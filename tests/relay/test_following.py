"""Messages of following: what is encoded is read again, and what makes no sense is refused."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import MalformedInput
from penstock.media.frame import FrameKind
from penstock.relay.codec_config import CodecConfig
from penstock.relay.following import (
    Config,
    Follow,
    Hello,
    News,
    NotHere,
    Opened,
    Point,
    Points,
    Released,
    Round,
    Run,
    ToFollower,
    ToWriter,
    Unfollow,
    check_version,
    config_of,
    config_to_send,
    decode_for_follower,
    decode_for_writer,
    encode,
    pack_entries,
    unpack_entries,
)
from penstock.relay.packaging.boundaries import Boundary, Numbering
from penstock.relay.segment import Entry
from tests.relay.support import audio, key, metadata, video_setup

NEWS = News(
    stream=3,
    position=1000,
    start=200,
    runs=[Run(5, None, b"old"), Run(6, 1100, b"new"), Run(7, 1200, b"copied", b"bytes")],
    last_timestamp_ms=2**40,
    video_interval_s=0.04,
    has_video=True,
    publication_start=100,
    publication=2,
    is_live=True,
    is_over=False,
    config=9,
    configs=[Config(9, [(18, 0, b"\x02"), (9, -5, b"\x17\x00")], None, 7.0)],
    points=Points([Point(1000, 40, 9, 12.5)], []),
    numbering=Numbering(1795015685, 1795015690, 35900313710, 1795015685, None, 2000),
    boundaries=[(Boundary(1000, 40, 1795015685040, 1795015690, 35900313710, 0, 1795015685, True, True, 223, 2000), 9)],
)


@pytest.mark.parametrize("message", [Hello(2), Follow(b"live/\xff\x00", 2**40), Unfollow(3), Released([1, 2**33])])
def test_what_a_follower_says_is_read_by_the_writer(message: ToWriter) -> None:
    assert decode_for_writer(encode(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        Hello(2),
        Opened(b"live/test", 7, 3, 2**50),
        NotHere(b"live/test", 7),
        Round([NEWS, msgspec.structs.replace(NEWS, points=None, runs=[], is_over=True)]),
    ],
)
def test_what_the_writer_says_is_read_by_a_follower(message: ToFollower) -> None:
    assert decode_for_follower(encode(message)) == message


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "0 bytes"),
        (encode(Opened(b"a", 1, 2, 3)), "Opened"),
        (encode(Follow(b"a", 1))[:-1], "truncated"),
        (msgspec.msgpack.encode(["Follow", "text", 1]), "bytes"),
    ],
    ids=["nothing", "the other direction", "cut off", "another type"],
)
def test_the_writer_refuses_what_is_no_message_of_a_follower(data: bytes, fault: str) -> None:
    with pytest.raises(MalformedInput, match=fault):
        decode_for_writer(data)


def test_a_follower_refuses_what_is_no_message_of_the_writer() -> None:
    with pytest.raises(MalformedInput, match="12 bytes from the writer: Invalid value 'Follow'"):
        decode_for_follower(encode(Follow(b"a", 1)))


def test_another_version_is_refused_by_name() -> None:
    check_version(Hello(2))
    with pytest.raises(MalformedInput, match="the other process speaks version 3, this one 2"):
        check_version(Hello(3))


def test_hello_is_the_same_bytes_in_every_version() -> None:
    assert encode(Hello(2)) == b"\x92\xa5Hello\x02"


@given(
    st.lists(
        st.tuples(
            st.integers(1, 2**32 - 1),
            st.sampled_from(FrameKind),
            st.integers(-(2**63), 2**63 - 1),
            st.integers(0, 2**32 - 1),
            st.booleans(),
            st.booleans(),
        )
    ),
    st.integers(0, 2**60),
)
def test_records_of_messages_are_packed_and_unpacked(
    rows: list[tuple[int, FrameKind, int, int, bool, bool]], start: int
) -> None:
    entries: list[Entry] = []
    position = start
    for encoded_bytes, *others in rows:
        entries.append(Entry(position, encoded_bytes, *others))  # type: ignore[arg-type]
        position += encoded_bytes
    assert unpack_entries(pack_entries(entries), start) == entries
    assert all(isinstance(entry.kind, FrameKind) for entry in unpack_entries(pack_entries(entries), start))


def test_a_record_takes_seventeen_bytes() -> None:
    assert len(pack_entries([Entry(10, 33, FrameKind.VIDEO, 40, 20, True, False)])) == 17


@pytest.mark.parametrize("packed", [b"\x00" * 16, b"\x00" * 17], ids=["cut off", "of no kind"])
def test_records_that_make_no_sense_are_refused(packed: bytes) -> None:
    with pytest.raises(MalformedInput, match=f"{len(packed)} bytes of entries"):
        unpack_entries(packed, 0)


def test_a_codec_configuration_arrives_as_it_was() -> None:
    config = CodecConfig().with_frame(metadata(3)).with_frame(video_setup(5)).with_media(key(40)).with_media(audio(40))
    assert config_of(config_to_send(4, config)) == config


def test_a_codec_configuration_of_no_kind_is_refused() -> None:
    with pytest.raises(MalformedInput, match="codec configuration 4: 7 is not"):
        config_of(Config(4, [(7, 0, b"")], None, None))
