"""How a server session takes a connection, its message streams, and calls that change nothing."""

from collections.abc import Callable

import pytest

from penstock.amf import UNDEFINED, AmfValue, write_amf0_values
from penstock.errors import MisuseError, ProtocolViolation
from penstock.protocol.capabilities import CapsEx, FourCcInfo
from penstock.protocol.connection import ConnectionSettings
from penstock.protocol.events import (
    ConnectRequested,
    HandshakeCompleted,
    MessageIgnored,
    PublishRequested,
    StreamOpened,
)
from penstock.protocol.message import Message
from penstock.protocol.states import ConnectionState
from penstock.protocol.status import StatusCode
from tests.support.scripted_client import ScriptedClient


class TestConnect:
    def test_the_answer_is_burst_then_result_in_the_documented_order_and_values(self) -> None:
        client = ScriptedClient()
        client.call("connect", 1.0, {"app": "live", "objectEncoding": 0.0})
        heard = client.heard()
        assert [(m.csid, m.type_id, m.stream_id, m.payload.hex()) for m in heard[:3]] == [
            (2, 5, 0, "002625a0"),
            (2, 6, 0, "002625a002"),
            (2, 1, 0, "00001000"),
        ]
        assert (heard[3].csid, heard[3].type_id, heard[3].stream_id, len(heard)) == (3, 20, 0, 4)
        assert heard[3].payload == bytes.fromhex(
            "02 0007 5F726573756C74  00 3FF0000000000000"
            "03 0006 666D73566572 02 000E 464D532F332C352C372C37303039"
            "   000C 6361706162696C6974696573 00 403F000000000000"
            "   0004 6D6F6465 00 3FF0000000000000 000009"
            "03 0005 6C6576656C 02 0006 737461747573"
            "   0004 636F6465 02 001D 4E6574436F6E6E656374696F6E2E436F6E6E6563742E53756363657373"
            "   000B 6465736372697074696F6E 02 0015 436F6E6E656374696F6E207375636365656465642E"
            "   000E 6F626A656374456E636F64696E67 00 0000000000000000 000009"
        )

    def test_the_shell_is_told_what_the_client_said(self) -> None:
        client = ScriptedClient()
        properties: dict[str, AmfValue] = {
            "app": "/live/inner/?token=x&y",
            "tcUrl": '"rtmp://h/live"',
            "flashVer": "FMLE/3.0",
            "objectEncoding": 3.0,
            "fourCcList": ["hvc1", "av01"],
            "capsEx": 3.0,
            "videoFourCcInfoMap": {"*": 4.0},
        }
        _, event = client.call("connect", 7.0, properties)
        assert isinstance(event, ConnectRequested)
        assert (event.app, event.app_query) == ("live/inner", "token=x&y")
        assert (event.tc_url, event.flash_version, event.object_encoding) == ("rtmp://h/live", "FMLE/3.0", 3)
        assert event.capabilities.four_cc_list == ("hvc1", "av01")
        assert event.capabilities.caps_ex == CapsEx.RECONNECT | CapsEx.MULTITRACK
        assert event.capabilities.video_info("vp09") == FourCcInfo.CAN_FORWARD
        assert event.fault is None

    def test_enhanced_clients_are_told_what_a_relay_can_do(self) -> None:
        client = ScriptedClient()
        client.call("connect", 7.0, {"app": "live", "fourCcList": ["hvc1"], "objectEncoding": 3.0})
        ((_, result),) = client.heard_commands()
        assert result[:2] == ["_result", 7.0]
        for part in result[2:]:
            assert isinstance(part, dict)
            assert part["capsEx"] == 15.0
            assert part["videoFourCcInfoMap"] == {"*": 4.0}
            assert part["audioFourCcInfoMap"] == {"*": 4.0}
        assert isinstance(result[3], dict)
        assert result[3]["objectEncoding"] == 3.0

    @pytest.mark.parametrize("name", ["tcUrl", "tcurl"])
    def test_both_spellings_of_tc_url_are_read(self, name: str) -> None:
        _, event = ScriptedClient().call("connect", 1.0, {"app": "live", name: "rtmp://h/live"})
        assert isinstance(event, ConnectRequested)
        assert event.tc_url == "rtmp://h/live"

    def test_a_connect_without_anything_is_still_asked_about(self) -> None:
        _, event = ScriptedClient().call("connect", 1.0)
        assert isinstance(event, ConnectRequested)
        assert (event.app, event.app_query, event.tc_url, event.flash_version) == ("", None, None, None)

    @pytest.mark.parametrize(
        ("app", "fault"),
        [
            ("a" * 1024 + "?" + "q" * 4096, None),
            ("a" * 1025, "An app name may have 1024 bytes, not 1025."),
            ("é" * 513, "An app name may have 1024 bytes, not 1026."),
            ("live?" + "q" * 4097, "An app query may have 4096 bytes, not 4097."),
            ("live?" + "é" * 2049, "An app query may have 4096 bytes, not 4098."),
        ],
    )
    def test_an_app_or_query_that_is_too_long_is_a_fault_for_the_shell(self, app: str, fault: str | None) -> None:
        client = ScriptedClient()
        client.grants = False
        _, event = client.call("connect", 1.0, {"app": app})
        assert isinstance(event, ConnectRequested)
        assert event.fault == fault
        name, _, query = app.partition("?")
        assert (event.app, event.app_query) == ((name, query) if fault is None else ("", None))
        client.server.reject_connect(event.fault or "no")
        assert client.server.state is ConnectionState.CLOSED

    def test_other_texts_are_cut(self) -> None:
        long = "x" * 20_000
        _, event = ScriptedClient().call("connect", 1.0, {"app": "live", "tcUrl": long, "flashVer": long})
        assert isinstance(event, ConnectRequested)
        assert event.tc_url == event.flash_version == "x" * 1024

    @pytest.mark.parametrize(
        "extra",
        [
            pytest.param("07 0000", id="a reference to the object itself"),
            pytest.param("0E", id="an unknown marker"),
            pytest.param("03 0001 78 FF", id="an unknown marker further in"),
        ],
    )
    def test_a_connect_is_taken_by_the_fields_that_can_be_read(self, extra: str) -> None:
        object_of = b"\x03\x00\x03app\x02\x00\x04live\x00\x01x" + bytes.fromhex(extra) + b"\x00\x00\x09"
        client = ScriptedClient()
        _, event = client.say(Message(20, 0, 0, write_amf0_values("connect", 1.0) + object_of, 3))
        assert isinstance(event, ConnectRequested)
        assert (event.app, event.fault) == ("live", None)
        assert client.heard_codes()[-1] == "NetConnection.Connect.Success"

    def test_a_rejected_connect_is_an_error_and_the_end(self) -> None:
        client = ScriptedClient()
        client.grants = False
        client.call("connect", 1.0, {"app": "nowhere"})
        client.server.reject_connect("no such app", StatusCode.CONNECT_INVALID_APP)
        ((stream_id, error),) = client.heard_commands()
        assert (stream_id, error) == (
            0,
            [
                "_error",
                1.0,
                None,
                {"level": "error", "code": "NetConnection.Connect.InvalidApp", "description": "no such app"},
            ],
        )
        assert client.server.state is ConnectionState.CLOSED
        assert client.call("createStream", 2.0, None) == []
        assert client.heard() == []

    def test_a_second_connect_is_a_violation(self) -> None:
        with pytest.raises(ProtocolViolation, match=r"session: a second connect .*\(connection connected\)"):
            ScriptedClient().connected().call("connect", 1.0, {"app": "live"})

    def test_announcements_may_come_before_connect_but_nothing_happens(self) -> None:
        client = ScriptedClient()
        client.call("releaseStream", 2.0, None, "test")
        client.call("FCPublish", 3.0, None, "test")
        client.call("createStream", 4.0, None)
        client.call("getStreamLength", 0.0, None, "test")
        assert [values[:2] for _, values in client.heard_commands()] == [
            ["_result", 2.0],
            ["_result", 3.0],
            ["onFCPublish", 0.0],
            ["_error", 4.0],
        ]

    @pytest.mark.parametrize("name", ["publish", "play", "play2"])
    def test_publish_and_play_before_connect_are_violations(self, name: str) -> None:
        with pytest.raises(ProtocolViolation, match=f"session: {name} before connect"):
            ScriptedClient().call(name, 0.0, None, "test", stream_id=1)

    @pytest.mark.parametrize("type_id", [8, 9, 15, 18])
    def test_media_and_data_before_connect_are_violations(self, type_id: int) -> None:
        with pytest.raises(ProtocolViolation, match=rf"message \(type {type_id}\) before connect"):
            ScriptedClient().say(Message(type_id, 0, 1, b"\x02\x00\x01x", 4))


