"""Payloads come back out of the shared encoding as they went in, whatever the chunk size and the time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import MisuseError
from penstock.media.frame import FrameKind, frame_of
from penstock.protocol.chunk_writer import standalone_writer
from penstock.relay.log import LogBudget, StreamLog
from penstock.relay.payload import payload_of, read_payloads
from penstock.relay.readable_log import LogLimits
from penstock.relay.segment import Entry, MemoryStore

# Type 0 on chunk stream 6: time, length, video, stream 1; then chunks of 4 bytes behind one-byte headers.
SHORT = bytes.fromhex("06 000010 000003 09 01000000 270203")
CHUNKED = bytes.fromhex("06 000010 00000a 09 01000000 27010000 c6 00aabbcc c6 ddee")
# The time does not fit into 24 bits and is repeated behind each header.
EXTENDED = bytes.fromhex("06 ffffff 000006 09 01000000 01000000 27010000 c6 01000000 00aa")
PAST_32_BITS = bytes.fromhex("06 000002 000003 09 01000000 270203")


def entry_of(encoded: bytes, timestamp_ms: int, payload_bytes: int) -> Entry:
    return Entry(0, len(encoded), FrameKind.VIDEO, timestamp_ms, payload_bytes, False, False)


@pytest.mark.parametrize(
    ("encoded", "timestamp_ms", "payload"),
    [
        (SHORT, 0x10, "270203"),
        (CHUNKED, 0x10, "2701000000aabbccddee"),
        (EXTENDED, 0x1000000, "2701000000aa"),
        (PAST_32_BITS, 0x100000002, "270203"),
    ],
    ids=["one chunk", "many chunks", "extended time", "time past 32 bits"],
)
def test_chunk_headers_are_taken_out(encoded: bytes, timestamp_ms: int, payload: str) -> None:
    expected = bytes.fromhex(payload)
    assert bytes(payload_of(memoryview(encoded), entry_of(encoded, timestamp_ms, len(expected)), 4)) == expected


def test_another_chunk_size_than_the_logs_is_refused() -> None:
    with pytest.raises(MisuseError, match="payload: 11 bytes, not 10, at a chunk size of 8"):
        payload_of(memoryview(CHUNKED), entry_of(CHUNKED, 0x10, 10), 8)


@given(
    payloads=st.lists(st.binary(max_size=700), min_size=1, max_size=5),
    timestamp_ms=st.sampled_from([0, 0xFFFFFE, 0xFFFFFF, 0xFFFFFFFF, 0x100000000]),
    chunk_size=st.sampled_from([1, 7, 128, 4096]),
)
def test_what_was_appended_is_read(payloads: list[bytes], timestamp_ms: int, chunk_size: int) -> None:
    encoders = {FrameKind.AUDIO: standalone_writer(4, 8, 1, chunk_size)}
    log = StreamLog(MemoryStore(), encoders, LogLimits(), LogBudget(2**20))
    for payload in payloads:
        log.append(frame_of(FrameKind.AUDIO, timestamp_ms, payload), 0.0)
    flush = log.flush(0.0)
    assert flush is not None
    assert [bytes(payload) for _, payload in read_payloads(flush.segment, flush.entries, chunk_size)] == payloads
