"""What a client session says to a server, and what it makes of the answers."""

import pytest

from penstock.amf import UNDEFINED, AmfValue, write_amf0_values
from penstock.errors import MisuseError, ProtocolViolation
from penstock.protocol.capabilities import RELAY_CAPABILITIES, CapsEx
from penstock.protocol.chunk_writer import write_standalone
from penstock.protocol.client_session import ClientSession
from penstock.protocol.events import (
    CallRefused,
    Connected,
    ConnectRefused,
    DataReceived,
    Event,
    HandshakeCompleted,
    MediaReceived,
    MessageIgnored,
    PlayStarted,
    PublishStarted,
    ReconnectRequested,
    StatusReceived,
    StreamCreated,
    StreamEnded,
    StreamRefused,
)
from penstock.protocol.message import Message
from penstock.protocol.states import ConnectionState, StreamState
from tests.support.independent_rtmp import OracleMessage, command_values
from tests.support.session_runs import events_of, messages_in, new_client


class ScriptedServer:
    """Says to a client session exactly what a test tells it to."""

    def __init__(self) -> None:
        self.client: ClientSession = new_client()
        self._sent = b""
        self._heard = 0
        self.client.data_to_send()
        self.client.receive_data(b"\x03" + bytes(1536) + bytes(1536))
        assert self.events() == [HandshakeCompleted(used_digest=False)]
        self.client.data_to_send()

    def events(self) -> list[Event]:
        return list(events_of(self.client))

    def say(self, message: Message) -> list[Event]:
        self.client.receive_data(write_standalone(message, 128))
        return self.events()

    def answer(self, *values: AmfValue, stream_id: int = 0) -> list[Event]:
        return self.say(Message(20, 0, stream_id, write_amf0_values(*values), 3))

    def status(self, code: str, level: str = "status", stream_id: int = 1) -> list[Event]:
        return self.answer(
            "onStatus", 0.0, None, {"level": level, "code": code, "description": "d"}, stream_id=stream_id
        )

    def heard(self) -> list[OracleMessage]:
        self._sent += self.client.data_to_send()
        messages = messages_in(self._sent)
        new = messages[self._heard :]
        self._heard = len(messages)
        return new

    def heard_commands(self) -> list[tuple[int, list[object]]]:
        return [(m.stream_id, command_values(m)) for m in self.heard() if m.type_id == 20]

    def connected(self) -> "ScriptedServer":
        self.client.connect("live", "rtmp://h/live")
        self.answer("_result", 1.0, {"fmsVer": "FMS/3,0"}, {"code": "NetConnection.Connect.Success"})
        self.heard()
        return self

    def with_stream(self) -> "ScriptedServer":
        self.connected().client.create_stream()
        assert self.answer("_result", 2.0, None, 1.0) == [StreamCreated(1)]
        self.heard()
        return self

    def playing(self) -> "ScriptedServer":
        self.with_stream().client.play(1, "test")
        assert self.status("NetStream.Play.Start") == [PlayStarted(1)]
        self.heard()
        return self

    def publishing(self) -> "ScriptedServer":
        self.with_stream().client.publish(1, "test")
        assert self.status("NetStream.Publish.Start") == [PublishStarted(1)]
        self.heard()
        return self


class TestConnect:
    def test_chunk_size_goes_first_then_connect_in_the_usual_order(self) -> None:
        server = ScriptedServer()
        server.client.connect("live", "rtmp://h/live")
        size, connect = server.heard()
        assert (size.type_id, size.payload.hex()) == (1, "00001000")
        name, transaction_id, properties = command_values(connect)
        assert (name, transaction_id) == ("connect", 1.0)
        assert isinstance(properties, dict)
        assert list(properties) == [
            "app",
            "type",
            "flashVer",
            "tcUrl",
            "fpad",
            "capabilities",
            "audioCodecs",
            "videoCodecs",
            "videoFunction",
            "objectEncoding",
        ]

    def test_capabilities_and_more_are_added(self) -> None:
        server = ScriptedServer()
        server.client.connect("live", "rtmp://h/live", capabilities=RELAY_CAPABILITIES, more={"pageUrl": "x"})
        ((_, values),) = server.heard_commands()
        properties = values[2]
        assert isinstance(properties, dict)
        assert properties["capsEx"] == 15.0
        assert properties["pageUrl"] == "x"

    def test_an_accepted_connect(self) -> None:
        server = ScriptedServer()
        server.client.connect("live", "rtmp://h/live")
        (event,) = server.answer("_result", 1.0, {"fmsVer": "x", "capsEx": 2.0}, {"code": "c"})
        assert isinstance(event, Connected)
        assert event.properties["fmsVer"] == "x"
        assert event.information == {"code": "c"}
        assert event.capabilities.caps_ex == CapsEx.MULTITRACK
        assert server.client.state is ConnectionState.CONNECTED

    @pytest.mark.parametrize(
        "values", [(None, {"code": "c", "description": "d"}), ({"code": "c", "description": "d"},)]
    )
    def test_a_refused_connect(self, values: tuple[AmfValue, ...]) -> None:
        server = ScriptedServer()
        server.client.connect("live", "rtmp://h/live")
        assert server.answer("_error", 1.0, *values) == [ConnectRefused("c", "d")]
        assert server.client.state is ConnectionState.CLOSED

    def test_what_needs_a_connection_is_misuse_without_one(self) -> None:
        server = ScriptedServer()
        for ask in (server.client.create_stream, lambda: server.client.announce_publish("x")):
            with pytest.raises(MisuseError, match="not possible on a connection that is open, before connect"):
                ask()
        with pytest.raises(MisuseError, match="there is no message stream 1"):
            server.client.publish(1, "test")
        server.client.connect("live", "rtmp://h/live")
        with pytest.raises(MisuseError, match="connect is not possible"):
            server.client.connect("live", "rtmp://h/live")

    def test_a_request_to_reconnect(self) -> None:
        server = ScriptedServer().publishing()
        information: dict[str, AmfValue] = {
            "level": "status",
            "code": "NetConnection.Connect.ReconnectRequest",
            "tcUrl": "rtmp://other/live",
            "description": "moving",
        }
        assert server.answer("onStatus", 0.0, None, information) == [ReconnectRequested("rtmp://other/live", "moving")]
        del information["tcUrl"]
        assert server.answer("onStatus", 0.0, None, information) == [ReconnectRequested(None, "moving")]


