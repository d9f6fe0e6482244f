"""Requests to streams and views: who is a viewer, for how long, where the stream is, and who is refused."""

# Long because: a view is shown by all that asks about it, one worker beside another.

from itertools import pairwise
from urllib.parse import parse_qsl, urljoin

import pytest

from penstock.access.request import AccessRequest, Allowed
from penstock.control.live import SentAway
from penstock.media.frame import FrameKind
from penstock.media_paths import read_media_path
from penstock.relay.log import StreamLog
from penstock.relay.readable_log import Flush
from penstock.serve.http.answers import AnswerTable
from penstock.serve.http.hls.site import HlsSite
from penstock.serve.http.hls.views import View
from penstock.serve.http.requests import Traits
from penstock.serve.http.site import Answer, MediaRequest, Wait
from penstock.serve.settings import AppSettings, HlsSettings, ServerSettings
from penstock.serve.streams.access.gatekeeper import EXPIRED
from penstock.serve.streams.access.grant import Grant
from penstock.serve.streams.publisher import NoPulls
from tests.relay.packaging.stage import steady
from tests.serve.fake_peer import FakePeer
from tests.serve.http.hls.channel_stage import body_of, data_of, status_of
from tests.serve.http.numbered_tokens import NumberedTokens
from tests.serve.streams.stage import Stage
from tests.serve.streams.two_workers import TwoWorkers
from tests.support.hls_checker import read_playlist
from tests.support.hostile_clients import AUDIO, VIDEO, message

PATH = "/live/a.m3u8"
LOW = "/live/a/low.m3u8"
HLS = HlsSettings(playlist_ms=8000)


def publish(peer: FakePeer, seconds: float, since_s: float = 0.0, gop: int = 60, sound_ahead_ms: int = 0) -> None:
    """In the time of the loop, each frame when it is due."""
    for frame in steady(seconds, gop=gop):
        if not frame.is_setup and frame.timestamp_ms < 1000 * since_s:
            continue
        is_video = frame.kind is FrameKind.VIDEO
        kind, csid = (VIDEO, 6) if is_video else (AUDIO, 4)
        time_ms = frame.timestamp_ms + (0 if is_video else sound_ahead_ms)
        peer.say(message(kind, frame.payload, csid=csid, stream_id=1, time_ms=time_ms))
        peer.loop.advance(max(0.0, 1000.0 + frame.timestamp_ms / 1000 - peer.loop.now))


class Listening:
    descriptor = 0
    takes_shared_bytes = True

    def take_answer(self, answer: Answer, sent_bytes: int = 0) -> None:
        raise AssertionError("the front's matter")


class Site:
    """The site of one worker, and what is asked of it."""

    def __init__(self, on: Stage) -> None:
        self.on = on
        self.table = AnswerTable()
        tokens = NumberedTokens()
        self.site = HlsSite(on.broker, self.table, on.loop, secret=b"secret", cors_of=lambda _app: b"", tokens=tokens)

    def ask(
        self, url: str, agent: str = "player", address: str = "192.0.2.9:1000", grant: Grant | None = None
    ) -> Answer | Wait:
        path, _, query = url.partition("?")
        media = read_media_path(path)
        assert media is not None, url
        request = MediaRequest(
            path=media,
            stream=media.stream,
            parameters=dict(parse_qsl(query, keep_blank_values=True)),
            credentials="",
            query=query,
            headers={b"user-agent": agent.encode()},
            address=address,
            is_encrypted=False,
            is_head=False,
            grant=grant,
            cors=b"",
        )
        answer = self.site.answer(request)
        if isinstance(answer, Wait):
            answer.waiters[Listening()] = None
        self.on.loop.settle()
        return answer

    def text(self, url: str = LOW, agent: str = "player") -> str:
        return body_of(self.ask(url, agent)).decode()

    @property
    def views(self) -> list[View]:
        return [viewer for viewer in self.on.stream().viewers if isinstance(viewer, View)]

    def hit(self, url: str, agent: str = "player") -> Answer | Wait | None:
        """What the table answers."""
        laid = self.table.get(b"GET %s HTTP/1.1" % url.encode())
        if laid is None or laid.on_hit is None:
            return None
        traits = Traits({b"user-agent": agent.encode()}, stays_open=True)
        return laid.answer if laid.on_hit("192.0.2.9:1000", traits) else None


