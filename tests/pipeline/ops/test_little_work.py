"""What is worth a cycle when nobody asks."""

import io
import os
from pathlib import Path

from penstock.pipeline.ops.cycle import LITTLE_BYTES, Cycles
from penstock.pipeline.progress import LineProgress
from penstock.pipeline.settings import PipelineSettings
from tests.pipeline.landing_place import NOON_US, SECOND_US

PATIENCE_S = 3000


def has_work(tmp_path: Path, *, landed_s_ago: float, size: int) -> bool:
    home, lake, landing, recordings = (str(tmp_path / name) for name in ("data", "lake", "facts", "recordings"))
    path = tmp_path / "facts" / "date=2026-11-15" / "hour=12" / "edge-1-b1-1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(size))
    os.utime(path, (NOON_US / SECOND_US - landed_s_ago,) * 2)
    progress = LineProgress(io.StringIO(), is_json=False)
    return Cycles(PipelineSettings(home, lake, landing, recordings), progress, now_us=lambda: NOON_US).has_work(
        PATIENCE_S
    )


def test_little_that_landed_a_while_ago_waits(tmp_path: Path) -> None:
    assert not has_work(tmp_path, landed_s_ago=PATIENCE_S - 1, size=LITTLE_BYTES - 1)


def test_little_that_has_waited_long_enough_is_work(tmp_path: Path) -> None:
    assert has_work(tmp_path, landed_s_ago=PATIENCE_S, size=1)


def test_much_is_work_at_once(tmp_path: Path) -> None:
    assert has_work(tmp_path, landed_s_ago=0, size=LITTLE_BYTES)