class TestStreams:
    def test_a_stream_is_made(self) -> None:
        server = ScriptedServer().connected()
        server.client.create_stream()
        assert server.heard_commands() == [(0, ["createStream", 2.0, None])]
        assert server.answer("_result", 2.0, None, 7.0) == [StreamCreated(7)]
        assert server.client.stream_state(7) is StreamState.IDLE

    @pytest.mark.parametrize("values", [(None,), (None, "x"), (None, 0.0), (None, -1.0), (None, 1e300)])
    def test_an_answer_without_a_stream_id_is_a_refusal(self, values: tuple[AmfValue, ...]) -> None:
        server = ScriptedServer().connected()
        server.client.create_stream()
        (event,) = server.answer("_result", 2.0, *values)
        assert isinstance(event, CallRefused)

    def test_an_id_that_is_in_use_is_a_refusal(self) -> None:
        server = ScriptedServer().publishing()
        server.client.create_stream()
        (event,) = server.answer("_result", 3.0, None, 1.0)
        assert isinstance(event, CallRefused)
        assert server.client.stream_state(1) is StreamState.PUBLISHING

    def test_a_refused_call_is_told_by_its_name(self) -> None:
        server = ScriptedServer().connected()
        server.client.create_stream()
        answer: AmfValue = {"code": "NetConnection.Call.Failed", "description": "d"}
        assert server.answer("_error", 2.0, None, answer) == [
            CallRefused("createStream", "NetConnection.Call.Failed", "d")
        ]

    def test_answers_to_nothing_are_ignored(self) -> None:
        server = ScriptedServer().connected()
        assert server.answer("_result", 99.0, None, 1.0) == []
        assert server.answer("_error", 99.0, None) == []
        assert server.answer("onBWDone", 0.0, None, 8192.0) == []
        assert server.answer("onFCPublish", 0.0, None, {"code": "NetStream.Publish.Start"}) == []
        assert server.heard() == []

    def test_an_unknown_call_is_answered(self) -> None:
        server = ScriptedServer().connected()
        server.answer("someVendorThing", 5.0, None)
        assert server.heard_commands() == [(0, ["_result", 5.0, None])]


class TestPublish:
    def test_a_publish_is_announced_asked_for_and_started(self) -> None:
        server = ScriptedServer().connected()
        server.client.announce_publish("test")
        server.client.create_stream()
        assert server.answer("_result", 2.0, None, UNDEFINED) == []
        assert server.answer("_result", 4.0, None, 1.0) == [StreamCreated(1)]
        server.client.publish(1, "test", "record")
        assert server.heard_commands() == [
            (0, ["releaseStream", 2.0, None, "test"]),
            (0, ["FCPublish", 3.0, None, "test"]),
            (0, ["createStream", 4.0, None]),
            (1, ["publish", 0.0, None, "test", "record"]),
        ]
        assert server.status("NetStream.Publish.Start") == [PublishStarted(1)]

    def test_a_status_on_message_stream_0_is_for_the_only_stream(self) -> None:
        server = ScriptedServer().with_stream()
        server.client.publish(1, "test")
        assert server.status("NetStream.Publish.Start", stream_id=0) == [PublishStarted(1)]

    def test_a_refused_publish(self) -> None:
        server = ScriptedServer().with_stream()
        server.client.publish(1, "test")
        assert server.status("NetStream.Publish.BadName", "error") == [
            StreamRefused(1, "NetStream.Publish.BadName", "d")
        ]
        assert server.client.stream_state(1) is StreamState.IDLE

    def test_media_and_data_go_out_on_their_stream(self) -> None:
        server = ScriptedServer().publishing()
        server.client.send_metadata(1, 0, {"width": 64.0})
        server.client.send_media(1, 9, 0, b"\x17\x00")
        server.client.send_media(1, 8, 10, b"\xaf\x00")
        server.client.send_data(1, 20, write_amf0_values("onTextData", "hi"))
        sent = server.heard()
        assert [(m.type_id, m.timestamp, m.stream_id) for m in sent] == [(18, 0, 1), (9, 0, 1), (8, 10, 1), (18, 20, 1)]
        assert sent[0].payload.startswith(b"\x02\x00\x0d@setDataFrame\x02\x00\x0aonMetaData")

    def test_deleting_the_stream_ends_the_publish_as_encoders_do(self) -> None:
        server = ScriptedServer().publishing()
        server.client.delete_stream(1)
        assert server.heard_commands() == [
            (0, ["FCUnpublish", 3.0, None, "test"]),
            (0, ["deleteStream", 0.0, None, 1.0]),
        ]
        assert server.client.stream_state(1) is StreamState.DELETED

    def test_other_statuses_are_told_as_they_are(self) -> None:
        server = ScriptedServer().publishing()
        assert server.status("NetStream.Unpublish.Success") == [
            StatusReceived(1, "status", "NetStream.Unpublish.Success", "d")
        ]
        assert server.status("NetStream.Failed", "error", stream_id=5) == [StreamRefused(1, "NetStream.Failed", "d")]
        assert server.status("NetStream.Failed", "error", stream_id=5) == [
            StatusReceived(5, "error", "NetStream.Failed", "d")
        ]