@pytest.fixture
def on() -> Site:
    """A stream of some seconds."""
    stage = Stage(ServerSettings(hls=HLS, app=lambda _name: AppSettings(grace_s=0.0)))
    publish(stage.publisher(), 4.5)
    return Site(stage)


class NotingPuller(NoPulls):
    """Would fetch anything."""

    def __init__(self, wanted: list[str]) -> None:
        self._wanted = wanted

    def may_pull(self, key: str) -> bool:
        return True

    def want(self, key: str, app_name: str, via: tuple[str, ...]) -> None:
        self._wanted.append(key)


def granted(subject: str) -> Grant:
    """What a token of somebody lets in."""
    request = AccessRequest(action="play", app="live", stream="a", protocol="hls", peer_ip="192.0.2.9")
    return Grant(request, Allowed("jwt", subject, "a", None), 0)


def told(on: Site) -> list[str]:
    return [each for each in on.on.notes.heard if "played" in each or "left" in each]


def test_who_asks_for_a_playlist_is_a_viewer_until_nothing_was_asked_for_during_three_target_durations(
    on: Site,
) -> None:
    assert "low.m3u8" in on.text(PATH)
    assert on.text()
    assert told(on) == ["live/a played"]
    assert on.on.stream().all_viewers == 1
    on.on.loop.advance(5.0)
    on.text()
    on.on.loop.advance(5.0)
    assert told(on) == ["live/a played"]
    on.on.loop.advance(2.5)
    assert told(on) == ["live/a played", "live/a left: no request"]
    assert on.on.stream().all_viewers == 0
    assert on.site.channels == 0
    assert on.on.broker.connections.keys() == {on.on.stream().publisher.id}  # type: ignore[union-attr]


def test_who_waits_for_the_first_segment_of_a_stream_is_a_viewer_meanwhile() -> None:
    stage = Stage(ServerSettings(hls=HLS, app=lambda _name: AppSettings(grace_s=0.0)))
    publisher = stage.publisher()
    publish(publisher, 0.5, gop=1000)
    on = Site(stage)
    wait = on.ask(PATH)
    publish(publisher, 9.5, 0.5, gop=1000)
    assert isinstance(wait, Wait)
    assert (wait.answer, told(on)) == (None, ["live/a played"])
    publish(publisher, 10.5, 9.5, gop=1000)
    assert status_of(wait) == 200
    assert told(on) == ["live/a played"]


class Flushes:
    """A published stream, and how often it is flushed while it goes on."""

    def __init__(self) -> None:
        self.stage = Stage(ServerSettings(hls=HLS, app=lambda _name: AppSettings(grace_s=0.0)))
        self.publisher = self.stage.publisher()
        publish(self.publisher, 4.5)
        self._at: list[float] = []
        self.stage.stream().listeners.append(self)
        self._since_s = 4.5

    def on_flush(self, flush: Flush, now: float) -> None:
        self._at.append(now)

    def intervals_ms(self, seconds: float) -> list[int]:
        """Between those of so many seconds more."""
        publish(self.publisher, self._since_s + 0.4, self._since_s)
        self._at.clear()
        publish(self.publisher, self._since_s + 0.4 + seconds, self._since_s + 0.4)
        self._since_s += 0.4 + seconds
        return [round(1000 * (later - earlier)) for earlier, later in pairwise(self._at)]


def test_a_stream_that_is_watched_by_hls_alone_is_flushed_when_a_part_is_whole() -> None:
    flushes = Flushes()
    on = Site(flushes.stage)
    on.text()
    intervals = flushes.intervals_ms(2.1)
    assert len(intervals) >= 9
    assert all(180 <= each <= 220 for each in intervals), intervals


def test_a_stream_that_somebody_watches_by_rtmp_is_flushed_frame_by_frame_also_beside_hls() -> None:
    flushes = Flushes()
    Site(flushes.stage).text()
    viewer = flushes.stage.viewer()
    assert max(flushes.intervals_ms(1.0)) < 50
    viewer.connection.close("of the test")
    assert min(flushes.intervals_ms(1.0)) >= 180


