"""One stream as HLS: what is answered, who waits for what, and the same bytes whoever packages it."""

# Long because: each form of an answer is shown at each time of a stream.

import gzip
import re

import pytest

from penstock.relay.log import LogBudget, StreamLog
from penstock.relay.packaging.boundaries import Boundaries
from penstock.relay.packaging.window import Place
from penstock.relay.readable_log import LogLimits
from penstock.relay.segment import MemoryBuffer, MemoryStore
from penstock.serve.http.hls.channel import Multivariant
from penstock.serve.http.hls.playlists import Form
from penstock.serve.http.site import Answer, Wait
from penstock.serve.settings import HlsSettings
from tests.relay.packaging.stage import WALL_MS, steady
from tests.relay.support import ENCODERS
from tests.serve.http.hls.channel_stage import (
    CLASSIC,
    KEEPING,
    LOW,
    SETTINGS,
    ChannelStage,
    PublishedStream,
    body_of,
    data_of,
    parsed,
    status_of,
)
from tests.support.hls_checker import delta_violations, read_playlist, violations

FIRST = WALL_MS // 1000


def started(seconds: float = 6.1, settings: HlsSettings = SETTINGS) -> ChannelStage:
    stream = PublishedStream()
    stream.publish(steady(seconds))
    return ChannelStage(stream, settings)


def more(on: ChannelStage, until_s: float, since_s: float) -> None:
    frames = [frame for frame in steady(until_s)[2:] if frame.timestamp_ms >= 1000 * since_s]
    on.stream.publish(frames)


def names_in(text: str) -> list[str]:
    return re.findall(r'URI="([^"]+)"', text) + [line for line in text.splitlines() if not line.startswith("#")]


class Listener:
    """A connection that waits."""

    descriptor = 0
    takes_shared_bytes = True

    def __init__(self, wait: Wait) -> None:
        self.ready: list[Wait] = []
        wait.join(self, self.ready.append)

    def take_answer(self, answer: Answer, sent_bytes: int = 0) -> None:
        raise AssertionError("the front's matter")


def waited(answer: Answer | Wait | None) -> Listener:
    assert isinstance(answer, Wait)
    assert answer.answer is None
    return Listener(answer)


def test_a_stream_that_is_there_already_has_a_playlist_at_once() -> None:
    text = started().text()
    assert violations([text]) == []
    playlist = read_playlist(text)
    assert [segment.number for segment in playlist.segments] == [FIRST, FIRST + 1, FIRST + 2]
    assert playlist.hint is not None


def test_everything_that_a_playlist_names_is_there_and_the_hint_is_waited_for() -> None:
    on = started()
    text = on.text()
    hint = read_playlist(text).hint
    for name in names_in(text):
        if name == hint:
            waited(on.channel.named(parsed(name)))
        else:
            assert on.file(name)


def test_a_segment_is_its_parts_one_behind_the_other() -> None:
    on = started()
    segment = read_playlist(on.text()).segments[-1]
    assert segment.uri is not None
    assert on.file(segment.uri) == b"".join(on.file(part.uri) for part in segment.parts)


def test_all_who_wait_for_the_next_part_are_answered_together_when_it_is_there() -> None:
    on = started()
    hint = read_playlist(on.text()).hint
    assert hint is not None
    waits = [on.channel.named(parsed(hint)) for _ in range(3)]
    assert waits == [waits[0]] * 3
    listener = waited(waits[0])
    more(on, 6.5, 6.1)
    on.settle()
    assert listener.ready == [waits[0]]
    assert data_of(waits[0]) == data_of(on.channel.named(parsed(hint)))
    assert hint in [part.uri for part in read_playlist(on.text()).all_parts]


