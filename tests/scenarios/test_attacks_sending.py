"""Work on the sending side: joins, filters, pauses and ends of streams are charged to those who ask for them."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.scenarios.hostile_stage import ATTACK_S, NO_EXEMPTIONS, Stage, hostile_stage
from tests.support.attacks import (
    AVC_CONFIG,
    KEY_FRAME_TAG,
    State,
    connected,
    crowd,
    new_name,
    play_and_close,
    stream_command,
    watching,
)
from tests.support.hostile_clients import (
    AUDIO,
    DATA,
    VIDEO,
    HostileClient,
    amf,
    command,
    flood,
    message,
)
from tests.support.witness import STREAM_NAME

pytestmark = pytest.mark.alone

PLAYS_PER_CONNECTION = 32
OWN_STREAM_BPS = 130_000
SMALL_STREAM_BPS = 500_000
OTHER_ID = 7
TINY_BYTES = 4
FILL_S = 3.0
FILL_BPS = 10_000 * (12 + TINY_BYTES) * 8
"""Thirty thousand messages in one GOP, half as fast as a publisher may send them."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with hostile_stage(tmp_path_factory.mktemp("attacks"), NO_EXEMPTIONS) as stage:
        yield stage


def publisher_of(stage: Stage, stack: ExitStack, name: str) -> HostileClient:
    (publisher,) = crowd(stage, stack, 1, lambda client: client.publishing(name))
    publisher.send(message(VIDEO, AVC_CONFIG, csid=6, stream_id=1))
    publisher.send(message(VIDEO, KEY_FRAME_TAG + bytes(1000), csid=6, stream_id=1))
    return publisher


def small_audio(payload_bytes: int) -> bytes:
    return message(AUDIO, b"\xaf\x01" + bytes(payload_bytes - 2), csid=4, stream_id=1)


def watching_as(name: str, stream_id: int) -> State:
    """A viewer on another message stream than the first."""

    def watch(client: HostileClient) -> HostileClient:
        client.connected().send(command("createStream", 2.0, None) * stream_id)
        client.send(stream_command("play", name, stream_id=stream_id))
        return client.until(b"NetStream.Play.Start")

    return watch


def test_forty_connections_with_32_plays_of_a_small_stream_hold_up_nobody(stage: Stage) -> None:
    name = new_name()
    with stage.attack(), ExitStack() as stack:
        publisher = publisher_of(stage, stack, name)
        viewers = crowd(stage, stack, 40, lambda client: client.connected())
        for viewer in viewers:
            viewer.send(command("createStream", 2.0, None) * PLAYS_PER_CONNECTION)
            viewer.send(
                b"".join(stream_command("play", name, stream_id=id_ + 1) for id_ in range(PLAYS_PER_CONNECTION))
            )
        flood([(publisher, small_audio(300))], ATTACK_S, bps=OWN_STREAM_BPS, audience=viewers)


def test_ninety_filtered_viewers_of_a_stream_of_tiny_messages_hold_up_nobody(stage: Stage) -> None:
    name = new_name()
    with stage.attack(), ExitStack() as stack:
        publisher = publisher_of(stage, stack, name)
        viewers = []
        for stream_id in range(1, 10):
            viewers += crowd(stage, stack, 10, watching_as(name, stream_id))
            for viewer in viewers[-5:]:
                viewer.send(stream_command("receiveVideo", False, stream_id=stream_id))
        flood([(publisher, small_audio(60))], ATTACK_S, bps=SMALL_STREAM_BPS, audience=viewers)


FLIPS = {
    "audio and video": b"".join(
        stream_command(name, is_on) for name in ("receiveAudio", "receiveVideo") for is_on in (False, True)
    ),
    "pause and seek": stream_command("pause", True, 0.0)
    + stream_command("seek", 1000.0)
    + stream_command("pause", False, 0.0),
}


@pytest.mark.parametrize("what", FLIPS)
def test_a_hundred_viewers_who_switch_off_and_on_hold_up_nobody(stage: Stage, what: str) -> None:
    with stage.attack(), ExitStack() as stack:
        viewers = crowd(stage, stack, 100, watching(STREAM_NAME))
        assert all(flood([(viewer, FLIPS[what]) for viewer in viewers], ATTACK_S, reads=True))


def test_joins_of_a_gop_of_thousands_of_messages_hold_up_nobody(stage: Stage) -> None:
    name = new_name()
    joins = [
        stream_command("play", name, stream_id=id_) + filters + stream_command("closeStream", stream_id=id_)
        for id_, filters in (
            (1, b""),
            (1, stream_command("receiveAudio", False)),
            (1, stream_command("receiveVideo", False)),
            (OTHER_ID, b""),
        )
    ]
    with stage.attack(), ExitStack() as stack:
        flood([(publisher_of(stage, stack, name), small_audio(TINY_BYTES))], FILL_S, bps=FILL_BPS)
        attackers = crowd(stage, stack, 2 * len(joins), connected)
        for client in attackers:
            client.send(command("createStream", 2.0, None) * OTHER_ID)
        assert all(flood(zip(attackers, joins * 2, strict=True), ATTACK_S, reads=True))


def test_a_hundred_who_join_and_leave_all_the_time_hold_up_nobody(stage: Stage) -> None:
    with stage.attack(), ExitStack() as stack:
        attackers = crowd(stage, stack, 100, connected)
        assert all(flood([(client, play_and_close(STREAM_NAME)) for client in attackers], ATTACK_S, reads=True))


def test_joins_of_a_stream_with_large_metadata_hold_up_nobody(stage: Stage) -> None:
    name = new_name()
    metadata = amf("@setDataFrame", "onMetaData", {f"key {index}": "x" * 1000 for index in range(200)})
    with stage.attack(), ExitStack() as stack:
        publisher_of(stage, stack, name).send(message(DATA, metadata, stream_id=1))
        attackers = crowd(stage, stack, 8, connected)
        flood([(client, play_and_close(name)) for client in attackers], ATTACK_S, reads=True)


def test_a_stream_with_ninety_viewers_that_begins_and_ends_all_the_time_holds_up_nobody(stage: Stage) -> None:
    name = new_name()
    cycle = (
        stream_command("publish", name, "live")
        + message(VIDEO, AVC_CONFIG, csid=6, stream_id=1)
        + message(VIDEO, KEY_FRAME_TAG + bytes(100), csid=6, stream_id=1)
        + stream_command("closeStream")
    )
    with stage.attack(), ExitStack() as stack:
        (publisher,) = crowd(stage, stack, 1, connected)
        viewers = crowd(stage, stack, 90, connected)
        # Every end ends their plays: they ask again.
        attacks = [(publisher, cycle), *((viewer, stream_command("play", name)) for viewer in viewers)]
        flood(attacks, ATTACK_S, reads=True)
