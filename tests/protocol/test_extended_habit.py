"""The habit of repeating extended timestamps, guessed from literal bytes of peers with either habit.

The extended value is 0x01020304 and continuations on chunk stream 6 begin with C6, unless said otherwise.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.extended_habit import HabitGuess, guess_habit

EXTENDED = "01020304"
REPEATS = HabitGuess(repeats=True, is_certain=True)
OMITS = HabitGuess(repeats=False, is_certain=True)
LIKELY_REPEATS = HabitGuess(repeats=True, is_certain=False)
NEEDS_MORE = HabitGuess(repeats=None, is_certain=False)


def guess(
    data: str,
    *,
    chunk_bytes: int = 8,
    missing_bytes: int = 20,
    extended: str = EXTENDED,
    continuation: str = "C6",
    skipped: str = "",
) -> HabitGuess:
    return guess_habit(
        bytes.fromhex(skipped + data),
        len(bytes.fromhex(skipped)),
        bytes.fromhex(extended),
        bytes.fromhex(continuation),
        chunk_bytes=chunk_bytes,
        missing_bytes=missing_bytes,
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("0A", "one byte is enough"),
        ("0102 0A", "the value is begun and then left"),
        ("010203 05", "all but the last byte is the value"),
        ("0000 05", "zeros and then something else"),
        ("00000001", "all but the last byte is zero"),
        ("01000000", "the value is begun and zeros follow"),
        ("00020304", "a zero and the end of the value"),
    ],
)
def test_bytes_that_are_neither_the_value_nor_zeros_are_payload(data: str, why: str) -> None:
    assert guess(data) == OMITS, why


@pytest.mark.parametrize("data", ["", "01", "0102", "010203", "00", "0000", "000000"])
def test_less_than_four_bytes_of_the_value_or_of_zeros_tell_nothing(data: str) -> None:
    assert guess(data) == NEEDS_MORE
    assert guess(data, chunk_bytes=8, missing_bytes=8) == NEEDS_MORE


@pytest.mark.parametrize("stamp", ["01020304", "00000000"])
class TestStampOrPayload:
    """The four bytes are the value, or MediaMTX's zeros; only what follows tells whether they are payload."""

    def test_a_header_behind_stamp_and_chunk_says_that_they_are_a_stamp(self, stamp: str) -> None:
        assert guess(stamp + "A0A1A2A3A4A5A6A7 C6 " + stamp) == REPEATS

    def test_a_header_behind_the_chunk_alone_says_that_they_are_payload(self, stamp: str) -> None:
        assert guess(stamp + "A4A5A6A7 C6 B0B1B2B3") == OMITS

    def test_a_payload_that_begins_with_the_stamp_again_is_told_from_it(self, stamp: str) -> None:
        assert guess(stamp + stamp + "A4A5A6A7 C6") == REPEATS
        assert guess(stamp + stamp + "C6 B0B1B2B3") == OMITS

    def test_a_payload_of_nothing_but_zeros_is_told_by_the_header(self, stamp: str) -> None:
        assert guess(stamp + "0000000000000000 C6") == REPEATS
        assert guess(stamp + "00000000 C6 00000000") == OMITS

    def test_a_header_in_both_places_is_likely_a_stamp(self, stamp: str) -> None:
        assert guess(stamp + "A0A1A2A3 C6 A5A6A7 C6") == LIKELY_REPEATS

    def test_a_header_in_neither_place_is_likely_a_stamp(self, stamp: str) -> None:
        # Another chunk stream's chunk stands between the two of this message.
        assert guess(stamp + "A0A1A2A3A4A5A6A7 04 00000A") == LIKELY_REPEATS

    def test_the_last_chunk_is_decided_without_waiting(self, stamp: str) -> None:
        assert guess(stamp, chunk_bytes=8, missing_bytes=8) == LIKELY_REPEATS
        assert guess(stamp + "A4A5A6A7 C6", chunk_bytes=8, missing_bytes=8) == LIKELY_REPEATS

    @pytest.mark.parametrize("seen_bytes", range(4, 13))
    def test_the_place_of_the_next_header_is_waited_for(self, stamp: str, seen_bytes: int) -> None:
        data = bytes.fromhex(stamp + "A0A1A2A3A4A5A6A7 C6")[:seen_bytes]
        assert guess(data.hex()) == NEEDS_MORE

    def test_bytes_that_an_omitting_peer_may_never_send_are_not_waited_for(self, stamp: str) -> None:
        # Behind this chunk 4 bytes are sure to come in any case, but not with 3.
        assert guess(stamp, chunk_bytes=8, missing_bytes=12) == NEEDS_MORE
        assert guess(stamp, chunk_bytes=8, missing_bytes=11) == LIKELY_REPEATS

    def test_a_huge_chunk_is_not_waited_for(self, stamp: str) -> None:
        assert guess(stamp, chunk_bytes=65536, missing_bytes=200_000) == NEEDS_MORE
        assert guess(stamp, chunk_bytes=65537, missing_bytes=200_000) == LIKELY_REPEATS

    def test_what_was_not_waited_for_is_not_looked_at_either(self, stamp: str) -> None:
        assert guess(stamp + "A4A5A6A7 C6 B0B1B2 04", chunk_bytes=8, missing_bytes=11) == LIKELY_REPEATS
        assert guess(stamp + "A0" * 65533 + "C6 B0B1B2B3", chunk_bytes=65537, missing_bytes=200_000) == LIKELY_REPEATS

    def test_longer_basic_headers_are_compared_whole(self, stamp: str) -> None:
        assert guess(stamp + "A0A1A2A3A4A5A6A7 C0", continuation="C006") == NEEDS_MORE
        assert guess(stamp + "A0A1A2A3 C007 A6A7 C006", continuation="C006") == REPEATS
        assert guess(stamp + "A4A5A6A7 C0FF B0B1 C007", continuation="C0FF") == OMITS
        assert guess(stamp + "A0A1A2A3A4A5A6A7 C10001", continuation="C10001") == REPEATS
        assert guess(stamp + "A4A5A6A7 C10001 B0B1B2B3", continuation="C10001") == OMITS

    def test_what_stands_before_the_position_is_not_looked_at(self, stamp: str) -> None:
        assert guess(stamp + "A0A1A2A3A4A5A6A7 C6", skipped="C6 C6 C6 00000000") == REPEATS
        assert guess(stamp + "A4A5A6A7 C6 B0B1B2B3", skipped="C6 C6 C6 00000000") == OMITS


