"""Damage to bytes, by chance but the same for the same generator.

Knows no formats beyond what most of them share: big-endian lengths of 16, 24 and 32 bits, and tokens that a format's
own targets name. Whole structures are moved about by whoever knows them: `chunks` for chunk streams.
"""

import random
from collections.abc import Callable, Sequence

from fuzz.outcome import MAX_DATA_BYTES

INTERESTING_BYTES = b"\x00\x01\x02\x03\x04\x05\x07\x08\x09\x0a\x11\x7f\x80\x81\xbf\xc0\xc2\xc3\xc4\xfe\xff"
_INTERESTING_SIZES = (0, 1, 2, 127, 128, 129, 4095, 4096, 0x7FFF, 0xFFFF, 0x10000, 0xFFFFFE, 0xFFFFFF, 0x7FFFFFFF)
_MAX_BLOCK_BYTES = 64
_MAX_MUTATIONS = 6

_Mutation = Callable[[bytearray, random.Random], None]


def mutate(data: bytes, chance: random.Random, pool: Sequence[bytes] = (), tokens: Sequence[bytes] = ()) -> bytes:
    """The data with one to six pieces of damage: spliced with one of the pool, a token in it, or by its own bytes."""
    damaged = bytearray(data)
    for _ in range(min(1 + int(chance.expovariate(1.2)), _MAX_MUTATIONS)):
        dice = chance.random()
        if tokens and dice < 0.15:
            at = chance.randint(0, len(damaged))
            damaged[at:at] = chance.choice(tokens) * (chance.choice((1, 1, 1, 2, 40)))
        elif pool and dice < 0.22:
            _splice(damaged, chance, chance.choice(pool))
        else:
            chance.choice(_MUTATIONS)(damaged, chance)
    return bytes(damaged[:MAX_DATA_BYTES])


def _place(data: bytearray, chance: random.Random) -> int:
    # Headers are at the start, and what they say decides the rest.
    if chance.random() < 0.3:
        return chance.randrange(min(len(data), 32))
    return chance.randrange(len(data))


def _block(data: bytearray, chance: random.Random) -> slice:
    start = _place(data, chance)
    return slice(start, start + chance.randint(1, _MAX_BLOCK_BYTES))


def _flip_bit(data: bytearray, chance: random.Random) -> None:
    if data:
        data[_place(data, chance)] ^= 1 << chance.randrange(8)


def _set_byte(data: bytearray, chance: random.Random) -> None:
    if data:
        data[_place(data, chance)] = chance.choice(INTERESTING_BYTES)


def _set_any_byte(data: bytearray, chance: random.Random) -> None:
    if data:
        data[_place(data, chance)] = chance.randrange(256)


def _truncate(data: bytearray, chance: random.Random) -> None:
    del data[chance.randint(0, len(data)) :]


def _delete(data: bytearray, chance: random.Random) -> None:
    if data:
        del data[_block(data, chance)]


def _duplicate(data: bytearray, chance: random.Random) -> None:
    if data:
        block = data[_block(data, chance)] * chance.choice((1, 1, 1, 2, 16))
        at = chance.randint(0, len(data))
        data[at:at] = block


def _insert(data: bytearray, chance: random.Random) -> None:
    at = chance.randint(0, len(data))
    size = chance.choice((1, 1, 2, 3, 4, 8, 11))
    data[at:at] = chance.randbytes(size) if chance.random() < 0.5 else bytes((chance.choice(INTERESTING_BYTES),)) * size


def _set_size(data: bytearray, chance: random.Random) -> None:
    width = chance.choice((2, 3, 3, 4, 4))
    if len(data) < width:
        return
    at = min(_place(data, chance), len(data) - width)
    present = int.from_bytes(data[at : at + width], "big")
    sizes = (*_INTERESTING_SIZES, present + 1, present - 1, present * 2, len(data) - at - width, len(data))
    data[at : at + width] = (chance.choice(sizes) % (1 << 8 * width)).to_bytes(width, "big")


def _splice(data: bytearray, chance: random.Random, other: bytes) -> None:
    """The start of one and the end of another, or a block of another in the middle."""
    if chance.random() < 0.5:
        del data[chance.randint(0, len(data)) :]
        data += other[chance.randint(0, len(other)) :]
    else:
        at = chance.randint(0, len(data))
        start = chance.randint(0, len(other))
        data[at:at] = other[start : start + _MAX_BLOCK_BYTES]


_MUTATIONS: Sequence[_Mutation] = (
    _flip_bit,
    _flip_bit,
    _set_byte,
    _set_byte,
    _set_any_byte,
    _truncate,
    _delete,
    _duplicate,
    _insert,
    _set_size,
    _set_size,
)
