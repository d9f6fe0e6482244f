"""Viewers over HTTP beside those over RTMP: what they are sent, where they join and skip, and how they end."""

import pytest

from penstock.media_paths import MediaKind, read_media_path
from penstock.serve.http.live_site import LiveSite
from penstock.serve.http.site import MediaRequest, Stream, Taken, Wait
from penstock.serve.settings import AppSettings, ServerSettings
from tests.serve.fake_peer import audio, media, video
from tests.serve.fakes import FakeTransport
from tests.serve.http.numbered_tokens import NumberedTokens
from tests.serve.streams.stage import Stage
from tests.support.hostile_clients import AUDIO, VIDEO, message

AVC = bytes.fromhex(
    "17 00 000000 01 42c01e ffe1 0019 6742c01ed900a01ff97011000003000100000300320f162e48 01 0004 68cb8cb2"
)
AAC = bytes.fromhex("af 00 1210")
SETUPS = message(VIDEO, AVC, csid=6, stream_id=1), message(AUDIO, AAC, csid=4, stream_id=1)


def asked(
    target: str = "/live/a.flv", headers: dict[bytes, bytes] | None = None, *, is_head: bool = False
) -> MediaRequest:
    path, _, query = target.partition("?")
    media_path = read_media_path(path)
    assert media_path is not None
    return MediaRequest(
        path=media_path,
        stream=media_path.stream,
        parameters=dict(pair.split("=") for pair in query.split("&") if pair),
        credentials="",
        query=query,
        headers=headers or {},
        address="203.0.113.9:4000",
        is_encrypted=False,
        is_head=is_head,
        grant=None,
        cors=b"",
    )


class HttpPeer:
    """Somebody who has asked over HTTP."""

    def __init__(self, on: Stage, target: str = "/live/a.flv", headers: dict[bytes, bytes] | None = None) -> None:
        request = asked(target, headers)
        self.on = on
        self.transport: FakeTransport = on.loop.new_transport()
        self.gone = 0
        site = LiveSite(on.broker, request.path.kind, on.loop, NumberedTokens())
        answer = site.answer(request)
        assert isinstance(answer, Stream)
        answer.begin(Taken(self.transport, request.address, False, b"", self._leave))
        on.loop.settle()

    def _leave(self) -> None:
        self.gone += 1

    @property
    def head(self) -> bytes:
        return bytes(self.transport.output).partition(b"\r\n\r\n")[0]

    @property
    def body(self) -> bytes:
        return bytes(self.transport.output).partition(b"\r\n\r\n")[2]

    def tags(self) -> list[tuple[int, bytes]]:
        """Time and payload of each, without metadata."""
        data, found = self.body, []
        assert data.startswith(b"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00")
        at = 13
        while at < len(data):
            size = int.from_bytes(data[at + 1 : at + 4], "big")
            time_ms = int.from_bytes(data[at + 4 : at + 7], "big")
            payload = data[at + 11 : at + 11 + size]
            assert int.from_bytes(data[at + 11 + size : at + 15 + size], "big") == 11 + size
            if data[at] != 18:
                found.append((time_ms, payload))
            at += 15 + size
        return found


def bodies(peer: HttpPeer) -> list[bytes]:
    return [payload[2 if payload[0] >> 4 == 10 else 5 :] for _, payload in peer.tags() if payload[1] == 1]


def test_one_who_joins_gets_set_up_and_the_newest_key_frame_and_then_all_that_others_get() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(*SETUPS, video(0, b"old", is_key=True), video(1000, b"k1", is_key=True), audio(1005, b"s1"))
    viewer = HttpPeer(on)
    assert viewer.head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert viewer.tags() == [(1000, AVC), (1000, AAC), (1000, b"\x17\x01\x00\x00\x00k1"), (1005, b"\xaf\x01s1")]
    rtmp = on.viewer()
    publisher.say(video(1040, b"i1"))
    assert bodies(viewer)[-1] == b"i1"
    assert media(rtmp.hear())[-1][1].endswith(b"i1")
    assert on.stream().viewers_here == 2
    assert on.notes.heard[-1] == "live/a played"