def test_a_value_that_holds_zeros_itself_is_told_apart() -> None:
    assert guess("01000000 A0A1A2A3A4A5A6A7 C6", extended="01000000") == REPEATS
    assert guess("0100", extended="01000000") == NEEDS_MORE
    assert guess("00000000 A4A5A6A7 C6 B0B1B2B3", extended="01000000") == OMITS


@pytest.mark.parametrize("stamp", [bytes.fromhex("01020304"), bytes(4), b""])
@given(
    # Payloads full of what could be a stamp, but without C6, so that the next header stands in one place only.
    payload=st.lists(st.sampled_from([0, 1, 2, 3, 4, 0xA0]), min_size=6, max_size=40).map(bytes),
    chunk_bytes=st.integers(5, 8),
)
def test_a_certain_guess_is_right_and_no_guess_depends_on_how_much_is_here(
    stamp: bytes, payload: bytes, chunk_bytes: int
) -> None:
    chunk_bytes = min(chunk_bytes, len(payload))
    chunks = [payload[start : start + chunk_bytes] for start in range(0, len(payload), chunk_bytes)]
    stream = b"".join(b"\xc6" + stamp + chunk for chunk in chunks)
    guesses = [
        guess_habit(
            stream[:seen_bytes],
            1,
            bytes.fromhex(EXTENDED),
            b"\xc6",
            chunk_bytes=chunk_bytes,
            missing_bytes=len(payload),
        )
        for seen_bytes in range(1, len(stream) + 1)
    ]
    made = [each for each in guesses if each != NEEDS_MORE]
    assert len(set(made)) == 1
    assert guesses[-len(made) :] == made
    if len(payload) >= chunk_bytes + 4:
        assert made[0] == HabitGuess(repeats=bool(stamp), is_certain=True)