def test_what_is_laid_out_leaves_half_of_all_memory_to_logs() -> None:
    stage = Stage(ServerSettings(hls=HLS, app=lambda _name: AppSettings(grace_s=0.0)))
    stage.broker.budget.max_bytes = 200_000
    publishers = {name: stage.publisher(name) for name in ("a", "b")}
    on = Site(stage)
    for second in range(1, 20):
        for name, publisher in publishers.items():
            publish(publisher, second, second - 1.0)
            on.ask(f"/live/{name}/classic.m3u8")
        assert stage.broker.budget.used_bytes <= 200_000
    for name in publishers:
        text = on.text(f"/live/{name}/classic.m3u8")
        assert len(read_playlist(text).segments) > 1
        assert on.site.channels == 2
        assert stage.stream(name).log.points.newest is not None, "who joins over RTMP finds a key frame"


def test_a_view_ends_in_time_where_sound_and_pictures_are_a_day_apart() -> None:
    stage = Stage(ServerSettings(hls=HLS, app=lambda _name: AppSettings(grace_s=0.0)))
    publish(stage.publisher(), 4.5, sound_ahead_ms=24 * 3600 * 1000)
    on = Site(stage)
    assert on.text()
    on.on.loop.advance(300)
    assert told(on) == ["live/a played", "live/a left: no request"]
    assert on.site.channels == 0


def test_address_user_agent_and_stream_make_a_view(on: Site) -> None:
    for agent, address in (("a", "192.0.2.1:1"), ("a", "192.0.2.1:2"), ("b", "192.0.2.1:1"), ("a", "192.0.2.2:1")):
        on.ask(PATH, agent, address)
    assert told(on) == ["live/a played"] * 3


def test_a_view_was_sent_what_was_answered_and_begins_with_the_first_part(on: Site) -> None:
    answers = [on.ask(PATH), on.ask(LOW)]
    (view,) = on.views
    assert view.first_frame_at is None
    part = read_playlist(body_of(answers[1]).decode()).all_parts[0].uri
    answers.append(on.ask(urljoin(LOW, part)))
    assert view.first_frame_at == on.on.loop.now
    assert view.sent_bytes == sum(len(data_of(answer)) for answer in answers)


def test_what_the_table_answers_counts_too_and_keeps_the_view(on: Site) -> None:
    text = on.text()
    (view,) = on.views
    before = view.sent_bytes
    part = urljoin(LOW, read_playlist(text).all_parts[0].uri)
    assert on.hit(part, "a stranger") is None
    on.on.loop.advance(4.0)
    assert data_of(on.hit(part)) == data_of(on.ask(part, "another"))
    assert view.sent_bytes - before == len(data_of(on.hit(part)))
    assert view.seen_at == on.on.loop.now


def test_what_is_waited_for_counts_when_it_is_there(on: Site) -> None:
    playlist = read_playlist(on.text())
    (view,) = on.views
    before = view.sent_bytes
    newest = playlist.open_segment
    assert newest is not None
    query = f"?_HLS_msn={newest.number}&_HLS_part={len(newest.parts)}"
    assert playlist.hint is not None
    waits = [on.hit(LOW + query), on.hit(urljoin(LOW, playlist.hint))]
    assert all(isinstance(wait, Wait) for wait in waits)
    for wait in waits:
        assert isinstance(wait, Wait)
        wait.waiters[Listening()] = None
    for frame in steady(4.8):
        if frame.timestamp_ms > 4500:
            kind = VIDEO if frame.kind is FrameKind.VIDEO else AUDIO
            on.on.stream().take_media(kind, frame.timestamp_ms, frame.payload, on.on.loop.now)
    on.on.loop.advance(0.3)
    assert view.sent_bytes - before == sum(len(data_of(wait)) for wait in waits)


def test_a_stream_that_nobody_publishes_is_not_found_or_waited_for() -> None:
    site = Site(Stage(ServerSettings(hls=HLS)))
    assert status_of(site.ask(PATH)) == 404
    waiting = site.ask(f"{PATH}?wait_s=20")
    assert isinstance(waiting, Wait)
    assert waiting.answer is None
    publish(site.on.publisher(), 2.5)
    assert "live/a played" in site.on.notes.heard
    assert site.site.channels == 1
    listener = site.ask(LOW)
    assert body_of(listener)


def test_who_waited_too_long_is_told_so() -> None:
    site = Site(Stage(ServerSettings(hls=HLS, app=lambda _name: AppSettings(play_wait_s=5.0))))
    site.on.reaper.start()
    waiting = site.ask(f"{PATH}?wait_s=20")
    assert isinstance(waiting, Wait)
    site.on.loop.advance(6.5)
    assert status_of(waiting) == 404
    assert site.site.channels == 0
    assert site.on.broker.connections == {}


