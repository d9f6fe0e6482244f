"""Whether a peer repeats the extended timestamp on continuation chunks (RTMP 1.0, section 5.3.1.3).

The specification says that it does, older texts said the opposite, and peers follow either: most repeat the value,
MediaMTX writes four zeros, some write nothing. Zeros and the value itself may be payload too, so what cannot be told
from four bytes is told from the place where the next continuation header stands.
"""

from typing import NamedTuple

_MAX_BYTES_TO_WAIT_FOR = 64 * 1024


class HabitGuess(NamedTuple):
    """Whether four bytes of timestamp stand here, None if more bytes are needed to tell; and if that is for good."""

    repeats: bool | None
    is_certain: bool


def guess_habit(
    buffer: bytes, position: int, extended: bytes, continuation: bytes, *, chunk_bytes: int, missing_bytes: int
) -> HabitGuess:
    """Guess from the bytes at `position`, just behind the basic header of a continuation.

    `extended` is the value in the message's own header, `continuation` the basic header that a further continuation
    has, `chunk_bytes` what this chunk holds and `missing_bytes` what the message lacks before it.
    """
    candidate = buffer[position : position + 4]
    if not extended.startswith(candidate) and any(candidate):
        return HabitGuess(repeats=False, is_certain=True)
    if len(candidate) < 4:
        return HabitGuess(repeats=None, is_certain=False)
    next_if_omitted = position + chunk_bytes
    next_if_repeated = next_if_omitted + 4
    end_if_repeated = next_if_repeated + len(continuation)
    # Only bytes that the peer must send under either habit are waited for, as it may want an answer before it sends
    # more, and only a few of them. What has arrived beyond them is not looked at: the guess must not depend on timing.
    bytes_after_chunk = missing_bytes - chunk_bytes
    end_of_sure_bytes = next_if_omitted + len(continuation) + bytes_after_chunk
    if bytes_after_chunk == 0 or end_if_repeated > end_of_sure_bytes or chunk_bytes > _MAX_BYTES_TO_WAIT_FOR:
        return HabitGuess(repeats=True, is_certain=False)
    if end_if_repeated > len(buffer):
        return HabitGuess(repeats=None, is_certain=False)
    fits_omitted = buffer[next_if_omitted : next_if_omitted + len(continuation)] == continuation
    fits_repeated = buffer[next_if_repeated:end_if_repeated] == continuation
    if fits_omitted == fits_repeated:
        return HabitGuess(repeats=True, is_certain=False)
    return HabitGuess(repeats=fits_repeated, is_certain=True)
