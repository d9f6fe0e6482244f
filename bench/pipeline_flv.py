"""How fast the `flv` source reads: `python -m bench.pipeline_flv [MEGABYTES]`.

Makes two recordings in a temporary folder: one of 6 Mbit/s with an index as the recorder writes it, and one of small
audio tags. Reads the headers of both, in this process, which shows what one core does, and through Spark, where a count
of tags by kind is asked for. Prints tags and megabytes of recording per second; the files have just been written, so
they are in the page cache.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from penstock.media.flv import AUDIO_TAG, VIDEO_TAG
from penstock.media.flv_writer import FlvFileWriter
from penstock.pipeline.engine.session import SparkSettings, open_session
from penstock.pipeline.sources import register_sources
from penstock.pipeline.sources.files import find_files
from penstock.pipeline.sources.flv.batches import read_part
from penstock.pipeline.sources.flv.plan import DEFAULT_SPLIT_BYTES, named_files, plan

CORES = 2
VIDEO_BITS_PER_S = 5_872_000
FRAMES_PER_S = 30
GOP_FRAMES = 60
AUDIO_BYTES = 340  # 128 kbit/s of AAC: with video, 6 Mbit/s
AUDIO_TAGS_PER_S = 47
KEYFRAME_SHARE = 6  # a key frame is so many times as large as the frames after it

_KEY = b"\x17\x01\x00\x00\x00"
_INTER = b"\x27\x01\x00\x00\x28"
_SOUND = b"\xaf\x01"


@dataclass(frozen=True, slots=True)
class Speed:
    """What one reading of a recording took."""

    what: str
    tags: int
    file_bytes: int
    seconds: float

    @property
    def tags_per_s(self) -> float:
        return self.tags / self.seconds

    @property
    def megabytes_per_s(self) -> float:
        return self.file_bytes / self.seconds / 1e6

    def __str__(self) -> str:
        return f"{self.what:28} {self.tags_per_s:12,.0f} tags/s {self.megabytes_per_s:8,.0f} MB/s"


def write_video(path: Path, file_bytes: int) -> None:
    """A recording of 6 Mbit/s: a key frame every two seconds, and audio between the frames."""
    inter_bytes = VIDEO_BITS_PER_S // 8 // FRAMES_PER_S * GOP_FRAMES // (GOP_FRAMES - 1 + KEYFRAME_SHARE)
    key, inter = _KEY.ljust(KEYFRAME_SHARE * inter_bytes, b"\x5a"), _INTER.ljust(inter_bytes, b"\xa5")
    _write(path, file_bytes, _frames(key, inter))


def write_audio(path: Path, file_bytes: int) -> None:
    """A recording without video, in which there is little between two headers."""
    _write(path, file_bytes, ((AUDIO_TAG, number * 21, _SOUND.ljust(100, b"\x33")) for number in range(2**62)))


def _frames(key: bytes, inter: bytes) -> Iterator[tuple[int, int, bytes]]:
    audio_tags = 0
    for frame in range(2**62):
        time_ms = frame * 1000 // FRAMES_PER_S
        yield VIDEO_TAG, time_ms, inter if frame % GOP_FRAMES else key
        while audio_tags * 1000 // AUDIO_TAGS_PER_S <= time_ms:
            yield AUDIO_TAG, time_ms, _SOUND.ljust(AUDIO_BYTES, b"\x33")
            audio_tags += 1


def _write(path: Path, file_bytes: int, frames: Iterator[tuple[int, int, bytes]]) -> None:
    writer = FlvFileWriter()
    with path.open("wb") as file:
        file.write(writer.begin())
        while writer.file_bytes < file_bytes:
            kind, time_ms, payload = next(frames)
            head, trail = writer.add_tag(kind, time_ms, payload, is_key=payload.startswith(_KEY))
            file.writelines((head, payload, trail))
        file.seek(0)
        file.write(writer.finish())


def read_in_process(path: Path) -> Speed:
    """All batches of a recording, by the processor time that they take."""
    parts = plan(named_files(find_files([str(path)])), 0)
    batches = (batch for part in parts for batch in read_part(part, has_payload=False, is_numbered=True))
    started_at = time.process_time()
    tags = sum(batch.num_rows for batch in batches)
    return Speed(f"{path.stem}, one core", tags, path.stat().st_size, time.process_time() - started_at)


def read_by_spark(spark: SparkSession, path: Path) -> Speed:
    """A count by kind, warm: workers have been started and code is compiled then. The median of five after two."""
    tags, seconds = 0, []
    for _ in range(2 + 5):
        started_at = time.perf_counter()
        tags = _count_by_kind(spark, path)
        seconds.append(time.perf_counter() - started_at)
    return Speed(f"{path.stem}, Spark on {CORES} cores", tags, path.stat().st_size, median(seconds[2:]))


def _count_by_kind(spark: SparkSession, path: Path) -> int:
    # A new query each time, since Spark keeps what one has shuffled.
    split_bytes = min(DEFAULT_SPLIT_BYTES, path.stat().st_size // CORES)
    rows = spark.read.format("flv").option("splitBytes", split_bytes).load(str(path)).groupBy("kind").count()
    return sum(row["count"] for row in rows.collect())


def measure(spark: SparkSession, folder: Path, file_bytes: int) -> list[Speed]:
    """Every figure, for recordings of this size; the folder is left with them."""
    video, audio = folder / "video.flv", folder / "audio.flv"
    write_video(video, file_bytes)
    write_audio(audio, file_bytes // 4)
    register_sources(spark)
    return [speed for path in (video, audio) for speed in (read_in_process(path), read_by_spark(spark, path))]


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    spark = open_session(SparkSettings(cores=CORES))
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        for speed in measure(spark, Path(folder), megabytes * 1_000_000):
            print(speed)
    spark.stop()


if __name__ == "__main__":
    main()