def test_segments_alone_hold_the_stream_and_make_no_viewer_that_is_told_of(on: Site) -> None:
    segment = urljoin(LOW, read_playlist(on.text()).segments[0].uri or "")
    on.on.loop.advance(9.0)
    on.on.notes.heard.clear()
    assert on.site.channels == 0
    waiting = on.ask(segment)
    assert isinstance(waiting, Wait) or body_of(waiting)
    assert body_of(on.ask(segment))
    assert told(on) == []
    on.text()
    assert told(on) == ["live/a played"]


def test_a_name_of_another_publication_begins_nothing(on: Site) -> None:
    assert status_of(on.ask(f"/live/a/{'0' * 32}/s1000.m4s")) == 404
    assert on.site.channels == 0


def test_a_name_is_neither_waited_for_nor_fetched_from_another_server_since_nobody_was_asked_about_it() -> None:
    site = Site(Stage(ServerSettings(hls=HLS)))
    wanted: list[str] = []
    site.on.broker.table.puller = NotingPuller(wanted)
    assert status_of(site.ask(f"/live/a/{'0' * 32}/s1000.m4s?wait_s=5")) == 404
    assert wanted == []
    assert site.site.channels == 0
    site.ask(LOW)
    assert wanted == ["live/a"]


def test_one_who_was_sent_away_is_refused_for_a_minute(on: Site) -> None:
    part = urljoin(LOW, read_playlist(on.text()).all_parts[0].uri)
    on.text(agent="another")
    view = next(view for view in on.views if view.caller.client == "player")
    on.on.broker.playing.end(view, "kicked")
    assert told(on)[-1] == "live/a left: kicked"
    assert on.hit(part) is None
    assert [status_of(on.ask(url)) for url in (PATH, LOW, part)] == [403, 403, 403]
    assert on.text(agent="another")
    on.on.loop.advance(50.0)
    assert status_of(on.ask(PATH)) == 403
    on.on.loop.advance(11.0)
    assert on.text(PATH)


def test_who_was_sent_away_is_a_view_and_not_everybody_with_such_a_player_behind_an_address(on: Site) -> None:
    part = urljoin(LOW, read_playlist(body_of(on.ask(LOW, grant=granted("ada"))).decode()).all_parts[0].uri)
    on.ask(LOW, grant=granted("bob"))
    on.on.broker.playing.end(next(view for view in on.views if view.subject == "ada"), "kicked")
    assert status_of(on.ask(LOW, grant=granted("ada"))) == 403
    assert [status_of(on.ask(LOW, grant=granted("bob"))), status_of(on.ask(part))] == [200, 200]


def test_one_who_was_sent_away_is_so_in_all_workers(on: Site) -> None:
    other = Site(Stage(ServerSettings(hls=HLS, app=lambda _name: AppSettings(grace_s=0.0))))
    publish(other.on.publisher(), 4.5)
    told_others: list[SentAway] = []

    def tell(message: SentAway) -> None:
        told_others.append(message)
        for each in (on, other):
            each.site.sent_away(message)

    on.site.tell_sent_away = other.site.tell_sent_away = tell
    part = urljoin(LOW, read_playlist(on.text()).all_parts[0].uri)
    other.text()
    other.text(agent="another")
    on.on.broker.playing.end(on.views[0], "kicked")
    other.on.loop.settle()
    assert told(other)[-1] == "live/a left: kicked"
    assert [view.caller.client for view in other.views] == ["another"]
    assert [status_of(other.ask(url)) for url in (PATH, LOW, part)] == [403, 403, 403]
    assert told_others == [SentAway(b"live/a", "192.0.2.9", "player", None)]
    other.on.loop.advance(61.0)
    assert other.text(PATH)


def test_a_worker_that_has_no_view_of_one_who_was_sent_away_refuses_him_too(on: Site) -> None:
    on.site.sent_away(SentAway(b"live/a", "192.0.2.9", "player", None))
    assert status_of(on.ask(PATH)) == 403
    on.on.loop.advance(61.0)
    assert on.text(PATH)


