"""How long a message has been on its way: what a shell needs to end a peer that never finishes one."""

from penstock.protocol.chunk_reader import ChunkReader
from penstock.protocol.events import HandshakeCompleted, MediaReceived
from tests.support.scripted_client import ScriptedClient
from tests.support.session_runs import new_server, pull

HEAD_OF_4_BYTES = bytes.fromhex("06 000000 000004 09 01000000")


def reader_fed(*feeds: tuple[float, bytes]) -> ChunkReader:
    reader = ChunkReader()
    for now, data in feeds:
        reader.receive_data(data, now)
        while reader.next_message() is not None:
            pass
    return reader


def test_no_message_is_half_at_first_and_after_a_whole_one() -> None:
    assert reader_fed().oldest_half_message_at is None
    assert reader_fed((5.0, HEAD_OF_4_BYTES + b"abcd")).oldest_half_message_at is None
    # Also on the short way, on which a chunk stream is known already.
    assert reader_fed((5.0, (HEAD_OF_4_BYTES + b"abcd") * 3)).oldest_half_message_at is None


def test_a_message_of_which_only_the_header_came_has_begun() -> None:
    assert reader_fed((5.0, HEAD_OF_4_BYTES)).oldest_half_message_at == 5.0
    assert reader_fed((5.0, HEAD_OF_4_BYTES + b"abcd"), (7.0, HEAD_OF_4_BYTES)).oldest_half_message_at == 7.0


def test_more_bytes_of_a_message_do_not_make_it_younger() -> None:
    dripping = [(6.0 + number, b"x") for number in range(3)]
    assert reader_fed((5.0, HEAD_OF_4_BYTES), *dripping).oldest_half_message_at == 5.0
    assert reader_fed((5.0, HEAD_OF_4_BYTES), *dripping, (9.0, b"x")).oldest_half_message_at is None


def test_of_several_the_oldest_counts_until_it_is_whole() -> None:
    chunk_of_128 = bytes.fromhex("04 000000 0000C8 08 01000000") + bytes(128)
    begun = [(5.0, chunk_of_128), (6.0, bytes.fromhex("06 000000 0000C8 09 01000000") + bytes(128))]
    assert reader_fed(*begun).oldest_half_message_at == 5.0
    assert reader_fed(*begun, (7.0, b"\xc4" + bytes(72))).oldest_half_message_at == 6.0


def test_a_message_that_was_dropped_is_half_no_more() -> None:
    reader = reader_fed((5.0, bytes.fromhex("04 000000 0000C8 08 01000000") + bytes(128)))
    reader.abort(4)
    assert reader.oldest_half_message_at is None


def test_a_session_passes_the_clock_on() -> None:
    client = ScriptedClient().publishing()
    assert client.server.oldest_half_message_at is None
    client.server.receive_data(HEAD_OF_4_BYTES + b"ab", now=1234.5)
    assert client.server.next_event() is None
    assert client.server.oldest_half_message_at == 1234.5
    client.server.receive_data(b"cd", now=1240.0)
    assert client.server.next_event() == MediaReceived(9, 1, 0, b"abcd")
    assert client.server.oldest_half_message_at is None


def test_what_comes_with_the_end_of_the_handshake_has_a_time_too() -> None:
    server = new_server()
    server.receive_data(b"\x03" + bytes(2 * 1536) + HEAD_OF_4_BYTES, now=8.0)
    assert pull(server) == [HandshakeCompleted(used_digest=False)]
    assert server.oldest_half_message_at == 8.0