def test_all_viewers_of_a_kind_share_bytes_and_the_encoding_goes_with_the_last() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(*SETUPS, video(0, b"k", is_key=True))
    viewers = [HttpPeer(on) for _ in range(3)]
    on.fan_out.calls.clear()
    publisher.say(video(40, b"i"))
    assert on.fan_out.calls == [[viewer.transport.descriptor for viewer in viewers]]
    buffers = len(on.store.open_buffers)
    for viewer in viewers:
        assert len(on.stream().encodings) == 1
        viewer.transport.is_ended = True
        on.loop.settle()
        assert (viewer.gone, viewer.transport.is_closed) == (1, True)
    assert on.stream().encodings == {}
    assert not on.stream().has_viewers
    assert len(on.store.open_buffers) == buffers - 1


def test_a_stream_that_is_not_there_is_not_found_or_waited_for() -> None:
    on = Stage()
    impatient, patient = HttpPeer(on), HttpPeer(on, "/live/a.flv?wait_s=5")
    assert impatient.head.startswith(b"HTTP/1.1 404 ")
    assert b"\r\nRetry-After: 1" in impatient.head
    assert impatient.transport.is_closed
    assert patient.transport.output == b""
    on.publisher().say(*SETUPS, audio(0, b"s0"), video(10, b"k", is_key=True))
    assert bodies(patient) == [b"s0", b"k"], "from the very first message on"


@pytest.mark.parametrize("target", ["/live/a.flv", "/live/a.mp4"])
def test_head_says_what_get_would_begin_with_and_takes_no_seat(target: str) -> None:
    on = Stage()
    request = asked(target, is_head=True)
    site = LiveSite(on.broker, request.path.kind, on.loop, NumberedTokens())

    def status() -> bytes:
        wait = site.answer(request)
        on.loop.settle()
        assert isinstance(wait, Wait)
        assert wait.answer is not None
        return wait.answer.head.partition(b"\r\n")[0]

    assert status() == b"HTTP/1.1 404 Not Found"
    on.publisher().say(*SETUPS, video(0, b"k", is_key=True))
    assert status() == b"HTTP/1.1 200 OK"
    assert on.stream().viewers_here == 0
    assert not on.stream().has_viewers


def test_waiting_ends_and_is_no_longer_than_the_app_allows() -> None:
    on = Stage(app=AppSettings(play_wait_s=3.0))
    on.reaper.start()
    viewer = HttpPeer(on, "/live/a.flv?wait_s=500")
    on.loop.advance(2.5)
    assert viewer.transport.output == b""
    on.loop.advance(2.0)
    assert viewer.head.startswith(b"HTTP/1.1 404 ")
    assert viewer.transport.is_closed


def test_too_many_viewers_are_told_to_come_back() -> None:
    on = Stage(app=AppSettings(max_viewers_per_stream=1))
    on.publisher().say(*SETUPS, video(0, b"k", is_key=True))
    on.viewer()
    assert HttpPeer(on).head.startswith(b"HTTP/1.1 503 ")
    assert on.notes.limits == ["viewers per stream"]


def test_one_that_falls_behind_skips_to_a_key_frame_and_gets_no_half_tag() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(*SETUPS, video(0, b"k0", is_key=True))
    viewer = HttpPeer(on)
    viewer.transport.room_bytes = 30
    for second in range(1, 8):
        publisher.say(video(1000 * second, b"k%d" % second + bytes(20_000), is_key=True))
        publisher.say(video(1000 * second + 500, b"i%d" % second + bytes(20_000)))
        on.loop.advance(1.0)
    viewer.transport.room_bytes = 10**9
    on.loop.settle()
    assert on.notes.skipped_bytes > 0
    assert bodies(viewer)[-1].startswith(b"i7")
    assert viewer.tags()


def test_one_that_takes_nothing_is_closed_as_over_rtmp() -> None:
    on = Stage(ServerSettings(slow_viewer_s=4.0))
    on.reaper.start()
    publisher = on.publisher()
    publisher.say(*SETUPS, video(0, b"k0", is_key=True))
    viewer = HttpPeer(on)
    viewer.transport.room_bytes = 0
    publisher.say(video(40, b"i" * 100))
    on.loop.advance(6.0)
    assert viewer.transport.is_closed
    assert "no whole message delivered in 4 s" in on.notes.closings.values()


