"""The file between pipeline and server: what is written is read, and what is broken counts as none."""

import json

import pytest

from penstock.pipeline_figures import MAX_BYTES, PipelineFigures

FIGURES = PipelineFigures(7, 1, 609_448, 3, 4.5, 12.25, 1_794_000_000.5)


@pytest.mark.parametrize("figures", [FIGURES, PipelineFigures()], ids=["all", "none yet"])
def test_what_is_written_is_read(figures: PipelineFigures) -> None:
    data = figures.to_json()
    assert PipelineFigures.of_json(data) == figures
    assert len(data) < MAX_BYTES


def test_a_file_of_another_version_is_read_as_far_as_it_is_known() -> None:
    assert PipelineFigures.of_json(b'{"runs": 2, "mood": "good"}') == PipelineFigures(runs=2)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[1]",
        b"[" * 100_000,
        b'{"runs": null}',
        b'{"runs": true}',
        b'{"runs": "7"}',
        b'{"runs": -1}',
        b'{"lag_seconds": NaN}',
        b'{"lag_seconds": 1e999}',
        json.dumps({"facts": [1]}).encode(),
    ],
)
def test_what_is_no_such_file_counts_as_none(data: bytes) -> None:
    assert PipelineFigures.of_json(data) is None
