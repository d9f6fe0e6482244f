"""How a server session takes a publish and its media, and how a publish ends."""

import pytest

from penstock.amf import EcmaArray, write_amf0_values
from penstock.errors import MisuseError
from penstock.protocol.events import (
    DataCleared,
    DataReceived,
    EndReason,
    MediaReceived,
    MessageIgnored,
    PlayEnded,
    PublishEnded,
    PublishRequested,
)
from penstock.protocol.message import Message
from penstock.protocol.states import ConnectionState, StreamState
from penstock.protocol.status import StatusCode
from tests.support.scripted_client import ScriptedClient


class TestPublish:
    def test_the_shell_is_asked_and_the_client_hears_stream_begin_then_start(self) -> None:
        client = ScriptedClient().with_stream()
        events = client.call("publish", 5.0, None, "test?key=1", "record", stream_id=1)
        assert events == [PublishRequested(1, "test", "key=1", "record")]
        begin, status = client.heard()
        assert (begin.type_id, begin.payload.hex()) == (4, "000000000001")
        assert (status.csid, status.stream_id) == (5, 1)
        assert status.payload == bytes.fromhex(
            "02 0008 6F6E537461747573 00 0000000000000000 05"
            "03 0005 6C6576656C 02 0006 737461747573"
            "   0004 636F6465 02 0017 4E657453747265616D2E5075626C6973682E5374617274"
            "   000B 6465736372697074696F6E 02 0010 5075626C697368696E6720746573742E"
            "   0007 64657461696C73 02 0004 74657374 000009"
        )

    def test_nothing_is_read_while_a_publish_is_undecided(self) -> None:
        client = ScriptedClient().with_stream()
        client.grants = False
        client.call("publish", 0.0, None, "test", "live", stream_id=1)
        assert client.server.is_held
        assert client.say(Message(8, 20, 1, b"\xaf\x01a", 4)) == []
        client.server.accept_publish(1)
        assert not client.server.is_held
        assert client.events() == [MediaReceived(8, 1, 20, b"\xaf\x01a")]

    def test_a_rejected_publish_is_an_error_on_its_stream(self) -> None:
        client = ScriptedClient().with_stream()
        client.grants = False
        client.call("publish", 0.0, None, "test", "live", stream_id=1)
        client.server.reject_publish(1, "taken", StatusCode.PUBLISH_BAD_NAME)
        ((stream_id, values),) = client.heard_commands()
        assert (stream_id, values[3]) == (
            1,
            {"level": "error", "code": "NetStream.Publish.BadName", "description": "taken", "details": "test"},
        )
        assert client.say(Message(8, 20, 1, b"\xaf\x01a", 4)) == [
            MessageIgnored(8, 1, "nothing is published on message stream 1")
        ]

    def test_a_publish_without_a_name_is_refused_without_asking(self) -> None:
        client = ScriptedClient().with_stream()
        assert client.call("publish", 0.0, None, "?key", "live", stream_id=1) == []
        assert client.heard_codes() == ["NetStream.Publish.BadName"]
        assert not client.server.is_held

    def test_announcements_are_answered_by_result_and_on_fc_publish(self) -> None:
        client = ScriptedClient().connected()
        client.call("releaseStream", 2.0, None, "test")
        client.call("FCPublish", 3.0, None, "test")
        first, second, third = (values for _, values in client.heard_commands())
        assert first[:3] == ["_result", 2.0, None]
        assert second[:3] == ["_result", 3.0, None]
        assert third[0] == "onFCPublish"
        assert isinstance(third[3], dict)
        assert third[3]["code"] == "NetStream.Publish.Start"

    def test_media_carries_unwrapped_time(self) -> None:
        client = ScriptedClient().publishing()
        events = [client.say(Message(9, time_ms, 1, b"\x17\x01", 6))[0] for time_ms in (0xFFFFFFF0, 0x10, 0x20)]
        assert [event.timestamp_ms for event in events if isinstance(event, MediaReceived)] == [
            0xFFFFFFF0,
            0x1_0000_0010,
            0x1_0000_0020,
        ]

    def test_media_on_message_stream_0_is_for_the_only_publish(self) -> None:
        assert ScriptedClient().publishing().say(Message(8, 5, 0, b"a", 4)) == [MediaReceived(8, 1, 5, b"a")]

    def test_media_on_message_stream_0_is_ignored_where_it_could_be_for_two(self) -> None:
        client = ScriptedClient().publishing()
        client.call("createStream", 4.0, None)
        client.call("publish", 5.0, None, "other", "live", stream_id=2)
        assert client.say(Message(8, 5, 0, b"a", 4)) == [
            MessageIgnored(8, 0, "nothing is published on message stream 0")
        ]

    def test_two_publishes_on_one_connection_are_kept_apart(self) -> None:
        client = ScriptedClient().publishing("one")
        client.call("createStream", 4.0, None)
        client.call("publish", 5.0, None, "two", "live", stream_id=2)
        assert client.say(Message(8, 0xFFFFFFFF, 1, b"a", 4)) == [MediaReceived(8, 1, 0xFFFFFFFF, b"a")]
        assert client.say(Message(8, 5, 2, b"b", 4)) == [MediaReceived(8, 2, 5, b"b")]
        assert client.call("FCUnpublish", 6.0, None, "one") == [PublishEnded(1, "one", EndReason.FC_UNPUBLISH)]
        assert client.say(Message(8, 9, 2, b"c", 4)) == [MediaReceived(8, 2, 9, b"c")]

    def test_data_is_passed_on_without_the_word_to_the_server(self) -> None:
        client = ScriptedClient().publishing()
        metadata = write_amf0_values("onMetaData", EcmaArray({"width": 64.0}))
        payload = write_amf0_values("@setDataFrame") + metadata
        expected = [DataReceived(1, 40, "onMetaData", metadata)]
        assert client.say(Message(18, 40, 1, payload, 4)) == expected
        assert client.say(Message(18, 40, 1, metadata, 4)) == expected
        # AMF3 data has one byte before it, and goes on as AMF0.
        assert client.say(Message(15, 40, 1, b"\x00" + payload, 4)) == expected

    def test_cleared_data_is_told(self) -> None:
        payload = write_amf0_values("@clearDataFrame", "onMetaData")
        assert ScriptedClient().publishing().say(Message(18, 40, 1, payload, 4)) == [DataCleared(1, 40, "onMetaData")]

    def test_data_does_not_move_the_clock(self) -> None:
        client = ScriptedClient().publishing()
        client.say(Message(9, 0xFFFFFFF0, 1, b"\x17\x01", 6))
        (data,) = client.say(Message(18, 0, 1, write_amf0_values("onTextData"), 4))
        assert isinstance(data, DataReceived)
        assert data.timestamp_ms == 0x1_0000_0000
        (media,) = client.say(Message(9, 0xFFFFFFF8, 1, b"\x27\x01", 6))
        assert isinstance(media, MediaReceived)
        assert media.timestamp_ms == 0xFFFFFFF8

    def test_damaged_data_is_ignored_and_the_publish_goes_on(self) -> None:
        client = ScriptedClient().publishing()
        (event,) = client.say(Message(18, 40, 1, b"\x02\xff\xff", 4))
        assert isinstance(event, MessageIgnored)
        assert event.reason.startswith("amf0:")
        assert client.say(Message(8, 5, 1, b"a", 4)) == [MediaReceived(8, 1, 5, b"a")]

    def test_data_where_nothing_is_published_is_ignored(self) -> None:
        (event,) = ScriptedClient().with_stream().say(Message(18, 0, 1, write_amf0_values("onMetaData"), 4))
        assert event == MessageIgnored(18, 1, "nothing is published on message stream 1")

    def test_aggregates_are_split(self) -> None:
        client = ScriptedClient().publishing()
        items = bytes.fromhex("08 000002 0003E8 00 000000 AF01 0000000D") + bytes.fromhex(
            "09 000003 0003F8 00 000000 270100 0000000E"
        )
        assert client.say(Message(22, 5000, 1, items, 4)) == [
            MediaReceived(8, 1, 5000, b"\xaf\x01"),
            MediaReceived(9, 1, 5016, b"\x27\x01\x00"),
        ]

    def test_data_in_an_aggregate_is_data(self) -> None:
        text = write_amf0_values("onTextData")
        part = b"\x12" + len(text).to_bytes(3, "big") + bytes(7) + text + bytes(4)
        assert ScriptedClient().publishing().say(Message(22, 100, 1, part, 4)) == [
            DataReceived(1, 100, "onTextData", text)
        ]

    def test_commands_control_and_aggregates_inside_an_aggregate_do_nothing_and_are_told_once(self) -> None:
        ping = bytes.fromhex("04 000006 000000 00 000000 000600000001 00000011")
        chunk_size = bytes.fromhex("01 000004 000000 00 000000 00000001 0000000F")
        call = write_amf0_values("createStream", 4.0, None)
        command = b"\x14" + len(call).to_bytes(3, "big") + bytes(7) + call + bytes(4)
        inner = bytes.fromhex("08 000001 000000 00 000000 AA 0000000C")
        aggregate = b"\x16" + len(inner).to_bytes(3, "big") + bytes(7) + inner + bytes(4)
        client = ScriptedClient().publishing()
        parts = ping + chunk_size + command * 1000 + inner + aggregate
        assert client.say(Message(22, 100, 1, parts, 4)) == [
            MediaReceived(8, 1, 100, b"\xaa"),
            MessageIgnored(22, 1, "1003 parts that are no audio, video or data"),
        ]
        assert client.heard() == []
        assert client.say(Message(8, 200, 1, bytes(200), 4)) == [MediaReceived(8, 1, 200, bytes(200))]

    def test_an_aggregate_where_nothing_is_published_is_ignored_as_one(self) -> None:
        parts = bytes.fromhex("08 000000 000000 00 000000 0000000B") * 1000
        assert ScriptedClient().with_stream().say(Message(22, 0, 1, parts, 4)) == [
            MessageIgnored(22, 1, "nothing is published on message stream 1")
        ]

    def test_an_ended_publish_is_told_and_its_media_ignored(self) -> None:
        client = ScriptedClient().publishing()
        client.server.end_publish(1, "kicked", StatusCode.PUBLISH_DENIED)
        assert client.heard_codes() == ["NetStream.Publish.Denied"]
        (event,) = client.say(Message(8, 5, 1, b"a", 4))
        assert isinstance(event, MessageIgnored)
        with pytest.raises(MisuseError, match="message stream 1 is not publishing but idle"):
            client.server.end_publish(1, "again")


