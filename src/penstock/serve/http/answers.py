"""The table of answers that are laid out, by the line that asks for them, and how the rest of a head is remembered.

Owns the fast path of a request: the same line gets the same answer, and a client says the same about itself with every
request, so both are looked up. Credentials are never part of a name here. Bounded: what a site puts it takes out again,
and of remembered heads there are so many at most.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.errors import MisuseError
from penstock.serve.http.requests import Line, Traits, read_line
from penstock.serve.http.site import Answer, Wait

_MOST_BLOCKS: Final = 1024
_MOST_BLOCK_BYTES: Final = 2048


@dataclass(frozen=True, slots=True)
class Laid:
    """An answer that is there, or that will be."""

    answer: Answer | Wait
    line: Line
    is_free: bool
    """Whether access is not asked about it."""
    on_hit: Callable[[str, Traits], bool] | None = None
    """Told who is about to be answered: its address, and what it said of itself. False: a site is to look at it."""
    compressed: Answer | Wait | None = None
    """The same for those who read gzip, where there is such a thing."""


class AnswerTable:
    """By request line, without what ends it."""

    __slots__ = ("_blocks", "_laid")

    def __init__(self) -> None:
        self._laid: dict[bytes, Laid] = {}
        self._blocks: dict[bytes, Traits] = {}

    def put(
        self,
        target: str,
        answer: Answer | Wait,
        *,
        is_free: bool,
        on_hit: Callable[[str, Traits], bool] | None = None,
        compressed: Answer | Wait | None = None,
    ) -> None:
        """Answer like this from now on. `target`: path and query as clients write them, without credentials.

        `is_free`: access is not asked about it, since its name cannot be guessed.
        """
        raw = _line_of(target)
        line = read_line(raw)
        if line is None:
            raise MisuseError(f"answers: {target} is not for media")
        self._laid[raw] = Laid(answer, line, is_free, on_hit, compressed)

    def remove(self, target: str) -> None:
        """It is not answered this way any more."""
        self._laid.pop(_line_of(target), None)

    def get(self, line: bytes) -> Laid | None:
        return self._laid.get(line)

    def traits_of(self, block: bytes) -> Traits | None:
        """What a head said behind its first line, if it was read before."""
        return self._blocks.get(block)

    def remember(self, block: bytes, traits: Traits) -> None:
        """It was read."""
        if len(block) <= _MOST_BLOCK_BYTES:
            if len(self._blocks) >= _MOST_BLOCKS:
                self._blocks.clear()
            self._blocks[block] = traits


def _line_of(target: str) -> bytes:
    return b"GET %s HTTP/1.1" % target.encode("ascii")