class TestPlay:
    def test_a_play_is_asked_for_with_a_buffer_length(self) -> None:
        server = ScriptedServer().with_stream()
        server.client.play(1, "test", start=-1.0, buffer_ms=500)
        play, buffer_length = server.heard()
        assert command_values(play) == ["play", 0.0, None, "test", -1.0]
        assert buffer_length.payload.hex() == "000300000001000001f4"

    def test_media_that_comes_before_the_status_is_taken(self) -> None:
        server = ScriptedServer().with_stream()
        server.client.play(1, "test")
        assert server.say(Message(9, 5, 1, b"\x17\x00", 6)) == [MediaReceived(9, 1, 5, b"\x17\x00")]

    def test_media_and_data_of_a_play(self) -> None:
        server = ScriptedServer().playing()
        assert server.say(Message(8, 5, 1, b"\xaf\x01", 4)) == [MediaReceived(8, 1, 5, b"\xaf\x01")]
        payload = write_amf0_values("onMetaData", {"width": 64.0})
        assert server.say(Message(18, 5, 1, payload, 4)) == [DataReceived(1, 5, "onMetaData", payload)]

    @pytest.mark.parametrize(
        "code", ["NetStream.Play.UnpublishNotify", "NetStream.Play.Stop", "NetStream.Play.Complete"]
    )
    def test_the_end_is_told_once(self, code: str) -> None:
        server = ScriptedServer().playing()
        assert server.status(code) == [StreamEnded(1, code)]
        assert server.status("NetStream.Play.Stop") == []
        assert server.say(Message(4, 0, 0, bytes.fromhex("0001 00000001"), 2)) == []
        assert server.say(Message(8, 5, 1, b"a", 4)) == [MessageIgnored(8, 1, "nothing is played on message stream 1")]

    def test_a_stream_eof_is_an_end_but_not_while_paused(self) -> None:
        server = ScriptedServer().playing()
        eof = Message(4, 0, 0, bytes.fromhex("0001 00000001"), 2)
        server.client.pause(1, 1500.0)
        assert server.say(eof) == []
        server.client.unpause(1, 1500.0)
        assert server.say(eof) == [StreamEnded(1, "StreamEOF")]

    def test_what_a_viewer_can_say(self) -> None:
        server = ScriptedServer().playing()
        server.client.pause(1, 1500.0)
        server.client.unpause(1, 1500.0)
        server.client.seek(1, 3000.0)
        server.client.receive_audio(1, is_wanted=False)
        server.client.receive_video(1, is_wanted=True)
        server.client.close_stream(1)
        assert server.heard_commands() == [
            (1, ["pause", 0.0, None, True, 1500.0]),
            (1, ["pause", 0.0, None, False, 1500.0]),
            (1, ["seek", 0.0, None, 3000.0]),
            (1, ["receiveAudio", 0.0, None, False]),
            (1, ["receiveVideo", 0.0, None, True]),
            (1, ["closeStream", 0.0, None]),
        ]
        assert server.client.stream_state(1) is StreamState.IDLE

    def test_a_stream_that_is_not_found(self) -> None:
        server = ScriptedServer().with_stream()
        server.client.play(1, "test")
        assert server.status("NetStream.Play.StreamNotFound", "error") == [
            StreamRefused(1, "NetStream.Play.StreamNotFound", "d")
        ]

    def test_a_violation_of_the_server_names_its_state(self) -> None:
        with pytest.raises(ProtocolViolation, match=r"control: Set Chunk Size 0x0 .*\(connection connected\)"):
            ScriptedServer().playing().say(Message(1, 0, 0, bytes(4), 2))
