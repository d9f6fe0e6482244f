"""What one run of a target comes to, and how its input is laid out.

An input is four bytes of choices and then the bytes for the reader. The choices decide what is not the peer's to
decide: where TCP cuts, what the shell grants and how late. They are part of the input so that a finding can be run
again, and made smaller, from its bytes alone.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from penstock.errors import MalformedInput

CHOICE_BYTES = 4
MAX_DATA_BYTES = 64 * 1024
_MAX_ERROR_CHARACTERS = 1000


class BrokenInvariant(Exception):
    """A reader did what no input may make it do."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many values or events came out, and whether the input was refused by the error of its family."""

    values: int
    is_refused: bool


@dataclass(frozen=True, slots=True)
class Target:
    """A reader under test: how inputs for it are made, and what is done with one."""

    name: str
    make: Callable[[random.Random], bytes]
    run: Callable[[bytes], Outcome]


def split_input(data: bytes) -> tuple[int, bytes]:
    """The choices as one number, and the bytes for the reader. An input too short for choices is padded."""
    choices = data[:CHOICE_BYTES].ljust(CHOICE_BYTES, b"\x00")
    return int.from_bytes(choices, "big"), data[CHOICE_BYTES : CHOICE_BYTES + MAX_DATA_BYTES]


def join_input(choices: int, data: bytes) -> bytes:
    """The input that `split_input` splits so."""
    return choices.to_bytes(CHOICE_BYTES, "big") + data[:MAX_DATA_BYTES]


def expect(holds: bool, what: str) -> None:
    """Hold an invariant."""
    if not holds:
        raise BrokenInvariant(what)


def expect_same(left: object, right: object, what: str) -> None:
    """Hold that two ways lead to the same. NaN is taken as the same as itself."""
    if left == right:
        return
    left_text, right_text = repr(left), repr(right)
    if left_text != right_text:
        at = next((at for at, pair in enumerate(zip(left_text, right_text, strict=False)) if pair[0] != pair[1]), 0)
        raise BrokenInvariant(f"{what}: {_around(left_text, at)} against {_around(right_text, at)}")


def refusal(fault: MalformedInput) -> str:
    """The text of an error, which has to fit one line of a log whatever the peer sent."""
    text = str(fault)
    expect(text.isprintable(), f"an error with characters that cannot be printed: {text!r:.200}")
    expect(len(text) <= _MAX_ERROR_CHARACTERS, f"an error of {len(text)} characters: {text:.200}")
    return text


def _around(text: str, at: int) -> str:
    return text[max(at - 60, 0) : at + 60]
