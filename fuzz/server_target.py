"""The server session under a client that sends anything, from the first byte or into a session under way."""

import random
from functools import partial
from typing import Final

from tests.support.cuts import random_cuts
from tests.support.independent_rtmp import HANDSHAKE_BYTES, OracleMessage
from tests.support.session_runs import events_of

from fuzz import corpus
from fuzz.chunks import write_plain
from fuzz.outcome import Outcome, Target, expect, expect_same, split_input
from fuzz.protocol_targets import NONCE
from fuzz.session_run import SETTINGS, Heard, Shell, make_session
from penstock.protocol.events import (
    ConnectRequested,
    Event,
    PlayEnded,
    PlayRequested,
    PublishEnded,
    PublishRequested,
    SeekRequested,
)
from penstock.protocol.handshake import NONCE_BYTES
from penstock.protocol.server_session import ServerSession
from penstock.protocol.states import ConnectionState, StreamState

_CONNECT, _CREATE, _PUBLISH, _PLAY = (
    corpus.golden_command(name) for name in ("connect", "createStream", "publish", "play")
)
_HANDSHAKE: Final = b"\x03" + bytes(HANDSHAKE_BYTES - 1)
_SCRIPTS: Final = (
    ((0, _CONNECT),),
    ((0, _CONNECT), (0, _CREATE), (1, _PUBLISH)),
    ((0, _CONNECT), (0, _CREATE), (1, _PLAY)),
    ((0, _CONNECT), (0, _CREATE), (1, _PUBLISH), (0, _CREATE), (2, _PLAY)),
)
_PREFIXES: Final = (
    b"",
    _HANDSHAKE,
    *(_HANDSHAKE + write_plain([OracleMessage(3, 0, 20, at, text) for at, text in script]) for script in _SCRIPTS),
)


def run_server(data: bytes) -> Outcome:
    """A session fed whole and decided at once, and one fed in pieces and decided late."""
    choices, tail = split_input(data)
    stream = _PREFIXES[_ServerShell(choices, None).mode] + tail
    whole = _ServerShell(choices, None).drive([stream])
    pieces = random_cuts(stream, choices)
    late = _ServerShell(choices, random.Random(choices)).drive(pieces)
    for name, left, right in zip(Heard._fields, whole, late, strict=True):
        expect_same(right, left, f"{name} of a session in pieces and whole")
    return Outcome(len(whole.events), whole.refused is not None)


class _ServerShell(Shell[ServerSession]):
    def _open(self) -> ServerSession:
        self._late_plays: dict[int, int] = {}
        return ServerSession(nonce=NONCE[:NONCE_BYTES], time_ms=0, settings=SETTINGS, trace=self.trace)

    def _on_event(self, event: Event) -> None:
        session = self.session
        match event:
            case ConnectRequested():
                grants = self.mode > 1 or self.chance.random() < 0.9
                self.owe(session.accept_connect if grants else partial(session.reject_connect, "No."))
            case PublishRequested(stream_id=stream_id):
                self.owe(partial(self._decide_publish, stream_id, grants=self._grants()))
            case PublishEnded(stream_id=stream_id):
                self.media_streams.discard(stream_id)
            case PlayRequested(stream_id=stream_id, is_reset=is_reset):
                if self._grants():
                    session.accept_play(stream_id, is_reset=is_reset, is_recorded=self.chance.random() < 0.5)
                elif self.chance.random() < 0.3:
                    session.reject_play(stream_id, "No.")
                else:
                    self._late_plays[stream_id] = len(self.events) + self.chance.randint(1, 8)
            case PlayEnded(stream_id=stream_id):
                self._late_plays.pop(stream_id, None)
            case SeekRequested(stream_id=stream_id, position_ms=position_ms):
                if self.chance.random() < 0.5:
                    session.accept_seek(stream_id, position_ms)
                else:
                    session.reject_seek(stream_id, "No.")
        self._decide_late_plays()
        if self.chance.random() < 0.1 and session.state is ConnectionState.CONNECTED:
            self.volunteer(self._act)

    def _grants(self) -> bool:
        return self.chance.random() < (0.95 if self.mode > 1 else 0.7)

    def _decide_publish(self, stream_id: int, *, grants: bool) -> None:
        if grants:
            self.session.accept_publish(stream_id)
            self.media_streams.add(stream_id)
        else:
            self.session.reject_publish(stream_id, "No.")

    def _decide_late_plays(self) -> None:
        due = [stream_id for stream_id, event_number in self._late_plays.items() if event_number <= len(self.events)]
        for stream_id in due:
            del self._late_plays[stream_id]
            self.session.accept_play(stream_id)

    def _act(self) -> None:
        """What a shell does by itself: serve viewers, end what goes on, ask for signs of life."""
        session = self.session
        stream_id = self.chance.choice((1, 1, 2, 3))
        match session.stream_state(stream_id):
            case StreamState.PUBLISHING:
                if self.chance.random() < 0.3:
                    session.end_publish(stream_id, "Enough.")
                    self.media_streams.discard(stream_id)
            case StreamState.PLAY_REQUESTED:
                session.notify_published(stream_id)
            case StreamState.PLAYING:
                if self.chance.random() < 0.3:
                    session.end_play(stream_id)
                else:
                    session.send_media(stream_id, self.chance.choice((8, 9)), len(self.events), bytes(200))
            case _:
                session.send_ping(len(self.events))
                session.request_reconnect("Elsewhere.", "rtmp://elsewhere/live")

    def _hang_up(self) -> None:
        self.session.receive_eof()
        for event in events_of(self.session):
            self.events.append(event)
            if isinstance(event, PublishEnded):
                self.media_streams.discard(event.stream_id)
        expect(not self.media_streams, f"publishes without an end on {sorted(self.media_streams)}")
        states = {self.session.stream_state(stream_id) for stream_id in range(SETTINGS.max_message_streams + 2)}
        expect(states <= {StreamState.IDLE, StreamState.DELETED}, f"states after the end: {states}")


SERVER_TARGET = Target("server", make_session("client"), run_server)
