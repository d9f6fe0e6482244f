"""The client session under a server that sends anything, from the first byte or into a publish or play under way."""

from functools import partial
from typing import Final

from tests.support.cuts import random_cuts
from tests.support.independent_rtmp import HANDSHAKE_BYTES, OracleMessage

from fuzz import corpus
from fuzz.chunks import write_plain
from fuzz.outcome import Outcome, Target, expect, expect_same, split_input
from fuzz.protocol_targets import NONCE
from fuzz.session_run import SETTINGS, Heard, Shell, make_session
from penstock.protocol.client_session import ClientSession
from penstock.protocol.events import (
    Connected,
    Event,
    HandshakeCompleted,
    PlayStarted,
    PublishStarted,
    StreamCreated,
    StreamEnded,
    StreamRefused,
)
from penstock.protocol.handshake import NONCE_BYTES
from penstock.protocol.states import ConnectionState, StreamState

_HANDSHAKE: Final = b"\x03" + bytes(HANDSHAKE_BYTES - 1)
_CONNECTED: Final = (0, corpus.golden_command("result of connect"))
_CREATED: Final = (0, corpus.golden_command("result of createStream"))
_PLAYS_IN_MODE: Final = 5
_SCRIPTS: Final = (
    (_CONNECTED,),
    (_CONNECTED, _CREATED),
    (_CONNECTED, _CREATED, (1, corpus.status("NetStream.Publish.Start"))),
    (_CONNECTED, _CREATED, (1, corpus.status("NetStream.Play.Start"))),
)
_PREFIXES: Final = (
    b"",
    _HANDSHAKE,
    *(_HANDSHAKE + write_plain([OracleMessage(3, 0, 20, at, text) for at, text in script]) for script in _SCRIPTS),
)


def run_client(data: bytes) -> Outcome:
    """A session fed whole, and one fed in pieces."""
    choices, tail = split_input(data)
    stream = _PREFIXES[_ClientShell(choices, None).mode] + tail
    whole = _ClientShell(choices, None).drive([stream])
    cut = _ClientShell(choices, None).drive(random_cuts(stream, choices))
    for name, left, right in zip(Heard._fields, whole, cut, strict=True):
        expect_same(right, left, f"{name} of a session in pieces and whole")
    return Outcome(len(whole.events), whole.refused is not None)


class _ClientShell(Shell[ClientSession]):
    def _open(self) -> ClientSession:
        signs = self.chance.random() < 0.5
        return ClientSession(nonce=NONCE[:NONCE_BYTES], time_ms=0, digest=signs, settings=SETTINGS, trace=self.trace)

    def _on_event(self, event: Event) -> None:
        session = self.session
        match event:
            case HandshakeCompleted():
                self.volunteer(partial(session.connect, "live", "rtmp://127.0.0.1/live"))
            case Connected():
                # The answers in the prefixes are to the transactions of a client that announces.
                if self.mode > 1 or self.chance.random() < 0.5:
                    self.volunteer(partial(session.announce_publish, "test"))
                self.volunteer(session.create_stream)
            case StreamCreated(stream_id=stream_id):
                # The server may give an id twice; what the first was for is then forgotten.
                self.media_streams.discard(stream_id)
                self._begin(stream_id)
            case StreamEnded(stream_id=stream_id) | StreamRefused(stream_id=stream_id):
                self.media_streams.discard(stream_id)
                self._after_end(stream_id)
            case PublishStarted(stream_id=stream_id):
                self.volunteer(partial(session.send_metadata, stream_id, 0, "onMetaData", {"width": 640.0}))
                self.volunteer(partial(session.send_media, stream_id, 9, 40, bytes(200)))
            case PlayStarted(stream_id=stream_id):
                self.volunteer(partial(session.receive_audio, stream_id, is_wanted=False))
        if self.chance.random() < 0.1:
            self.volunteer(self._act)

    def _begin(self, stream_id: int) -> None:
        plays = self.mode == _PLAYS_IN_MODE if self.mode > 3 else self.chance.random() < 0.5
        if plays:
            self.volunteer(partial(self.session.play, stream_id, "test"))
            self.media_streams.add(stream_id)
        else:
            self.volunteer(partial(self.session.publish, stream_id, "test"))

    def _after_end(self, stream_id: int) -> None:
        dice = self.chance.random()
        if dice < 0.3:
            self.volunteer(partial(self.session.delete_stream, stream_id))
        elif dice < 0.6:
            self._begin(stream_id)

    def _act(self) -> None:
        """What a shell does by itself."""
        session = self.session
        if session.state is not ConnectionState.CONNECTED:
            return
        match session.stream_state(1):
            case StreamState.PLAYING:
                session.pause(1, 1000.0)
            case StreamState.PAUSED:
                session.unpause(1, 1000.0)
                session.seek(1, 2000.0)
            case StreamState.PUBLISHING if self.chance.random() < 0.5:
                session.close_stream(1)
            case StreamState.IDLE if self.chance.random() < 0.5:
                session.delete_stream(1)
            case _:
                session.send_ping(len(self.events))

    def _hang_up(self) -> None:
        self.session.close()
        expect(
            self.session.next_event() is None or self.session.state is ConnectionState.CLOSED, "events after a close"
        )


CLIENT_TARGET = Target("client", make_session("server"), run_client)