class TestEnding:
    def test_fc_unpublish_alone_ends_a_publish(self) -> None:
        client = ScriptedClient().publishing()
        assert client.call("FCUnpublish", 6.0, None, "test") == [PublishEnded(1, "test", EndReason.FC_UNPUBLISH)]
        assert client.heard_codes() == ["NetStream.Unpublish.Success", "_result", "NetStream.Unpublish.Success"]

    def test_fc_unpublish_of_another_name_ends_the_only_publish(self) -> None:
        # Encoders differ in whether they repeat the query here.
        client = ScriptedClient().publishing("test")
        assert client.call("FCUnpublish", 0.0, None, "live/test?k") == [PublishEnded(1, "test", EndReason.FC_UNPUBLISH)]

    def test_fc_unpublish_of_nothing_changes_nothing(self) -> None:
        client = ScriptedClient().with_stream()
        assert client.call("FCUnpublish", 6.0, None, "test") == []
        assert client.heard_codes() == ["NetStream.Unpublish.Success", "_result"]

    def test_close_stream_ends_the_publish_and_keeps_the_stream(self) -> None:
        client = ScriptedClient().publishing()
        ended = client.call("closeStream", 0.0, None, stream_id=1)
        assert ended == [PublishEnded(1, "test", EndReason.CLOSE_STREAM)]
        again = client.call("publish", 0.0, None, "other", "live", stream_id=1)
        assert again == [PublishRequested(1, "other", None, "live")]

    def test_delete_stream_ends_the_publish_and_the_stream(self) -> None:
        client = ScriptedClient().publishing()
        ended = client.call("deleteStream", 0.0, None, 1.0)
        assert ended == [PublishEnded(1, "test", EndReason.DELETE_STREAM)]
        assert client.server.stream_state(1) is StreamState.DELETED
        assert client.call("deleteStream", 0.0, None, 1.0) == []
        assert client.call("closeStream", 0.0, None, stream_id=1) == []

    def test_publishing_anew_on_the_same_stream_replaces_what_was_there(self) -> None:
        client = ScriptedClient().publishing("one")
        assert client.call("publish", 0.0, None, "two", "live", stream_id=1) == [
            PublishEnded(1, "one", EndReason.REPLACED),
            PublishRequested(1, "two", None, "live"),
        ]
        assert client.call("play", 0.0, None, "three", stream_id=1)[0] == PublishEnded(1, "two", EndReason.REPLACED)

    def test_a_lost_connection_ends_everything_by_the_same_events(self) -> None:
        client = ScriptedClient().publishing("one")
        client.call("createStream", 4.0, None)
        client.call("play", 0.0, None, "two", stream_id=2)
        client.server.receive_eof()
        assert client.events() == [
            PublishEnded(1, "one", EndReason.CONNECTION_LOST),
            PlayEnded(2, "two", EndReason.CONNECTION_LOST),
        ]
        assert client.server.state is ConnectionState.CLOSED

    def test_a_connection_lost_while_a_publish_is_undecided_ends_it_too(self) -> None:
        client = ScriptedClient().with_stream()
        client.grants = False
        client.call("publish", 0.0, None, "test", "live", stream_id=1)
        client.server.receive_eof()
        assert client.events() == [PublishEnded(1, "test", EndReason.CONNECTION_LOST)]
        with pytest.raises(MisuseError, match="no publish is to be decided on message stream 1"):
            client.server.accept_publish(1)