def test_who_comes_back_with_another_token_than_one_that_expired_is_let_in(on: Site) -> None:
    on.ask(LOW, grant=granted("ada"))
    on.on.broker.playing.end(on.views[0], EXPIRED)
    assert on.views == []
    assert status_of(on.ask(LOW, grant=granted("ada"))) == 200


def test_a_stream_that_is_over_ends_its_views_and_leaves_what_there_was_for_a_while(on: Site) -> None:
    segment = urljoin(LOW, read_playlist(on.text()).segments[-1].uri or "")
    publisher = on.on.stream().publisher
    assert publisher is not None
    on.on.broker.table.end_stream(on.on.stream())
    on.on.loop.settle()
    assert told(on)[-1] == "live/a left: stream ended"
    assert on.text().endswith("#EXT-X-ENDLIST\n")
    assert body_of(on.ask(segment))
    on.on.loop.advance(8.0)
    assert status_of(on.ask(PATH)) == 404
    assert on.on.broker.budget.used_bytes == 0


def test_another_stream_under_the_name_is_another_channel(on: Site) -> None:
    before = on.text()
    on.on.broker.table.end_stream(on.on.stream())
    on.on.loop.settle()
    on.on.loop.advance(1.0)
    peer = on.on.publisher()
    publish(peer, 2.5)
    after = on.text()
    assert "ENDLIST" not in after
    assert before.partition("low")[0] != after
    assert read_playlist(after).segments[0].number > read_playlist(before).segments[0].number


def test_of_one_address_there_are_so_many_views(on: Site) -> None:
    on.on.broker.apply(ServerSettings(hls=HLS, max_connections_per_ip=3))
    statuses = [status_of(on.ask(PATH, f"agent {number}")) for number in range(5)]
    assert statuses == [200, 200, 200, 503, 503]
    assert status_of(on.ask(LOW, "agent 4")) == 503
    part = urljoin(LOW, read_playlist(on.text(agent="agent 0")).all_parts[0].uri)
    assert status_of(on.ask(part, "agent 4")) == 503
    assert told(on) == ["live/a played"] * 3
    assert on.on.notes.limits == ["views per address"] * 4


def test_a_stream_with_no_room_for_more_viewers_says_so() -> None:
    app = AppSettings(max_viewers_per_stream=1, grace_s=0.0)
    stage = Stage(ServerSettings(hls=HLS, app=lambda _name: app))
    publish(stage.publisher(), 2.5)
    site = Site(stage)
    assert site.text(PATH)
    part = urljoin(LOW, read_playlist(site.text()).all_parts[0].uri)
    site.ask(PATH, "second")
    assert [status_of(site.ask(url, "second")) for url in (PATH, LOW, part)] == [503, 503, 503]
    assert site.hit(part, "second") is None
    assert stage.notes.limits == ["viewers per stream"]
    assert told(site)[-1] == "live/a left: no room"
    stage.loop.advance(8.0)
    assert site.text(PATH, "second")


@pytest.mark.parametrize("query", ["?_HLS_part=1", "?_HLS_msn=", "?_HLS_msn=a", "?_HLS_msn=1&_HLS_part=%20"])
def test_numbers_that_are_none_are_refused(on: Site, query: str) -> None:
    assert status_of(on.ask(LOW + query)) == 400


def test_two_workers_give_the_same_bytes_under_the_same_names() -> None:
    workers = TwoWorkers(settings=ServerSettings(hls=HLS, app=lambda _name: AppSettings(grace_s=0.0)))
    publisher = workers.publisher(1)
    publish(publisher, 4.5)
    near = Site(workers.workers[1])
    near.ask(LOW)
    far = Site(workers.workers[2])
    far.ask(LOW)
    publish(publisher, 9.0, since_s=4.5)
    texts = [near.text(), far.text()]
    assert texts[0] == texts[1]
    playlist = read_playlist(texts[0])
    names = [part.uri for part in playlist.all_parts] + [str(segment.uri) for segment in playlist.segments]
    assert len(names) > 20
    for name in names:
        bodies = [body_of(site.ask(urljoin(LOW, name))) for site in (near, far)]
        assert bodies[0] == bodies[1]
    assert workers.workers[1].stream().all_viewers == 2
    assert len(far.views) == 1
    log = workers.workers[1].stream().log
    assert isinstance(log, StreamLog)
    assert log.kept_ms >= 18_000
    workers.loop.advance(20.0)
    assert (near.site.channels, far.site.channels, log.kept_ms) == (0, 0, 0)
