"""Our recordings under FFmpeg's eyes: no complaint, the same packets, a true duration, and seeking by our index."""

import json
from pathlib import Path

import pytest

from penstock.amf import AmfValue
from penstock.media.flv_index import is_key_video
from penstock.media.flv_metadata import read_flv_metadata
from penstock.media.flv_reader import FlvReader, scan_tags
from penstock.media.flv_repair import RepairState, repair
from penstock.media.flv_writer import FlvFileWriter
from tests.support.golden import GOLDEN_DIR, golden_bytes
from tests.support.processes import find_program, run_to_end

DEADLINE_S = 20.0
H264_PATH = GOLDEN_DIR / "flv" / "h264_aac.flv"
ROUND_MS = 2200  # a little more than the golden file lasts


def re_record(path: Path, *, shift_ms: int = 0, rounds: int = 1, is_finished: bool = True) -> Path:
    """Write FFmpeg's H.264 file again with our writer, as a recorder would: its metadata goes in first."""
    reader = FlvReader()
    reader.receive_data(golden_bytes("flv/h264_aac.flv"))
    script, *tags = iter(reader.next_tag, None)
    _, members = read_flv_metadata(script.payload) or ("", None)
    assert isinstance(members, dict)
    published: dict[str, AmfValue] = members
    writer = FlvFileWriter(published)
    with path.open("wb") as file:
        file.write(writer.begin())
        for start_ms in range(shift_ms, shift_ms + rounds * ROUND_MS, ROUND_MS):
            for tag in tags:
                is_key = tag.kind == 9 and is_key_video(tag.payload)
                head, trail = writer.add_tag(tag.kind, start_ms + tag.timestamp_ms, tag.payload, is_key=is_key)
                file.writelines((head, tag.payload, trail))
        if is_finished:
            file.seek(0)
            file.write(writer.finish())
    return path


def ffprobe(path: Path, log_path: Path, *arguments: str) -> str:
    """What ffprobe prints, its warnings included."""
    return run_to_end([find_program("ffprobe", "ffmpeg"), "-v", "warning", *arguments, str(path)], log_path, DEADLINE_S)


def probed_duration_ms(path: Path, log_path: Path) -> int:
    shown = json.loads(ffprobe(path, log_path, "-of", "json", "-show_format"))
    return round(float(shown["format"]["duration"]) * 1000)


def packet_hashes(path: Path, log_path: Path, *, seek_s: float | None = None) -> list[str]:
    """FFmpeg's list of packets (stream, dts, pts, duration, size, MD5), after its warnings if it has any."""
    seek = [] if seek_s is None else ["-ss", str(seek_s)]
    program = [find_program("ffmpeg", "ffmpeg"), "-nostdin", "-v", "warning", *seek, "-i", str(path)]
    copying = ["-map", "0", "-c", "copy", "-copyts", "-f", "framemd5", "-"]
    printed = run_to_end([*program, *copying], log_path, DEADLINE_S)
    return [line for line in printed.splitlines() if not line.startswith("#")]


def times_ms(hashes: list[str]) -> list[int]:
    return [int(line.split(",")[1]) for line in hashes]


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "program.log"


def test_our_recording_has_the_packets_of_its_source_and_draws_no_warning(tmp_path: Path, log_path: Path) -> None:
    hashes = packet_hashes(re_record(tmp_path / "ours.flv"), log_path)
    assert hashes == packet_hashes(H264_PATH, log_path)
    assert len(hashes) == 20 + 88


def test_ffprobe_reads_our_duration_and_the_publishers_members(tmp_path: Path, log_path: Path) -> None:
    path = re_record(tmp_path / "ours.flv")
    shown = json.loads(ffprobe(path, log_path, "-of", "json", "-show_format", "-show_streams"))
    assert float(shown["format"]["duration"]) == 2.197
    assert [stream["codec_name"] for stream in shown["streams"]] == ["h264", "aac"]
    assert shown["format"]["tags"]["hasKeyframes"] == "true"
    assert "filler" not in shown["format"]["tags"]


def test_ffmpeg_seeks_by_our_index_over_a_stretch_that_it_could_not_have_read(tmp_path: Path, log_path: Path) -> None:
    path = re_record(tmp_path / "ours.flv", rounds=30)
    data = bytearray(path.read_bytes())
    heads = list(scan_tags(bytes(data), 13))
    lost_from, lost_to = (next(head.offset for head in heads if head.timestamp_ms >= ms) for ms in (20_000, 45_000))
    data[lost_from:lost_to] = b"\xff" * (lost_to - lost_from)
    path.write_bytes(data)
    hashes = packet_hashes(path, log_path, seek_s=50.3)
    # FFmpeg before 7 takes the times of any index in whole seconds, so it may begin up to one second late.
    assert min(times_ms(hashes)) in (22 * ROUND_MS + 1500, 23 * ROUND_MS)
    assert max(times_ms(hashes)) == 29 * ROUND_MS + 2197


def test_timestamps_past_24_bits_are_read_as_they_are(tmp_path: Path, log_path: Path) -> None:
    shift_ms = 0xFFFFFF - 1000
    path = re_record(tmp_path / "late.flv", shift_ms=shift_ms)
    rows = ffprobe(
        path, log_path, "-of", "csv=p=0", "-select_streams", "v", "-show_entries", "packet=dts,flags"
    ).split()
    assert rows[0] == f"{shift_ms},K_"
    assert rows[-1] == f"{shift_ms + 1900},__"
    assert len(rows) == 20
    assert probed_duration_ms(path, log_path) == 2197


def test_an_unfinished_recording_plays_without_a_warning(tmp_path: Path, log_path: Path) -> None:
    path = re_record(tmp_path / "unfinished.flv", is_finished=False)
    assert packet_hashes(path, log_path) == packet_hashes(H264_PATH, log_path)


@pytest.mark.parametrize("cut_bytes", [1, 5, 20, 3000])
def test_a_torn_recording_plays_and_seeks_without_a_warning_once_repaired(
    tmp_path: Path, log_path: Path, cut_bytes: int
) -> None:
    path = re_record(tmp_path / "torn.flv", is_finished=False)
    path.write_bytes(path.read_bytes()[:-cut_bytes])
    with path.open("r+b") as file:
        assert repair(file).state is RepairState.REPAIRED
    hashes = packet_hashes(path, log_path)
    assert set(hashes) <= set(packet_hashes(H264_PATH, log_path))
    assert probed_duration_ms(path, log_path) == max(times_ms(hashes))
    assert min(times_ms(packet_hashes(path, log_path, seek_s=0.7))) == 500
