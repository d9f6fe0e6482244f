"""Live MP4: which frames become fragments, and when one answer cannot hold what follows."""

from penstock.media.frame import Frame, FrameKind, frame_of
from penstock.relay.codec_config import CodecConfig
from penstock.relay.encodings.mp4 import Mp4Encoding

AVC = bytes.fromhex(
    "17 00 000000 01 42c01e ffe1 0019 6742c01ed900a01ff97011000003000100000300320f162e48 01 0004 68cb8cb2"
)
OTHER_AVC = AVC[:-1] + b"\xb3"
AAC = bytes.fromhex("af 00 1210")
VP6 = bytes.fromhex("14 00") + b"picture"


def video(timestamp_ms: int, payload: bytes) -> Frame:
    return frame_of(FrameKind.VIDEO, timestamp_ms, payload)


def audio(timestamp_ms: int, payload: bytes) -> Frame:
    return frame_of(FrameKind.AUDIO, timestamp_ms, payload)


KEY = b"\x17\x01\x00\x00\x05key"
INTER = b"\x27\x01\x00\x00\x00inter"
SOUND = b"\xaf\x01sound"


def begun(*setups: Frame) -> Mp4Encoding:
    encoding = Mp4Encoding()
    config = CodecConfig()
    for frame in setups:
        config = config.with_frame(frame)
    encoding.begin(config, [])
    return encoding


def fragment(encoding: Mp4Encoding, frame: Frame) -> bytes | None:
    return encoding.encoders[frame.kind](frame.timestamp_ms, frame.payload) if encoding.takes(frame) else None


def test_it_begins_at_a_key_frame_with_an_init_segment_of_both_tracks() -> None:
    encoding = begun(video(0, AVC), audio(0, AAC))
    assert fragment(encoding, video(40, INTER)) is None
    assert fragment(encoding, audio(41, SOUND)) is None
    assert not encoding.is_ready
    assert fragment(encoding, video(80, KEY)) is not None
    assert encoding.is_ready
    messages = encoding.joining_messages(CodecConfig(), 80)
    assert messages is not None
    (init,) = messages
    assert init.encoded[4:8] == b"ftyp"
    assert b"avcC" in init.encoded
    assert b"mp4a" in init.encoded


def test_a_fragment_is_one_frame_whose_payload_is_not_touched() -> None:
    encoding = begun(video(0, AVC), audio(0, AAC))
    data = fragment(encoding, video(1000, KEY))
    assert data is not None
    assert data[4:8] == b"moof"
    assert data.endswith(b"\x00\x00\x00\x0bmdatkey")
    assert (1000).to_bytes(8, "big") in data, "when it is decoded"
    assert len(data) - len(b"key") <= 120
    sound = fragment(encoding, audio(1003, SOUND))
    assert sound is not None
    assert sound.endswith(b"mdatsound")


def test_decoding_times_grow_where_timestamps_do_not() -> None:
    encoding = begun(video(0, AVC))
    fragment(encoding, video(1000, KEY))
    late = fragment(encoding, video(990, INTER))
    assert late is not None
    assert (1001).to_bytes(8, "big") in late


def test_another_codec_ends_it_and_the_same_told_anew_does_not() -> None:
    encoding = begun(video(0, AVC), audio(0, AAC))
    fragment(encoding, video(0, KEY))
    assert not encoding.is_over(CodecConfig().with_frame(video(40, AVC)))
    assert encoding.is_over(CodecConfig().with_frame(video(40, OTHER_AVC)))
    assert encoding.is_over(CodecConfig().with_frame(audio(40, b"\xaf\x00\x11\x90")))


def test_a_track_that_comes_later_ends_it() -> None:
    encoding = begun(video(0, AVC))
    fragment(encoding, video(0, KEY))
    assert encoding.is_over(CodecConfig().with_frame(audio(40, AAC)))


def test_sound_alone_begins_at_once() -> None:
    encoding = begun(audio(0, AAC))
    assert fragment(encoding, audio(0, SOUND)) is not None


def test_what_mp4_cannot_carry_is_named_and_alone_it_is_over() -> None:
    encoding = begun()
    assert fragment(encoding, video(0, VP6)) is None
    assert [each.what for each in encoding.left_out] == ["VP6 video"]
    assert encoding.is_over(CodecConfig())
