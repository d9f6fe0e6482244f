"""The ways in which TCP may cut one and the same stream of bytes.

A reader of a stream must give the same answer for each of them. `all_cuts` is made for `pytest.mark.parametrize`.
"""

import random

RANDOM_SEEDS = (1, 2, 3)
# Large enough that a cut often falls inside a payload, small enough that headers are cut too.
MAX_RANDOM_PIECE_BYTES = 1500


def whole(data: bytes) -> list[bytes]:
    """All of it at once."""
    return [data]


def by_size(data: bytes, size: int) -> list[bytes]:
    """Pieces of `size` bytes; the last may be shorter."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def random_cuts(data: bytes, seed: int) -> list[bytes]:
    """Pieces of 1 to 1500 bytes, short ones more often; the same for the same seed."""
    generator = random.Random(seed)
    pieces: list[bytes] = []
    start = 0
    while start < len(data):
        size = int(MAX_RANDOM_PIECE_BYTES ** generator.random())
        pieces.append(data[start : start + size])
        start += size
    return pieces


def all_cuts(data: bytes) -> list[tuple[str, list[bytes]]]:
    """Every way to cut `data` that a stream reader is tried with, each with a name for the test's id."""
    return [
        ("whole", whole(data)),
        ("byte by byte", by_size(data, 1)),
        ("by 7", by_size(data, 7)),
        ("by 128", by_size(data, 128)),
        *((f"random, seed {seed}", random_cuts(data, seed)) for seed in RANDOM_SEEDS),
    ]
