"""The pipeline's figures of itself, kept in a small file: see `penstock.pipeline_figures`.

Owns its upkeep: counts go on from what is there, and the file is replaced in one step. That it cannot be written, on a
full disk for one, is no reason for a run to fail.
"""

import contextlib
from dataclasses import replace

from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.progress import RunFigures
from penstock.pipeline_figures import FILE_NAME, PipelineFigures


class FiguresFile:
    """The file of one data folder. Whoever writes has the lock of the lake, or fails to get it."""

    def __init__(self, data: Storage) -> None:
        self._data = data

    def read(self) -> PipelineFigures:
        """What is there; zeroes if there is nothing, or nothing that can be read."""
        try:
            return PipelineFigures.of_json(self._data.read(FILE_NAME)) or PipelineFigures()
        except OSError:
            return PipelineFigures()

    def succeeded(self, run: RunFigures, ended_at: float) -> None:
        """Count a good run."""
        before = self.read()
        self._write(
            replace(
                before,
                runs=before.runs + 1,
                facts=before.facts + run.facts,
                quarantined=before.quarantined + run.quarantined,
                run_seconds=run.seconds,
                # A server whose clock is ahead has facts of the future.
                lag_seconds=None if run.behind_s is None else max(run.behind_s, 0.0),
                succeeded_at=ended_at,
            )
        )

    def failed(self) -> None:
        """Count a run that ended with an error."""
        before = self.read()
        self._write(replace(before, failures=before.failures + 1))

    def _write(self, figures: PipelineFigures) -> None:
        with contextlib.suppress(OSError):
            self._data.put(FILE_NAME, figures.to_json())