class TestStreams:
    def test_create_stream_counts_from_one_and_gives_free_ids_again(self) -> None:
        client = ScriptedClient().connected()
        for transaction_id in (2.0, 3.0):
            client.call("createStream", transaction_id, None)
        client.call("deleteStream", 0.0, None, 1.0)
        assert client.call("createStream", 4.0, None) == [StreamOpened(1)]
        answers = [values for _, values in client.heard_commands()]
        assert answers == [["_result", 2.0, None, 1.0], ["_result", 3.0, None, 2.0], ["_result", 4.0, None, 1.0]]

    def test_message_streams_are_bounded(self) -> None:
        client = ScriptedClient(ConnectionSettings(max_message_streams=2)).connected()
        for transaction_id in (2.0, 3.0, 4.0):
            client.call("createStream", transaction_id, None)
        names = [values[0] for _, values in client.heard_commands()]
        assert names == ["_result", "_result", "_error"]
        client.call("deleteStream", 0.0, None, 2.0)
        assert client.call("createStream", 5.0, None) == [StreamOpened(2)]

    @pytest.mark.parametrize("name", ["publish", "play", "pause", "seek", "receiveAudio"])
    def test_commands_on_a_stream_that_was_never_made_are_violations(self, name: str) -> None:
        with pytest.raises(ProtocolViolation, match=f"{name} on message stream 5, never created"):
            ScriptedClient().with_stream().call(name, 0.0, None, "test", stream_id=5)

    def test_a_publish_on_message_stream_0_is_for_the_only_stream(self) -> None:
        events = ScriptedClient().with_stream().call("publish", 0.0, None, "test", "live", stream_id=0)
        assert events == [PublishRequested(1, "test", None, "live")]


