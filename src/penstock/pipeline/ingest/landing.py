"""From landing to bronze: every new file once, in batches, and every batch in pieces that fit into memory.

Owns which files are there and not yet taken: the state of the lake names the landing files that bronze has, so nothing
else has to be remembered. What lines are worth is judged by `fact_lines`; what is done with them is `bronze`'s.

This process does it by itself, without Spark: it takes in more facts in a second than Spark's reader does with as much
CPU, and needs the memory of a few pieces however large a file or a line is. A line is cut where it is too long to be a
fact; a file that is larger than a batch is one by itself.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from penstock.pipeline.ingest.bronze import IngestResult, Piece, ingest_batch
from penstock.pipeline.ingest.fact_lines import MAX_LINE_BYTES
from penstock.pipeline.ingest.quarantine import quarantined_lines, take_up_again
from penstock.pipeline.lake.dimensions import NO_DIMENSIONS, Dimensions
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.state import State
from penstock.pipeline.lake.storage import Storage, StoredFile

MAX_BATCH_BYTES: Final = 512 * 1024 * 1024
"""About a million facts."""
PIECE_BYTES: Final = 32 * 1024 * 1024
_BLOCK_BYTES: Final = 4 * 1024 * 1024


def waiting_files(landing: Storage, state: State) -> list[StoredFile]:
    """Those that servers have closed and no commit has taken, in the order in which they landed."""
    waiting = [file for file in landing.find("") if _is_landed(file.path) and file.path not in state.landed_at_us]
    return sorted(waiting, key=lambda file: (file.modified_at_us, file.path))


def ingest_landed(
    lake: Lake,
    landing: Storage,
    now_us: int,
    *,
    on_batch: Callable[[IngestResult], None] | None = None,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    dimensions: Dimensions = NO_DIMENSIONS,
) -> IngestResult:
    """Bring every landing file that is there and new into bronze, a batch at a time, each by one commit."""
    total = IngestResult()
    for files in _batches(waiting_files(landing, lake.read_state()), max_batch_bytes):
        names = [file.path for file in files]
        total = total.plus(ingest_batch(lake, _pieces(landing, files), names, now_us, dimensions))
        if on_batch is not None:
            on_batch(total)
    return total


def replay_quarantined(lake: Lake, now_us: int, dimensions: Dimensions = NO_DIMENSIONS) -> IngestResult:
    """Try again what software with another contract did not understand. Nothing to do, as a rule, and then cheap."""
    again = take_up_again(lake.storage)
    if not again:
        return IngestResult()
    result = ingest_batch(lake, _kept_pieces(lake.storage, again), (), now_us, dimensions)
    # Last: what is still refused is in the quarantine of this contract by now, and the rest is committed.
    for path in again:
        lake.storage.delete(path)
    return result


def _batches(files: Iterable[StoredFile], max_bytes: int) -> Iterator[list[StoredFile]]:
    batch: list[StoredFile] = []
    held_bytes = 0
    for file in files:
        if batch and held_bytes + file.size > max_bytes:
            yield batch
            batch, held_bytes = [], 0
        batch.append(file)
        held_bytes += file.size
    if batch:
        yield batch


def _pieces(landing: Storage, files: Iterable[StoredFile]) -> Iterator[Piece]:
    piece, held_bytes = Piece(), 0
    for file in files:
        for lines in _lines(landing, file.path):
            piece.add(file, lines)
            held_bytes += sum(map(len, lines))
            if held_bytes >= PIECE_BYTES:
                yield piece
                piece, held_bytes = Piece(), 0
    if piece.lines:
        yield piece


def _lines(landing: Storage, file: str) -> Iterator[list[bytes]]:
    """The lines of a file, some at a time. Of one that is too long only as much as tells that it is."""
    rest = b""
    # A server whose landing folder is full gives up the oldest files, whoever is about to read them.
    with contextlib.suppress(FileNotFoundError), landing.fs.open_input_stream(landing.path_for_arrow(file)) as stream:
        while block := stream.read(_BLOCK_BYTES):
            first, *others = block.split(b"\n")
            lines = [rest + first, *others]
            rest = lines.pop()[:MAX_LINE_BYTES]
            yield lines
    if rest:
        yield [rest]


def _kept_pieces(lake: Storage, paths: Iterable[str]) -> Iterator[Piece]:
    for path in paths:
        for file, lines in quarantined_lines(lake, path):
            piece = Piece()
            piece.add(file, lines)
            yield piece


def _is_landed(path: str) -> bool:
    return path.endswith(".jsonl") and not path.rpartition("/")[2].startswith(".")