def test_a_blocking_reload_is_answered_with_the_part_that_it_waits_for() -> None:
    on = started()
    newest = read_playlist(on.text())
    assert newest.open_segment is None, "its first part has yet to end"
    listener = waited(on.channel.playlist(LOW, Place(FIRST + 3, 0)))
    more(on, 6.3, 6.1)
    on.settle()
    text = data_of(listener.ready[0]).decode().partition("\r\n\r\n")[2]
    assert len(read_playlist(text).all_parts) == len(newest.all_parts) + 1
    assert violations([on.text(), text]) == []


def test_what_is_there_already_is_not_waited_for_and_what_is_too_far_ahead_is_refused() -> None:
    on = started()
    assert on.text(place=Place(FIRST + 1, 3)) == on.text()
    assert status_of(on.channel.playlist(LOW, Place(FIRST + 5, 0))) == 400
    assert status_of(on.channel.playlist(LOW, Place(10**17, 0))) == 400


def test_a_flood_of_places_is_waited_for_up_to_a_bound() -> None:
    on = ChannelStage(PublishedStream())
    answers = [on.channel.playlist(LOW, Place(number, 0)) for number in range(600)]
    assert sum(isinstance(answer, Wait) for answer in answers) == 512
    assert status_of(answers[-1]) == 503


def test_who_asks_before_the_first_segment_has_ended_waits_for_it() -> None:
    stream = PublishedStream()
    on = ChannelStage(stream)
    listener = waited(on.channel.playlist(LOW))
    stream.publish(steady(1.9))
    on.settle()
    assert listener.ready == []
    more(on, 2.3, 1.9)
    on.settle()
    text = data_of(listener.ready[0]).decode().partition("\r\n\r\n")[2]
    assert [segment.number for segment in read_playlist(text).segments] == [FIRST]


def test_a_wait_that_nothing_comes_of_says_when_to_come_back() -> None:
    on = started()
    wait = on.channel.playlist(LOW, Place(FIRST + 3, 0))
    assert isinstance(wait, Wait)
    assert wait.until == on.loop.now + 6
    assert b"503" in wait.late.head
    assert b"Retry-After: 1" in wait.late.head


def test_the_end_of_the_stream_answers_all_who_wait() -> None:
    on = started()
    text = on.text()
    hint = read_playlist(text).hint
    assert hint is not None
    for_playlist = waited(on.channel.playlist(LOW, Place(FIRST + 3, 5)))
    for_part = waited(on.channel.named(parsed(hint)))
    on.channel.end()
    assert data_of(for_part.ready[0])
    ended = data_of(for_playlist.ready[0]).decode().partition("\r\n\r\n")[2]
    assert ended.endswith("#EXT-X-ENDLIST\n")
    assert violations([text, ended]) == []
    assert "ENDLIST" in on.text(CLASSIC)
    assert on.text(place=Place(FIRST + 9, 0)) == on.text()


def test_a_delta_update_and_gzip_are_forms_of_the_same_playlist() -> None:
    on = started(40.1, HlsSettings(playlist_ms=30_000))
    whole = on.text()
    delta = on.text(Form(is_low_latency=True, is_delta=True))
    assert delta_violations(whole, delta) == []
    packed = data_of(on.channel.playlist(Form(is_low_latency=True, is_gzip=True)))
    head, _, body = packed.partition(b"\r\n\r\n")
    assert b"Content-Encoding: gzip\r\n" in head
    assert gzip.decompress(body).decode() == whole
    assert len(body) < len(whole) / 3


def test_each_form_of_a_playlist_is_rendered_once() -> None:
    on = started()
    on.settle()
    assert on.channel.playlist(LOW) is on.channel.playlist(LOW, Place(FIRST, 0))