class TestOtherCalls:
    @pytest.mark.parametrize("name", ["_checkbw", "FCUnsubscribe", "someVendorThing"])
    def test_what_wants_an_answer_gets_an_empty_one(self, name: str) -> None:
        client = ScriptedClient().connected()
        assert client.call(name, 9.0, None, "x") == []
        assert client.heard_commands() == [(0, ["_result", 9.0, None])]

    @pytest.mark.parametrize("name", ["_checkbw", "someVendorThing", "_result", "_error", "onStatus", "onBWDone"])
    def test_what_wants_no_answer_gets_none(self, name: str) -> None:
        client = ScriptedClient().connected()
        assert client.call(name, 0.0, None) == []
        assert client.heard() == []

    def test_a_live_stream_has_length_0(self) -> None:
        client = ScriptedClient().connected()
        client.call("getStreamLength", 3.0, None, "test")
        assert client.heard_commands() == [(0, ["_result", 3.0, None, 0.0])]

    def test_fc_subscribe_is_answered_twice(self) -> None:
        client = ScriptedClient().connected()
        client.call("FCSubscribe", 3.0, None, "test")
        assert [values[0] for _, values in client.heard_commands()] == ["_result", "onFCSubscribe"]

    def test_an_amf3_command_is_read_behind_its_format_byte(self) -> None:
        client = ScriptedClient().connected()
        payload = b"\x00" + write_amf0_values("createStream", 2.0, None)
        assert client.say(Message(17, 0, 0, payload, 3)) == [StreamOpened(1)]

    @pytest.mark.parametrize("type_id", [16, 19])
    def test_shared_objects_are_ignored(self, type_id: int) -> None:
        client = ScriptedClient().connected()
        assert client.say(Message(type_id, 0, 0, b"x", 3)) == [
            MessageIgnored(type_id, 0, "shared objects are not kept")
        ]

    @pytest.mark.parametrize("type_id", [7, 10, 99, 255])
    def test_unknown_message_types_are_ignored(self, type_id: int) -> None:
        client = ScriptedClient().connected()
        assert client.say(Message(type_id, 0, 0, b"x", 3)) == [MessageIgnored(type_id, 0, "unknown message type")]

    def test_a_command_that_is_no_amf_is_a_violation_with_layer_and_state(self) -> None:
        with pytest.raises(ProtocolViolation, match=r"amf0: .*\(connection connected\)") as caught:
            ScriptedClient().connected().say(Message(20, 0, 0, b"\x02\xff\xff", 3))
        assert (caught.value.layer, caught.value.state) == ("amf0", "connected")

    def test_a_request_to_reconnect_goes_out_on_message_stream_0(self) -> None:
        client = ScriptedClient().publishing()
        client.server.request_reconnect("moving", "rtmp://other/live")
        client.server.request_reconnect("restarting")
        assert client.heard_commands() == [
            (
                0,
                [
                    "onStatus",
                    0.0,
                    None,
                    {
                        "level": "status",
                        "code": "NetConnection.Connect.ReconnectRequest",
                        "description": "moving",
                        "tcUrl": "rtmp://other/live",
                    },
                ],
            ),
            (
                0,
                [
                    "onStatus",
                    0.0,
                    None,
                    {
                        "level": "status",
                        "code": "NetConnection.Connect.ReconnectRequest",
                        "description": "restarting",
                    },
                ],
            ),
        ]

    def test_a_shutdown_is_announced_as_an_error_on_message_stream_0(self) -> None:
        client = ScriptedClient().publishing()
        client.server.announce_shutdown("bye")
        ((stream_id, values),) = client.heard_commands()
        assert stream_id == 0
        assert values[3] == {"level": "error", "code": "NetConnection.Connect.AppShutdown", "description": "bye"}

    def test_undefined_is_what_announcements_are_answered_with(self) -> None:
        client = ScriptedClient().connected()
        client.call("releaseStream", 2.0, None, "test")
        (message,) = client.heard()
        assert message.payload == write_amf0_values("_result", 2.0, None, UNDEFINED)


