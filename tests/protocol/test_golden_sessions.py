"""Real sessions of real programs, as captured: see tests/golden/sessions/README.md for where each comes from."""

from pathlib import Path

import pytest

from penstock.protocol.events import (
    BufferLengthSet,
    Connected,
    ConnectRequested,
    DataReceived,
    EndReason,
    HandshakeCompleted,
    MediaReceived,
    PlayEnded,
    PlayRequested,
    PlayStart,
    PlayStarted,
    PublishEnded,
    PublishRequested,
    PublishStarted,
    StreamCreated,
    StreamEnded,
    StreamOpened,
)
from tests.support.cuts import all_cuts, whole
from tests.support.golden import GOLDEN_DIR, golden_bytes
from tests.support.independent_rtmp import read_messages
from tests.support.session_runs import serve, watch

SESSIONS = sorted(path.name.removesuffix(".client.bin") for path in Path(GOLDEN_DIR, "sessions").glob("*.client.bin"))
PUBLISHES = [name for name in SESSIONS if "publish" in name or "push" in name]
PLAYS = [name for name in SESSIONS if "play" in name]
# These create their stream without announcing it, so the server's answer has transaction id 2 and not 4.
UNANNOUNCED = {"nginx_push", "gstreamer_rtmp2sink_publish"}


def client_bytes(session: str) -> bytes:
    return golden_bytes(f"sessions/{session}.client.bin")


def server_bytes(session: str) -> bytes:
    return golden_bytes(f"sessions/{session}.server.bin")


def media_in(data: bytes) -> list[tuple[int, int, bytes]]:
    return [(m.type_id, m.timestamp, m.payload) for m in read_messages(data) if m.type_id in (8, 9)]


@pytest.mark.parametrize("session", SESSIONS)
def test_a_server_hears_the_same_however_tcp_cuts_it(session: str) -> None:
    expected = serve(whole(client_bytes(session)))
    for name, pieces in all_cuts(client_bytes(session)):
        assert serve(pieces) == expected, name


@pytest.mark.parametrize("session", SESSIONS)
def test_a_client_hears_the_same_however_tcp_cuts_it(session: str) -> None:
    def events_of(pieces: list[bytes]) -> list[object]:
        publishes = session in PUBLISHES
        announces = publishes and session not in UNANNOUNCED
        return list(watch(pieces, "test", publishes=publishes, announces=announces))

    expected = events_of(whole(server_bytes(session)))
    for name, pieces in all_cuts(server_bytes(session)):
        assert events_of(pieces) == expected, name


@pytest.mark.parametrize("session", PUBLISHES)
def test_every_media_message_of_a_publisher_arrives_as_an_independent_reader_sees_it(session: str) -> None:
    events = serve(whole(client_bytes(session)))
    received = [(e.type_id, e.timestamp_ms, e.payload) for e in events if isinstance(e, MediaReceived)]
    assert received == media_in(client_bytes(session))
    assert len(received) > 15


@pytest.mark.parametrize("session", PLAYS)
def test_every_media_message_of_nginx_arrives_as_an_independent_reader_sees_it(session: str) -> None:
    events = watch(whole(server_bytes(session)), "test", publishes=False, announces=False)
    received = [(e.type_id, e.timestamp_ms, e.payload) for e in events if isinstance(e, MediaReceived)]
    assert received == media_in(server_bytes(session))
    assert len(received) > 15


@pytest.mark.parametrize("session", PUBLISHES)
def test_a_publisher_goes_through_the_states_in_order(session: str) -> None:
    events = [e for e in serve(whole(client_bytes(session))) if not isinstance(e, MediaReceived | DataReceived)]
    kinds = [type(event) for event in events]
    expected = [HandshakeCompleted, ConnectRequested, StreamOpened, PublishRequested]
    if session != "nginx_push":  # captured while it still published
        expected.append(PublishEnded)
    assert kinds == expected
    connect = events[1]
    assert isinstance(connect, ConnectRequested)
    assert connect.app == "live"
    assert events[3] == PublishRequested(stream_id=1, name="test", query=None, publishing_type="live")


@pytest.mark.parametrize("session", [name for name in PUBLISHES if name.startswith(("ffmpeg", "obs", "pyav"))])
def test_encoders_end_their_publish_by_fc_unpublish(session: str) -> None:
    ended = [event for event in serve(whole(client_bytes(session))) if isinstance(event, PublishEnded)]
    assert ended == [PublishEnded(1, "test", EndReason.FC_UNPUBLISH)]


@pytest.mark.parametrize("session", PUBLISHES)
def test_metadata_arrives_without_the_word_to_the_server(session: str) -> None:
    data = next(event for event in serve(whole(client_bytes(session))) if isinstance(event, DataReceived))
    assert data.name == "onMetaData"
    assert data.payload.startswith(b"\x02\x00\x0aonMetaData")


@pytest.mark.parametrize(
    ("session", "buffers_ms", "start"),
    [
        ("ffmpeg_play", [3000], PlayStart.LIVE_OR_RECORDED),
        ("vlc_play", [3000], PlayStart.LIVE_OR_RECORDED),
        ("rtmpdump_play", [300, 36000000], PlayStart.LIVE),
        ("gstreamer_rtmp2src_play", [300, 30000], PlayStart.LIVE_OR_RECORDED),
    ],
)
def test_a_player_says_what_it_wants(session: str, buffers_ms: list[int], start: PlayStart) -> None:
    events = serve(whole(client_bytes(session)))
    (play,) = [event for event in events if isinstance(event, PlayRequested)]
    assert (play.stream_id, play.name, play.query, play.start, play.start_ms) == (1, "test", None, start, None)
    assert [event.buffer_ms for event in events if isinstance(event, BufferLengthSet)] == buffers_ms


def test_players_that_delete_their_stream_end_their_play() -> None:
    for session in ("ffmpeg_play", "rtmpdump_play"):
        events = serve(whole(client_bytes(session)))
        assert events[-1] == PlayEnded(1, "test", EndReason.DELETE_STREAM)


@pytest.mark.parametrize("session", PUBLISHES)
def test_a_client_learns_from_nginx_that_it_may_publish(session: str) -> None:
    announces = session not in UNANNOUNCED
    events = watch(whole(server_bytes(session)), "test", publishes=True, announces=announces)
    kinds = [type(event) for event in events]
    assert kinds[:4] == [HandshakeCompleted, Connected, StreamCreated, PublishStarted]


def test_a_client_learns_from_nginx_that_a_play_starts_and_ends() -> None:
    events = watch(whole(server_bytes("ffmpeg_play")), "test", publishes=False, announces=False)
    assert [event for event in events if isinstance(event, StreamCreated | PlayStarted | StreamEnded)] == [
        StreamCreated(1),
        PlayStarted(1),
        StreamEnded(1, "StreamEOF"),
    ]


def test_signed_handshakes_are_answered_signed() -> None:
    for session in ("ffmpeg_publish", "nginx_push"):
        assert serve(whole(client_bytes(session)))[0] == HandshakeCompleted(used_digest=True)
    assert serve(whole(client_bytes("obs_publish")))[0] == HandshakeCompleted(used_digest=False)