def test_playlists_are_short_lived_and_segments_are_for_good() -> None:
    on = started()
    segment = read_playlist(on.text()).segments[0]
    assert segment.uri is not None
    assert segment.map_uri is not None
    for name in (segment.uri, segment.map_uri, segment.parts[0].uri):
        head = data_of(on.channel.named(parsed(name))).partition(b"\r\n\r\n")[0]
        assert b"Cache-Control: public, max-age=86400, immutable" in head
        assert b"ETag: " in head
    assert b"Cache-Control: private, max-age=1\r\n" in data_of(on.channel.multivariant(Multivariant(True)))
    assert b"Cache-Control: max-age=1\r\n" in data_of(on.channel.playlist(LOW))
    assert b"Cache-Control: max-age=1\r\n" in data_of(on.channel.playlist(CLASSIC))
    assert b"Cache-Control: max-age=6\r\n" in data_of(on.channel.playlist(LOW._replace(is_awaited=True)))


def test_names_of_another_publication_or_of_what_is_gone_name_nothing() -> None:
    on = started(30.1)
    text = on.text()
    token = names_in(text)[0].partition("/")[0]
    assert on.channel.named(parsed(f"{'0' * 32}/s{FIRST + 14}.m4s")) is None
    assert on.channel.named(parsed(f"{token}/s{FIRST}.m4s")) is None
    assert on.channel.named(parsed(f"{token}/s{FIRST + 15}.m4s")) is None, "it has yet to end"
    assert on.channel.named(parsed(f"{token}/p1.m4s")) is None
    assert on.channel.named(parsed(f"{token}/0123456789abcdef.mp4")) is None


@pytest.mark.parametrize("late_s", [0.0, 3.3, 9.7, 14.0])
def test_one_who_begins_later_gives_the_same_bytes_under_the_same_names(late_s: float) -> None:
    stream = PublishedStream()
    early = ChannelStage(stream)
    stream.publish([frame for frame in steady(30.1) if frame.timestamp_ms < 1000 * late_s])
    early.settle()
    late = ChannelStage(stream)
    rest = [frame for frame in steady(30.1) if frame.timestamp_ms >= 1000 * late_s]
    for frame in rest:
        stream.publish([frame])
    for form in (LOW, CLASSIC, Form(is_low_latency=True, is_gzip=True)):
        assert body_without_head(early, form) == body_without_head(late, form)
    names = [name for name in names_in(early.text()) if name != read_playlist(early.text()).hint]
    assert len(names) > 30
    for name in names:
        assert early.file(name) == late.file(name)


def body_without_head(on: ChannelStage, form: Form) -> bytes:
    on.settle()
    return data_of(on.channel.playlist(form)).partition(b"\r\n\r\n")[2]


def test_playlists_of_minutes_keep_the_rules() -> None:
    stream = PublishedStream()
    on = ChannelStage(stream)
    texts: list[str] = []
    for frame in steady(120):
        stream.publish([frame])
        on.settle()
        if on.channel.window is not None and on.channel.window.is_ready:
            text = on.text()
            if not texts or text != texts[-1]:
                texts.append(text)
    assert len(texts) > 500
    assert violations(texts) == []


def test_a_stream_goes_on_in_another_log_behind_a_discontinuity() -> None:
    stream = PublishedStream()
    stream.publish(steady(6.1))
    on = ChannelStage(stream)
    before = on.text()
    numbering = stream.written.numbering
    assert numbering is not None
    assert SETTINGS.rule is not None
    elsewhere = StreamLog(
        MemoryStore(),
        ENCODERS,
        KEEPING,
        LogBudget(1 << 40),
        stream.written.head,
        stamps=Boundaries(SETTINGS.rule, numbering),
    )
    elsewhere.begin_anew()
    stream.written.close()
    stream.log = stream.written = elsewhere
    stream.publish(steady(4.1, start_ms=9000))
    texts = [before, on.text()]
    assert violations(texts) == []
    playlist = read_playlist(texts[1])
    assert [segment.number for segment in playlist.all_segments] == list(range(FIRST + 1, FIRST + 6))
    assert [segment.has_tag for segment in playlist.all_segments] == [False] * 3 + [True, False]
    for name in names_in(texts[1]):
        if name != playlist.hint:
            assert on.file(name)