class TestViolations:
    def test_after_a_violation_nothing_more_is_read_or_said(self) -> None:
        client = ScriptedClient()
        client.server.receive_data(b"\x83" + bytes(20))
        with pytest.raises(ProtocolViolation, match="type 2 header on unseen chunk stream 3"):
            client.events()
        assert client.server.state is ConnectionState.CLOSED
        client.server.receive_data(bytes(100))
        assert client.events() == []

    def test_a_bad_handshake_names_its_state(self) -> None:
        client = ScriptedClient()
        fresh = type(client.server)(nonce=bytes(1528), time_ms=0)
        with pytest.raises(ProtocolViolation, match=r"handshake: .*\(connection handshaking, "):
            fresh.receive_data(b"\x05")

    def test_decisions_that_were_not_asked_for_are_misuse(self) -> None:
        client = ScriptedClient().with_stream()
        decisions: tuple[Callable[[], None], ...] = (
            client.server.accept_connect,
            lambda: client.server.reject_connect("x"),
            lambda: client.server.accept_publish(1),
            lambda: client.server.reject_publish(1, "x"),
            lambda: client.server.accept_play(1),
            lambda: client.server.reject_play(1, "x"),
            lambda: client.server.end_play(1),
            lambda: client.server.end_play(7),
        )
        for decide in decisions:
            with pytest.raises(MisuseError):
                decide()
        assert client.server.state is ConnectionState.CONNECTED

    def test_the_handshake_is_the_first_event(self) -> None:
        assert ScriptedClient().events() == [HandshakeCompleted(used_digest=False)]
