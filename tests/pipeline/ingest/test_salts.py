"""Salts are made once, kept to their owner, and forgotten by month."""

import stat
from pathlib import Path

import pytest

from penstock.errors import LakeError
from penstock.pipeline.ingest.salts import forget_salts, read_salts, salts_for
from penstock.pipeline.lake.storage import Storage


def test_a_month_keeps_its_salt_and_a_new_month_gets_another(tmp_path: Path) -> None:
    lake = Storage(tmp_path)
    first = salts_for(lake, ["2026-11"])
    second = salts_for(lake, ["2026-12"])
    both = read_salts(lake)
    assert (list(first), list(second)) == (["2026-11"], ["2026-12"])
    assert both == first | second
    assert len(set(both.values())) == 2


def test_only_the_owner_may_read_salts(tmp_path: Path) -> None:
    salts_for(Storage(tmp_path), ["2026-11"])
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "_private", tmp_path / "_private/salts.json")]
    assert modes == [0o700, 0o600]


def test_salts_of_earlier_months_are_forgotten(tmp_path: Path) -> None:
    lake = Storage(tmp_path)
    salts_for(lake, ["2025-09", "2025-10", "2026-11"])
    assert forget_salts(lake, "2025-10") == ["2025-09"]
    assert read_salts(lake).keys() == {"2025-10", "2026-11"}


@pytest.mark.parametrize("damage", [b"", b"[1]", b'{"2026-11": "a'])
def test_damaged_salts_are_not_made_anew_in_silence(tmp_path: Path, damage: bytes) -> None:
    lake = Storage(tmp_path)
    lake.put("_private/salts.json", damage)
    with pytest.raises(LakeError, match=r"salts\.json is damaged"):
        salts_for(lake, ["2026-11"])
