"""MP4 and HLS of recordings, judged by Debian's ffprobe and ffmpeg."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from penstock.errors import MalformedMedia
from penstock.pipeline.jobs.remux import Remuxed, write_hls, write_mp4
from penstock.pipeline.jobs.verify import verify
from penstock.tools.pattern import kept_scheduling
from tests.pipeline.jobs.recorded import (
    codecs,
    decoding_errors,
    flv_bytes,
    make_recording,
    opened,
    packets,
    probed,
    retimed,
    top_boxes,
)
from tests.support.samples import VIDEO, Sample, flv_samples

FRAME_S = 0.1
SOUND_S = 1024 / 22050


def remuxed(data: bytes, folder: Path) -> Remuxed:
    """Both forms of a recording, in `folder`."""
    with opened(data) as source:
        result = write_mp4(source, verify(source), folder / "r.mp4")
    write_hls(folder / "r.mp4", folder / "hls", 6)
    return result


def test_an_mp4_holds_every_packet_and_begins_with_its_index(recording: Path, tmp_path: Path) -> None:
    assert remuxed(recording.read_bytes(), tmp_path) == Remuxed(has_video=True, left_out=())
    mp4 = tmp_path / "r.mp4"
    assert top_boxes(mp4).index("moov") < top_boxes(mp4).index("mdat")
    for kind in "va":
        assert packets(mp4, kind) == pytest.approx(packets(recording, kind), abs=0.03)
    assert decoding_errors(mp4) == ""
    assert float(probed(mp4, "-show_entries", "format=duration")["format"]["duration"]) == pytest.approx(14, abs=0.1)


def test_hls_is_cut_at_key_frames_and_played_to_its_end(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "100%d done"
    folder.mkdir()
    remuxed(recording.read_bytes(), folder)
    playlist = folder / "hls" / "index.m3u8"
    lines = playlist.read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["00000.m4s", "00001.m4s", "00002.m4s"]
    assert {"#EXT-X-PLAYLIST-TYPE:VOD", "#EXT-X-INDEPENDENT-SEGMENTS", "#EXT-X-ENDLIST"} <= set(lines)
    assert '#EXT-X-MAP:URI="init.mp4"' in lines
    lengths_s = [float(line[8:].rstrip(",")) for line in lines if line.startswith("#EXTINF:")]
    assert lengths_s == pytest.approx([6, 6, 2], abs=0.11)
    for kind, step_s in (("v", FRAME_S), ("a", SOUND_S)):
        assert len(packets(playlist, kind)) == len(packets(recording, kind))
        assert np.diff(packets(playlist, kind)) == pytest.approx(step_s, abs=0.002)
    assert decoding_errors(playlist) == ""


def test_jumps_of_the_publisher_are_gone_and_sound_stays_with_its_picture(recording: Path, tmp_path: Path) -> None:
    def clock(at_ms: int) -> int:
        return at_ms + 10_000 if at_ms < 5000 else at_ms + 3_600_000 if at_ms < 9000 else at_ms - 8000

    samples = flv_samples(recording)
    path = tmp_path / "jumps.flv"
    path.write_bytes(flv_bytes(retimed(samples, clock)))
    assert max(packets(path, "v")) > 3600
    remuxed(path.read_bytes(), tmp_path)
    for kind in "va":
        assert packets(tmp_path / "r.mp4", kind) == pytest.approx(packets(recording, kind), abs=0.06)
    assert decoding_errors(tmp_path / "r.mp4") == ""


def test_a_recording_of_sound_alone_is_sound_alone(tmp_path: Path) -> None:
    source = make_recording(tmp_path / "sound.flv", 8, has_video=False)
    assert remuxed(source.read_bytes(), tmp_path) == Remuxed(has_video=False, left_out=())
    assert codecs(tmp_path / "r.mp4") == ["aac"]
    assert len(packets(tmp_path / "hls" / "index.m3u8", "a")) == len(packets(source, "a"))


def test_messages_that_no_decoder_could_use_are_left_out(recording: Path, tmp_path: Path) -> None:
    samples = flv_samples(recording)
    payloads = (b"\x1f\x01nope", b"\x17\x05\x00\x00\x00nope", b"", b"\xf9nope")
    garbage = [Sample(VIDEO, 3000, payload) for payload in payloads]
    remuxed(flv_bytes([*samples[:100], *garbage, *samples[100:]]), tmp_path)
    assert len(packets(tmp_path / "r.mp4", "v")) == len(packets(recording, "v"))
    assert decoding_errors(tmp_path / "r.mp4") == ""


def test_a_picture_to_be_shown_before_it_is_decoded_is_shown_then(recording: Path, tmp_path: Path) -> None:
    samples = flv_samples(recording)
    early = next(number for number in range(50, len(samples)) if samples[number].payload[0] == 0x27)
    payload = samples[early].payload
    samples[early] = samples[early]._replace(payload=payload[:2] + (-500).to_bytes(3, signed=True) + payload[5:])
    remuxed(flv_bytes(samples), tmp_path)
    assert len(packets(tmp_path / "r.mp4", "v")) == len(packets(recording, "v"))


def test_pictures_behind_damage_wait_for_the_next_key_frame(recording: Path, tmp_path: Path) -> None:
    samples = flv_samples(recording)
    damaged = next(number for number in range(100, len(samples)) if samples[number].payload[0] == 0x27)
    recovered = next(number for number in range(damaged, len(samples)) if samples[number].payload[0] == 0x17)
    data = bytearray(flv_bytes(samples))
    # The size of this tag becomes one that leads nowhere.
    data[len(flv_bytes(samples[:damaged])) + 1] ^= 0xFF
    remuxed(bytes(data), tmp_path)
    kept = [
        sample.timestamp_ms / 1000
        for number, sample in enumerate(samples)
        if sample.payload[:2] in (b"\x17\x01", b"\x27\x01") and not damaged <= number < recovered
    ]
    assert recovered - damaged > 3
    assert packets(tmp_path / "r.mp4", "v") == pytest.approx(kept, abs=0.001)
    assert decoding_errors(tmp_path / "r.mp4") == ""


def test_a_codec_without_a_place_in_mp4_is_left_out_and_named(recording: Path, tmp_path: Path) -> None:
    speex = [Sample(8, at_ms, b"\xb2" + bytes(40)) for at_ms in range(0, 14_000, 20)]
    pictures = [sample for sample in flv_samples(recording) if sample.type_id == VIDEO]
    mixed = sorted([*pictures, *speex], key=lambda sample: sample.timestamp_ms)
    assert remuxed(flv_bytes(mixed), tmp_path) == Remuxed(has_video=True, left_out=("MP4 cannot hold speex",))
    assert codecs(tmp_path / "r.mp4") == ["h264"]
    with pytest.raises(MalformedMedia, match="MP4 cannot hold speex"):
        remuxed(flv_bytes(speex), tmp_path)


@pytest.mark.parametrize(
    ("video", "audio", "names", "tag"),
    [
        ("libx265", "libopus", ["hevc", "opus"], "hvc1"),
        ("libsvtav1", "flac", ["av1", "flac"], "av01"),
        ("libvpx-vp9", "aac", ["vp9", "aac"], "vp09"),
    ],
)
def test_enhanced_codecs_go_into_mp4_and_hls(
    tmp_path: Path, video: str, audio: str, names: list[str], tag: str
) -> None:
    source = make_enhanced_recording(tmp_path / "enhanced.flv", video, audio)
    remuxed(source.read_bytes(), tmp_path)
    for path in (tmp_path / "r.mp4", tmp_path / "hls" / "index.m3u8"):
        assert codecs(path) == names
        assert len(packets(path, "v")) == 20
        assert decoding_errors(path) == ""
        found = probed(path, "-select_streams", "v", "-show_entries", "stream=codec_tag_string")
        assert found["streams"][0]["codec_tag_string"] == tag


def make_enhanced_recording(path: Path, video: str, audio: str) -> Path:
    """Two seconds by PyAV, whose FLV writer knows Enhanced RTMP as Debian's does not."""
    sample_format = "s16" if audio == "flac" else "fltp"
    shape = (1, 2 * 4800) if sample_format == "s16" else (2, 4800)
    kind = np.int16 if sample_format == "s16" else np.float32
    quiet = {"x265-params": "log-level=none"} if video == "libx265" else {}
    with av.open(str(path), "w", format="flv") as container:
        pictures: Any = container.add_stream(video, rate=10, options=quiet)
        pictures.width, pictures.height, pictures.pix_fmt, pictures.gop_size = 128, 72, "yuv420p", 10
        with kept_scheduling():
            pictures.codec_context.open()
        sounds: Any = container.add_stream(audio, rate=48_000)
        sounds.layout = "stereo"
        for number in range(20):
            grey = np.full((72, 128, 3), number * 8, np.uint8)
            picture = av.VideoFrame.from_ndarray(grey, format="rgb24").reformat(format="yuv420p")
            picture.pts, picture.time_base = number, Fraction(1, 10)
            container.mux(pictures.encode(picture))
            sound = av.AudioFrame.from_ndarray(np.zeros(shape, kind), format=sample_format, layout="stereo")
            sound.sample_rate, sound.pts, sound.time_base = 48_000, number * 4800, Fraction(1, 48_000)
            container.mux(sounds.encode(sound))
        container.mux(pictures.encode(None))
        container.mux(sounds.encode(None))
    return path
