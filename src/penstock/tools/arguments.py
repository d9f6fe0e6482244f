"""What goes into a command and what comes out: values on the command line, and exit statuses.

Rates come with their letters, sizes as 640x360, lengths of time in seconds. All refuse nonsense early.
"""

import argparse
import math
import re
from typing import Final

FAILURE: Final = 1
"""A server, a file or the network is at fault."""
WRONG_USE: Final = 2
"""The arguments are."""

_MULTIPLES: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_BIT_RATE: Final = re.compile(r"(\d{1,10}(?:\.\d{1,6})?)([kKmM]?)")
_SIZE: Final = re.compile(r"(\d{2,4})x(\d{2,4})")
_MAX_BIT_RATE: Final = 1_000_000_000


def bit_rate(text: str) -> int:
    """Bits per second: 800k, 2.5M."""
    match = _BIT_RATE.fullmatch(text)
    rate = 0 if match is None else int(float(match[1]) * _MULTIPLES[match[2].lower()])
    if not 1_000 <= rate <= _MAX_BIT_RATE:
        raise argparse.ArgumentTypeError(f"{text!r} is no bit rate of 1k to 1000M, such as 800k or 2.5M")
    return rate


def picture_size(text: str) -> tuple[int, int]:
    """Width and height in pixels, both even, as the encoders halve them for colour: 640x360."""
    match = _SIZE.fullmatch(text)
    width_px, height_px = (int(match[1]), int(match[2])) if match else (0, 0)
    if width_px < 16 or height_px < 16 or width_px % 2 or height_px % 2:
        raise argparse.ArgumentTypeError(f"{text!r} is no size of even numbers from 16 on, such as 640x360")
    return width_px, height_px


def seconds(text: str) -> float:
    """A length of time above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def count(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isascii() or not text.isdigit() or not 1 <= len(text) <= 6 or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to 999999")
    return int(text)
