"""GOPs of recorded files, against what is in the files."""

from pathlib import Path

from pyspark.sql import SparkSession

from penstock.pipeline.lake.schemas import table_schema
from penstock.pipeline.lake.tables import TABLES
from penstock.pipeline.transforms.silver.gops import GopRow, gops, gops_of_file
from tests.pipeline.jobs.recorded import flv_bytes, make_recording, opened, segment_of
from tests.support.samples import Sample, flv_samples

SETUP = [Sample(9, 0, b"\x17\x00\x00\x00\x00avcC"), Sample(8, 0, b"\xaf\x00\x12\x10")]
KEY = b"\x17\x01\x00\x00\x00key picture"
INTER = b"\x27\x01\x00\x00\x00picture"
SOUND = b"\xaf\x01sound"
TAG_BYTES = {payload: 11 + len(payload) for payload in (KEY, INTER, SOUND)}
SEGMENT = segment_of(Path("show.flv"))


def gops_of(data: bytes) -> list[GopRow]:
    with opened(data) as file:
        return list(gops_of_file(file, SEGMENT))


def test_a_gop_goes_from_its_key_frame_to_the_next() -> None:
    start = len(flv_bytes(SETUP))
    samples = [
        Sample(8, 0, SOUND),
        Sample(9, 10, KEY),
        Sample(9, 50, INTER),
        Sample(8, 55, SOUND),
        *SETUP,
        Sample(9, 90, KEY),
        Sample(8, 110, SOUND),
    ]
    first = start + TAG_BYTES[SOUND] + 4
    setup_bytes = sum(11 + len(sample.payload) for sample in SETUP)
    whole = TAG_BYTES[KEY] + TAG_BYTES[INTER] + TAG_BYTES[SOUND] + setup_bytes
    second = first + whole + 5 * 4
    assert gops_of(flv_bytes([*SETUP, *samples])) == [
        GopRow("show.flv", "live", "show", 0, 10, 80, first, whole, 2, 1, TAG_BYTES[KEY]),
        GopRow("show.flv", "live", "show", 1, 90, 20, second, TAG_BYTES[KEY] + TAG_BYTES[SOUND], 1, 1, TAG_BYTES[KEY]),
    ]


def test_a_jump_of_the_publisher_is_no_duration() -> None:
    rows = gops_of(flv_bytes([*SETUP, *(Sample(9, at, KEY) for at in (0, 40, 80, 3_600_000, 3_600_040))]))
    assert [(row.first_dts_ms, row.duration_ms) for row in rows] == [
        (0, 40),
        (40, 40),
        (80, 40),
        (3_600_000, 40),
        (3_600_040, 0),
    ]


def test_damage_belongs_to_no_gop() -> None:
    pictures = [Sample(9, at, KEY) for at in (0, 40, 80)]
    whole = flv_bytes([*SETUP, *pictures])
    start = len(flv_bytes(SETUP))
    assert [row.bytes for row in gops_of(whole)] == [TAG_BYTES[KEY]] * 3
    assert [row.bytes for row in gops_of(whole[:-10])] == [TAG_BYTES[KEY]] * 2
    assert [row.bytes for row in gops_of(whole[:start] + b"\xee" * 100 + whole[start:])] == [TAG_BYTES[KEY]] * 3
    assert gops_of(b"noise") == []
    assert gops_of(flv_bytes([*SETUP, Sample(8, 0, SOUND)])) == []


def test_tags_larger_than_what_is_read_ahead_are_found() -> None:
    large = KEY + bytes(9_000_000)
    rows = gops_of(
        flv_bytes([*SETUP, Sample(9, 0, large), Sample(9, 40, KEY), Sample(9, 80, large), Sample(9, 120, KEY)])
    )
    assert [row.keyframe_bytes for row in rows] == [11 + len(large), TAG_BYTES[KEY], 11 + len(large), TAG_BYTES[KEY]]


def test_executors_read_every_file_that_is_there(spark: SparkSession, tmp_path: Path) -> None:
    path = make_recording(tmp_path / "a.flv", 2)
    (tmp_path / "noise.flv").write_bytes(b"noise" * 100)
    segments = [segment_of(tmp_path / name) for name in ("a.flv", "noise.flv", "gone.flv")]
    found = gops(spark, str(tmp_path), segments)
    assert found.schema == table_schema(TABLES["silver.gops"])
    rows = sorted(found.collect(), key=lambda row: row.gop)
    assert [(row.path, row.gop, row.video_frames) for row in rows] == [("a.flv", number, 5) for number in range(4)]
    assert sum(row.bytes for row in rows) < path.stat().st_size
    keys = {row.offset: row.first_dts_ms for row in rows}
    assert list(keys.values()) == [
        sample.timestamp_ms for sample in flv_samples(path) if sample.payload[:2] == b"\x17\x01"
    ]