class FailingStore(MemoryStore):
    """Memory that cannot be read, from some time on."""

    fails = False

    def create(self) -> MemoryBuffer:
        return FailingBuffer(self)


class FailingBuffer(MemoryBuffer):
    def __init__(self, store: FailingStore) -> None:
        super().__init__()
        self._store = store

    def read(self, offset: int, size: int) -> bytes:
        if self._store.fails:
            raise BufferError(f"{size} bytes at {offset}")
        return super().read(offset, size)


def test_what_cannot_be_packaged_ends_the_playlist_and_holds_nothing_of_the_log() -> None:
    store = FailingStore()
    stream = PublishedStream(store=store)
    stream.publish(steady(6.1))
    on = ChannelStage(stream)
    hint = waited(on.channel.named(parsed(read_playlist(on.text()).hint or "")))
    store.fails = True
    more(on, 7.0, 6.1)
    with pytest.raises(BufferError):
        on.settle()
    assert [status_of(wait) for wait in hint.ready] == [404]
    assert on.text().endswith("#EXT-X-ENDLIST\n")
    more(on, 8.0, 7.0)
    on.settle()
    on.channel.end()
    assert on.channel.held_log_bytes == 0


def test_where_messages_are_missing_there_is_a_gap_and_the_stream_goes_on() -> None:
    stream = PublishedStream(LogLimits(max_gops=1, max_age_s=0.1, min_segment_bytes=500, max_segment_bytes=500))
    stream.publish(steady(4.1))
    on = ChannelStage(stream)
    stream.publish([frame for frame in steady(6.5)[2:] if frame.timestamp_ms >= 4100])
    on.settle()
    stream.channels.clear()
    stream.publish([frame for frame in steady(7.1)[2:] if frame.timestamp_ms >= 6500])
    stream.channels.append(on.channel)
    stream.publish([frame for frame in steady(11.1)[2:] if frame.timestamp_ms >= 7100])
    text = on.text()
    assert violations([text]) == []
    assert [segment.is_gap for segment in read_playlist(text).segments].count(True) == 1
    assert "GAP=YES" in text or "#EXT-X-GAP" in text


def test_the_oldest_goes_where_too_much_is_laid_out_and_memory_is_given_back() -> None:
    stream = PublishedStream()
    stream.publish(steady(8.1))
    on = ChannelStage(stream, max_bytes=25_000)
    on.settle()
    assert on.budget.used_bytes <= 25_000
    assert on.channel.window is not None
    assert len(on.channel.window.segments) < 4
    on.channel.close()
    assert on.budget.used_bytes == 0


def test_the_first_playlist_is_waited_for_as_long_as_a_segment_may_last() -> None:
    on = ChannelStage(PublishedStream())
    on.stream.publish(steady(0.5, gop=1000))
    on.settle()
    waits = [on.channel.multivariant(Multivariant(True)), on.channel.playlist(LOW)]
    for wait in waits:
        assert isinstance(wait, Wait)
        assert wait.until >= on.loop.now + 12
    listeners = [waited(wait) for wait in waits]
    on.stream.publish([frame for frame in steady(10.5, gop=1000)[2:] if frame.timestamp_ms >= 500])
    on.settle()
    assert [status_of(wait) for listener in listeners for wait in listener.ready] == [200, 200]


def test_a_crowd_with_credentials_of_its_own_waits_for_the_first_segment() -> None:
    on = ChannelStage(PublishedStream())

    def ask(number: int) -> Answer | Wait:
        return on.channel.multivariant(Multivariant(True, credentials=f"token={number}"))

    listeners = [waited(ask(number)) for number in range(600)]
    on.stream.publish(steady(2.5))
    on.settle()
    texts = [body_of(wait).decode() for listener in listeners for wait in listener.ready]
    assert [text.endswith(f"low.m3u8?token={number}\n") for number, text in enumerate(texts)] == [True] * 600