@pytest.mark.parametrize("target", ["/live/a.flv", "/live/a.mp4"])
def test_the_end_of_the_stream_is_that_of_the_answer(target: str) -> None:
    on = Stage(app=AppSettings(grace_s=0.0))
    publisher = on.publisher()
    publisher.say(*SETUPS, video(0, b"k0", is_key=True))
    viewer = HttpPeer(on, target)
    publisher.transport.is_ended = True
    on.loop.settle()
    assert (viewer.transport.is_closed, viewer.gone) == (True, 1)
    assert on.notes.heard[-2:] == ["live/a closed", "live/a left: stream ended"]


def test_it_goes_on_when_a_lost_publisher_comes_back() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(*SETUPS, video(0, b"k0", is_key=True))
    viewer = HttpPeer(on)
    publisher.transport.is_ended = True
    on.loop.settle()
    assert not viewer.transport.is_closed
    on.loop.advance(1.0)
    on.publisher().say(*SETUPS, video(0, b"k1", is_key=True))
    assert bodies(viewer) == [b"k0", b"k1"]
    times = [time_ms for time_ms, _ in viewer.tags()]
    assert times == sorted(times)
    assert times[-1] >= 900


def test_mp4_begins_with_an_init_segment_and_a_codec_that_changes_ends_it() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(*SETUPS, video(0, b"k0", is_key=True), audio(5, b"s0"))
    viewer = HttpPeer(on, "/live/a.mp4")
    assert b"\r\nContent-Type: video/mp4\r\n" in viewer.head
    assert viewer.body[4:8] == b"ftyp"
    assert viewer.body.endswith(b"mdats0")
    publisher.say(*SETUPS, video(40, b"i0"))
    assert viewer.body.endswith(b"mdati0")
    publisher.say(message(AUDIO, b"\xaf\x00\x11\x90", csid=4, stream_id=1), audio(45, b"s1"))
    assert viewer.transport.is_closed
    assert viewer.body.endswith(b"mdati0")
    publisher.say(video(1000, b"k1", is_key=True))
    assert HttpPeer(on, "/live/a.mp4").body.endswith(b"mdatk1")


def test_what_mp4_cannot_carry_is_named_in_the_head_and_alone_it_is_refused() -> None:
    on = Stage()
    publisher = on.publisher()
    vp6 = message(VIDEO, b"\x14\x00picture", csid=6, stream_id=1)
    publisher.say(SETUPS[1], vp6, audio(5, b"s0"))
    viewer = HttpPeer(on, "/live/a.mp4")
    assert b"\r\nPenstock-Left-Out: VP6 video: " in viewer.head
    alone = Stage()
    alone.publisher().say(vp6)
    assert HttpPeer(alone, "/live/a.mp4").head.startswith(b"HTTP/1.1 503 ")


def test_a_websocket_gets_a_tag_in_a_message_a_pong_between_and_a_close_at_the_end() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(*SETUPS, video(0, b"k0", is_key=True))
    headers = {
        b"upgrade": b"websocket",
        b"sec-websocket-version": b"13",
        b"sec-websocket-key": b"dGhlIHNhbXBsZSBub25jZQ==",
    }
    viewer = HttpPeer(on, headers=headers)
    assert viewer.head.startswith(b"HTTP/1.1 101 ")
    assert b"\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in viewer.head
    assert viewer.body.startswith(b"\x82\x0dFLV\x01\x05")
    viewer.transport.feed(b"\x89\x80\x00\x00\x00\x00")
    on.loop.settle()
    assert viewer.body.endswith(b"\x8a\x00")
    publisher.say(video(40, b"i0"))
    assert viewer.body.endswith(
        b"\x82\x16\x09" + bytes.fromhex("000007 000028 00 000000 2701000000") + b"i0\x00\x00\x00\x12"
    )
    on.broker.say_goodbye()
    on.loop.settle()
    assert viewer.body.endswith(b"\x88\x02\x03\xe8") or viewer.body.endswith(b"\x88\x02\x03\xe9")
    assert viewer.transport.is_closed


def test_one_that_sends_what_nobody_asked_for_is_closed() -> None:
    on = Stage()
    on.publisher().say(*SETUPS, video(0, b"k0", is_key=True))
    viewer = HttpPeer(on)
    viewer.transport.feed(bytes(100_000))
    on.loop.settle()
    assert viewer.transport.is_closed
    assert "sends what nobody has asked for" in on.notes.closings.values()


def test_kinds_of_addresses_have_a_site_each() -> None:
    on = Stage()
    assert LiveSite(on.broker, MediaKind.MP4, on.loop, NumberedTokens())
