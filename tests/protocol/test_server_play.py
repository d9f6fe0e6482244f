"""How a server session serves a viewer."""

import pytest

from penstock.protocol.events import (
    BufferLengthSet,
    EndReason,
    PauseChanged,
    PlayEnded,
    PlayRequested,
    PlayStart,
    ReceiveChanged,
    SeekRequested,
)
from penstock.protocol.message import Message
from tests.support.scripted_client import ScriptedClient


class TestPlay:
    def test_the_answer_is_begin_start_and_sample_access(self) -> None:
        client = ScriptedClient().with_stream()
        (event,) = client.call("play", 0.0, None, "test?viewer=7", -2.0, -1.0, False, stream_id=1)
        assert event == PlayRequested(1, "test", "viewer=7", PlayStart.LIVE_OR_RECORDED, None, None, is_reset=False)
        heard = client.heard()
        assert [m.type_id for m in heard] == [4, 20, 18]
        assert heard[0].payload.hex() == "000000000001"
        assert heard[2].payload == b"\x02\x00\x11|RtmpSampleAccess\x01\x01\x01\x01"
        assert {m.stream_id for m in heard[1:]} == {1}

    def test_reset_and_recorded_are_told_where_they_are_so(self) -> None:
        client = ScriptedClient().with_stream()
        client.grants = False
        client.call("play", 0.0, None, "test", 5000.0, 9.0, True, stream_id=1)
        client.server.accept_play(1, is_reset=True, is_recorded=True)
        assert client.heard_codes() == [
            "event 0",
            "event 4",
            "NetStream.Play.Reset",
            "NetStream.Play.Start",
            "type 18",
        ]

    @pytest.mark.parametrize(
        ("start", "expected"),
        [
            (-2.0, (PlayStart.LIVE_OR_RECORDED, None)),
            (-2000.0, (PlayStart.LIVE_OR_RECORDED, None)),
            (-1.0, (PlayStart.LIVE, None)),
            (-1000.0, (PlayStart.LIVE, None)),
            (0.0, (PlayStart.RECORDED, 0)),
            (1500.5, (PlayStart.RECORDED, 1500)),
        ],
    )
    def test_where_a_play_starts(self, start: float, expected: tuple[PlayStart, int | None]) -> None:
        (event,) = ScriptedClient().with_stream().call("play", 0.0, None, "test", start, 9.5, stream_id=1)
        assert isinstance(event, PlayRequested)
        assert (event.start, event.start_ms) == expected
        assert event.duration_ms == 9

    def test_a_play_may_wait_while_other_things_go_on(self) -> None:
        client = ScriptedClient().with_stream()
        client.grants = False
        client.call("play", 0.0, None, "test", stream_id=1)
        assert not client.server.is_held
        assert client.say(Message(4, 0, 0, bytes.fromhex("0003 00000001 00000BB8"), 2)) == [BufferLengthSet(1, 3000)]
        client.server.accept_play(1)
        client.server.notify_published(1)
        assert client.heard_codes()[-1] == "NetStream.Play.PublishNotify"

    def test_a_rejected_play_is_an_error(self) -> None:
        client = ScriptedClient().with_stream()
        client.grants = False
        client.call("play", 0.0, None, "test", stream_id=1)
        client.server.reject_play(1, "no such stream")
        ((stream_id, values),) = client.heard_commands()
        assert stream_id == 1
        assert values[3] == {
            "level": "error",
            "code": "NetStream.Play.StreamNotFound",
            "description": "no such stream",
            "details": "test",
        }

    def test_a_play_without_a_name_is_refused_without_asking(self) -> None:
        client = ScriptedClient().with_stream()
        assert client.call("play", 0.0, None, stream_id=1) == []
        assert client.heard_codes() == ["NetStream.Play.StreamNotFound"]

    def test_the_end_of_a_stream_is_told_in_three_ways(self) -> None:
        client = ScriptedClient().playing()
        client.server.end_play(1)
        assert client.heard_codes() == ["NetStream.Play.UnpublishNotify", "event 1", "NetStream.Play.Stop"]

    def test_play2_switches_the_stream(self) -> None:
        events = ScriptedClient().playing("one").call("play2", 0.0, None, {"streamName": "two"}, stream_id=1)
        assert events[0] == PlayEnded(1, "one", EndReason.REPLACED)
        assert isinstance(events[1], PlayRequested)
        assert events[1].name == "two"

    def test_pause_and_unpause_are_answered_and_told_once(self) -> None:
        client = ScriptedClient().playing()
        assert client.call("pause", 0.0, None, True, 1500.0, stream_id=1) == [PauseChanged(1, True, 1500)]
        assert client.call("pauseRaw", 0.0, None, 1.0, 1500.0, stream_id=1) == []
        assert client.call("pause", 0.0, None, False, 1500.0, stream_id=1) == [PauseChanged(1, False, 1500)]
        assert client.heard_codes() == ["NetStream.Pause.Notify", "event 1", "NetStream.Unpause.Notify", "event 0"]

    @pytest.mark.parametrize("name", ["pause", "seek"])
    def test_pause_and_seek_where_nothing_plays_are_refused(self, name: str) -> None:
        client = ScriptedClient().publishing()
        assert client.call(name, 0.0, None, 1.0, 1.0, stream_id=1) == []
        assert client.heard_codes() == ["NetStream.Failed"]

    def test_a_seek_is_the_shells_to_decide(self) -> None:
        client = ScriptedClient().playing()
        assert client.call("seek", 0.0, None, 2500.0, stream_id=1) == [SeekRequested(1, 2500)]
        client.server.accept_seek(1, 2000)
        client.server.reject_seek(1, "live")
        assert client.heard_codes() == ["NetStream.Seek.Notify", "NetStream.Play.Start", "NetStream.Seek.Failed"]

    def test_audio_and_video_can_be_switched(self) -> None:
        client = ScriptedClient().playing()
        assert client.call("receiveAudio", 0.0, None, False, stream_id=1) == [ReceiveChanged(1, 8, is_wanted=False)]
        assert client.call("receiveVideo", 0.0, None, True, stream_id=1) == [ReceiveChanged(1, 9, is_wanted=True)]