def test_who_waits_no_more_makes_room_for_others() -> None:
    on = ChannelStage(PublishedStream())
    answers = [on.channel.multivariant(Multivariant(True, credentials=f"token={number}")) for number in range(10_100)]
    assert all(isinstance(answer, Wait) for answer in answers)


def test_what_slow_clients_still_take_does_not_shorten_what_others_are_named() -> None:
    def listed(*, is_taken: bool) -> list[int]:
        stream = PublishedStream()
        stream.publish(steady(2.1))
        on = ChannelStage(stream, max_bytes=60_000)
        lengths: list[int] = []
        for second in range(2, 30):
            stream.publish([frame for frame in steady(second + 1.1)[2:] if frame.timestamp_ms >= second * 1000 + 100])
            segments = read_playlist(on.text(CLASSIC)).segments
            lengths.append(len(segments))
            answer = on.channel.named(parsed(segments[-1].uri or ""))
            assert isinstance(answer, Answer)
            if is_taken:
                answer.flush.segment.pin()
        return lengths

    assert listed(is_taken=True) == listed(is_taken=False)


def test_what_is_being_sent_stays_until_it_is_sent() -> None:
    on = started()
    part = read_playlist(on.text()).all_parts[0].uri
    answer = on.channel.named(parsed(part))
    assert isinstance(answer, Answer)
    answer.flush.segment.pin()
    data = data_of(answer)
    on.channel.close()
    assert on.budget.used_bytes > 0
    assert data_of(answer) == data
    answer.keeper.unpin(answer.flush.segment)
    assert on.budget.used_bytes == 0


def test_parts_are_found_by_the_line_that_asks_for_them_and_taken_out_with_their_segment() -> None:
    on = started()
    text = on.text()
    line = b"GET /live/a/%s HTTP/1.1" % read_playlist(text).all_parts[0].uri.encode()
    laid = on.table.get(line)
    assert laid is not None
    assert laid.is_free
    assert data_of(laid.answer) == data_of(on.channel.named(parsed(read_playlist(text).all_parts[0].uri)))
    on.channel.close()
    assert on.table.get(line) is None


def test_closing_answers_all_who_wait() -> None:
    on = started()
    hint = read_playlist(on.text()).hint
    assert hint is not None
    listeners = [waited(on.channel.named(parsed(hint))), waited(on.channel.playlist(LOW, Place(FIRST + 3, 5)))]
    on.channel.close()
    assert [status_of(listener.ready[0]) for listener in listeners] == [404, 404]


def test_a_packager_holds_no_more_of_the_log_than_an_open_part_needs() -> None:
    on = started()
    on.settle()
    more(on, 7.1, 6.1)
    on.settle()
    assert 0 < on.channel.held_log_bytes < 3000


def test_playlists_and_segments_that_were_asked_for_are_in_the_table_until_they_are_others() -> None:
    on = started()
    text = on.text(CLASSIC)
    name = read_playlist(text).segments[0].uri
    assert name is not None
    lines = [b"GET /live/a/classic.m3u8 HTTP/1.1", b"GET /live/a/%s HTTP/1.1" % name.encode()]
    assert on.table.get(lines[1]) is None
    on.file(name)
    laid = [on.table.get(line) for line in lines]
    assert [each.is_free for each in laid if each is not None] == [False, True]
    more(on, 8.3, 6.1)
    on.settle()
    assert on.table.get(lines[0]) is None
    assert on.table.get(lines[1]) is not None
    on.channel.close()
    assert on.table.get(lines[1]) is None


def test_where_not_everybody_may_watch_no_proxy_may_answer_for_a_playlist() -> None:
    on = started()
    on.is_guarded = True
    on.settle()
    for answer in (on.channel.playlist(LOW), on.channel.playlist(CLASSIC), on.channel.multivariant(Multivariant(True))):
        assert b"Cache-Control: private, max-age=1\r\n" in data_of(answer)
