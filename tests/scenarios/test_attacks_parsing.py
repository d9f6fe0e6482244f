"""What costs much to read: nothing that grows with its input is parsed or kept before it is bounded."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.scenarios.hostile_stage import ATTACK_S, NO_EXEMPTIONS, Stage, hostile_stage
from tests.support.attacks import (
    AVC_CONFIG,
    BIG_CHUNK_BYTES,
    BIG_CHUNKS,
    KEY_FRAME_TAG,
    MAX_PAYLOAD_BYTES,
    crowd,
    new_name,
    pipelined_opening,
    play_and_close,
    publishing,
    watching,
)
from tests.support.hostile_clients import (
    ATTACK_BPS,
    COMMAND,
    DATA,
    VIDEO,
    amf,
    flood,
    message,
)
from tests.support.witness import STREAM_NAME

pytestmark = pytest.mark.alone

LONG_APP = "live?" + "a=b&" * (63_000 // 4)
SLOW_BPS = 4_000 * 8
TRACKS = 256
EXPANDED_BYTES = 1_000_000
MAX_JOINER_BYTES = 100_000
LISTEN_S = 0.3


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with hostile_stage(tmp_path_factory.mktemp("attacks"), NO_EXEMPTIONS) as stage:
        yield stage


@pytest.mark.parametrize("size", [1, 8])
def test_an_app_with_a_query_of_63_kb_is_refused(stage: Stage, size: int) -> None:
    with stage.attack(), ExitStack() as stack:
        attackers = [stack.enter_context(stage.attacker()) for _ in range(size)]
        for client in attackers:
            client.send(pipelined_opening(LONG_APP))
        # Whoever got in all the same goes on with little.
        flood([(client, play_and_close(STREAM_NAME)) for client in attackers], ATTACK_S, bps=SLOW_BPS * size)
        said = [client.said_within(LISTEN_S)[0] for client in attackers]
    assert all(b"NetConnection.Connect.Success" not in words for words in said)


def test_a_play_with_a_query_of_16_mb_is_refused(stage: Stage) -> None:
    name = "witness?" + "a=b&" * ((MAX_PAYLOAD_BYTES - 100) // 4)
    play = message(COMMAND, amf("play", 0.0, None, name), stream_id=1, chunk_bytes=BIG_CHUNK_BYTES)
    with stage.attack(), ExitStack() as stack:
        (client,) = crowd(stage, stack, 1)
        client.send(BIG_CHUNKS)
        flood([(client, play)], len(play) * 8 / ATTACK_BPS + 1.0)
        is_closed = client.is_refused(1.0)
    assert is_closed, "the attacker is connected still"


def test_plays_with_queries_of_60_kb_hold_up_nobody(stage: Stage) -> None:
    name = "witness?" + "a=b&" * (60_000 // 4)
    play = message(COMMAND, amf("play", 0.0, None, name), stream_id=1, chunk_bytes=BIG_CHUNK_BYTES)
    with stage.attack(), ExitStack() as stack:
        attackers = crowd(stage, stack, 8)
        for client in attackers:
            client.send(BIG_CHUNKS)
        assert all(flood([(client, play) for client in attackers], ATTACK_S, reads=True))


def test_metadata_of_references_does_not_multiply_what_joiners_are_sent(stage: Stage) -> None:
    name = new_name()
    with stage.attack(), ExitStack() as stack:
        (publisher,) = crowd(stage, stack, 1, lambda client: client.publishing(name))
        publisher.send(message(DATA, metadata_of_references(), stream_id=1))
        publisher.send(message(VIDEO, KEY_FRAME_TAG + bytes(1000), csid=6, stream_id=1))
        (joiner,) = crowd(stage, stack, 1, watching(name))
        said, _ = joiner.said_within(LISTEN_S)
        attackers = crowd(stage, stack, 8)
        flood([(client, play_and_close(name)) for client in attackers], ATTACK_S, reads=True)
    assert b"onMetaData" in said
    assert len(said) <= MAX_JOINER_BYTES


def metadata_of_references() -> bytes:
    """30 kB of AMF0 that are 1 MB with every reference written out."""
    large = amf({"text": "x" * 30_000})
    # The object around is reference 0, the large one 1.
    copies = range(EXPANDED_BYTES // len(large))
    references = b"".join(b"\x00\x03" + f"{index:03}".encode() + b"\x07\x00\x01" for index in copies)
    return amf("@setDataFrame", "onMetaData") + b"\x03" + b"\x00\x01a" + large + references + b"\x00\x00\x09"


@pytest.mark.parametrize("size", [1, 8])
def test_codec_configurations_of_hundreds_of_tracks_hold_up_nobody(stage: Stage, size: int) -> None:
    config = AVC_CONFIG[5:]
    tracks = b"".join(bytes([track]) + len(config).to_bytes(3, "big") + config for track in range(TRACKS))
    # Enhanced RTMP: a multitrack packet of sequence headers, many tracks of one codec.
    packet = b"\x96\x10avc1" + tracks
    load = message(VIDEO, packet, csid=6, stream_id=1, chunk_bytes=BIG_CHUNK_BYTES)
    with stage.attack(), ExitStack() as stack:
        attackers = crowd(stage, stack, size, publishing)
        for client in attackers:
            client.send(BIG_CHUNKS)
        assert all(flood([(client, load) for client in attackers], ATTACK_S, reads=True))
