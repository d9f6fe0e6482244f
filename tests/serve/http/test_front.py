"""Requests for media: what is the front's, who answers it, and what else is asked on the same connection."""

# Long because: each rule of a head is shown with the bytes that try it.

import random
import re
import select
import socket
from collections.abc import Iterator

import pytest

from penstock.access.policy import AppAccess, Policy
from penstock.access.rules import read_rule_text, rules_of
from penstock.control.live import AccessAnswer, AccessQuestion
from penstock.control.messages import HttpConnection
from penstock.media_paths import MediaKind, MediaPath
from penstock.relay.cursor import Range
from penstock.relay.segment import MemoryBuffer, Segment
from penstock.serve.http.layout import answer_of, error_of
from penstock.serve.http.requests import Traits
from penstock.serve.http.site import Answer, MediaRequest, Rank, Stream, Taken, Wait
from penstock.serve.reactor import READ
from penstock.serve.streams.access.gatekeeper import Gatekeeper
from penstock.serve.streams.observer import Observer
from tests.serve.fakes import FakeLoop, FakeTransport
from tests.serve.http.front_stage import new_front
from tests.support.rtmp_driver import LOOPBACK

PEER = "203.0.113.7:5000"
GET = b"GET /live/cam.m3u8 HTTP/1.1\r\nHost: x\r\n\r\n"
API = b"GET /api/v1/streams HTTP/1.1\r\nHost: x\r\n\r\n"


class FakeSite:
    """Answers as the test says, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[MediaRequest] = []
        self.free: set[str] = set()
        self.answers: Answer | Wait | Stream = answer_of(
            b"#EXTM3U\n", b"application/vnd.apple.mpegurl", cache_control=b"max-age=1", etag=b"e1"
        )

    def is_free(self, path: MediaPath) -> bool:
        return path.rest in self.free

    def answer(self, request: MediaRequest) -> Answer | Wait | Stream:
        self.asked.append(request)
        return self.answers


class Stage:
    """A front with one site for all kinds, real sockets or transports, and a web process that takes all it is given."""

    def __init__(self, *, origins: tuple[str, ...] = (), proxies: tuple[str, ...] = ()) -> None:
        self.loop = FakeLoop()
        self.site = FakeSite()
        self.given: list[socket.socket] = []
        self.gone: list[str] = []
        self.gatekeeper = Gatekeeper(self.loop, Observer(), lambda: 1_000_000.0)
        self.front = new_front(self.loop, self.hand_over, gatekeeper=self.gatekeeper, origins=origins, proxies=proxies)
        self.front.sites = dict.fromkeys(MediaKind, self.site)
        self._listener = socket.create_server((LOOPBACK, 0))
        self._descriptors: list[int] = []
        self._clients: list[socket.socket] = []

    def hand_over(self, message: HttpConnection, descriptor: int) -> bool:
        self.given.append(socket.socket(fileno=descriptor))
        return True

    def connect(self) -> "Client":
        client = socket.create_connection(self._listener.getsockname(), 10)
        connection, _ = self._listener.accept()
        connection.setblocking(False)
        self._descriptors.append(connection.fileno())
        self.front.accept(connection, PEER, lambda: self.gone.append("gone"))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._clients.append(client)
        return Client(self, client)

    def tls(self) -> FakeTransport:
        transport = self.loop.new_transport(can_send_files=False)
        self.front.accept_tls(transport, PEER, lambda: self.gone.append("gone"))
        return transport

    def rule(self, *play: str) -> None:
        access = AppAccess(play=rules_of(read_rule_text(list(play))))
        self.gatekeeper.apply(Policy({"live": access}))

    def run(self) -> None:
        """Turns as epoll would give them, until nothing happens."""
        while True:
            self.loop.settle()
            ready = [each for each in self._descriptors if each in self.loop.interest]
            events = select.poll()
            for each in ready:
                events.register(each, self.loop.interest[each])
            told = events.poll(20)
            if not told:
                return
            for descriptor, event in told:
                if descriptor in self.loop.interest:
                    self.loop._turns[descriptor].callback(event)

    def close(self) -> None:
        self.front.close()
        self._listener.close()
        for each in (*self.given, *self._clients):
            each.close()


class Client:
    def __init__(self, stage: Stage, connection: socket.socket) -> None:
        self._stage = stage
        self.socket = connection

    def say(self, data: bytes) -> bytes:
        """What is answered."""
        self.socket.sendall(data)
        self._stage.run()
        return self.hear()

    def hear(self) -> bytes:
        self.socket.setblocking(False)
        heard = b""
        try:
            while data := self.socket.recv(100_000):
                heard += data
        except BlockingIOError:
            return heard
        return heard + b"<end>"


@pytest.fixture
def on() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()


def without_date(answer: bytes) -> bytes:
    return re.sub(rb"Date: [^\r]*\r\n", b"", answer)


PLAYLIST = (
    b"HTTP/1.1 200 OK\r\nServer: penstock\r\nContent-Type: application/vnd.apple.mpegurl\r\nContent-Length: 8\r\n"
    b'Cache-Control: max-age=1\r\nETag: "e1"\r\n\r\n'
)


def test_a_request_for_media_is_answered_here_and_the_connection_stays(on: Stage) -> None:
    client = on.connect()
    assert without_date(client.say(GET)) == PLAYLIST + b"#EXTM3U\n"
    assert without_date(client.say(GET)) == PLAYLIST + b"#EXTM3U\n"
    assert (on.gone, on.given, len(on.site.asked)) == ([], [], 2)
    assert on.site.asked[0].key == "live/cam"


@pytest.mark.parametrize("before", [b"http://live.example", b"HTTPS://[::1]:8080"])
def test_a_whole_address_is_asked_for_as_its_path(on: Stage, before: bytes) -> None:
    client = on.connect()
    asked = GET.replace(b"GET ", b"GET " + before).replace(b" HTTP/", b"?wait_s=3 HTTP/")
    assert without_date(client.say(asked)).endswith(b"#EXTM3U\n")
    assert on.site.asked[-1].parameters == {"wait_s": "3"}
    assert on.site.asked[-1].path == MediaPath("live", "cam", MediaKind.PLAYLIST)


def test_what_is_not_media_goes_to_web_whole_also_behind_an_answer(on: Stage) -> None:
    client = on.connect()
    client.say(GET)
    assert client.say(API) == b""
    (given,) = on.given
    assert given.recv(1000) == API
    assert given.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1, "or web would not be woken for a byte"
    assert (on.gone, on.loop.interest) == (["gone"], {})


@pytest.mark.parametrize(
    "data",
    [b"\x16\x03\x01\x02", b"POST /live/cam", b"PRI * HTTP/2.0\r\n\r\n", b"get /live/cam.flv HTTP/1.1\r\n", b"\r\n"],
)
def test_what_cannot_be_a_request_for_media_is_webs_to_judge(on: Stage, data: bytes) -> None:
    client = on.connect()
    client.say(data + b" x\r\n")
    assert on.given[0].recv(1000) == data + b" x\r\n"


def cuts(data: bytes, seed: int) -> Iterator[bytes]:
    left, chance = data, random.Random(seed)
    while left:
        size = 1 if seed == 0 else chance.randint(1, 40)
        yield left[:size]
        left = left[size:]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("is_tls", [False, True])
def test_a_request_is_the_same_however_it_is_cut(on: Stage, seed: int, is_tls: bool) -> None:
    head = b"GET /live/cam.m3u8?a=1 HTTP/1.1\r\nHost: x\r\nUser-Agent: test\r\nX-A: 1\r\nx-a: 2\r\n\r\n"
    if is_tls:
        transport = on.tls()
        for piece in cuts(head, seed):
            assert transport.output == b""
            transport.feed(piece)
            on.loop.settle()
        answer = bytes(transport.output)
    else:
        client = on.connect()
        answer = b"".join(client.say(piece) for piece in cuts(head, seed))
    assert without_date(answer) == PLAYLIST + b"#EXTM3U\n"
    (request,) = on.site.asked
    assert (request.parameters, request.client, request.headers[b"x-a"]) == ({"a": "1"}, "test", b"1, 2")


@pytest.mark.parametrize("is_tls", [False, True])
def test_requests_that_come_together_are_answered_one_after_the_other(on: Stage, is_tls: bool) -> None:
    if is_tls:
        transport = on.tls()
        transport.feed(GET * 3)
        on.loop.settle()
        answer = bytes(transport.output)
    else:
        answer = on.connect().say(GET * 3)
    assert without_date(answer) == (PLAYLIST + b"#EXTM3U\n") * 3


def test_half_a_head_does_not_wake_the_loop_again_and_is_given_up_after_ten_seconds(on: Stage) -> None:
    client = on.connect()
    assert client.say(GET[:30]) == b""
    (descriptor,) = on._descriptors
    assert not select.select([descriptor], [], [], 0.05)[0], "epoll would tell of it for ever"
    on.loop.advance(9.9)
    assert on.gone == []
    on.loop.advance(0.2)
    assert (on.gone, client.hear()) == (["gone"], b"<end>")


def test_a_client_that_ends_with_half_a_head_is_closed_at_once(on: Stage) -> None:
    client = on.connect()
    client.say(GET[:30])
    client.socket.shutdown(socket.SHUT_WR)
    on.run()
    assert on.gone == ["gone"]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /live/cam.m3u8 HTTP/1.1\r\n\r\n", 400),
        (b"GET /live/cam.m3u8 HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400),
        (b"GET /live/cam.m3u8 HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET /live/cam.m3u8 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 413),
        (b"GET /live/cam.m3u8 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 413),
        (b"GET /live/cam.m3u8 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n", 400),
        (b"POST /live/cam.m3u8 HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"GET /live/cam.m3u8 HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 17_000 + b"\r\n\r\n", 431),
    ],
)
def test_a_head_that_is_not_served_is_answered_and_closed(on: Stage, head: bytes, status: int) -> None:
    answer = on.connect().say(head)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.endswith(b"<end>")
    assert b"Connection: close\r\n" in answer
    assert (on.site.asked, on.gone) == ([], ["gone"])


def test_a_client_that_wants_no_more_is_closed_behind_its_answer(on: Stage) -> None:
    assert on.connect().say(GET[:-2] + b"Connection: close\r\n\r\n").endswith(b"#EXTM3U\n<end>")
    assert on.connect().say(b"GET /live/cam.m3u8 HTTP/1.0\r\n\r\n").endswith(b"#EXTM3U\n<end>")


def test_head_gets_the_head_and_a_known_etag_nothing_new(on: Stage) -> None:
    client = on.connect()
    assert without_date(client.say(b"HEAD" + GET[3:])) == PLAYLIST
    for tags in (b'"e1"', b'W/"e1"', b'"e0", "e1"', b"*"):
        answer = client.say(GET[:-2] + b"If-None-Match: " + tags + b"\r\n\r\n")
        assert without_date(answer) == (
            b'HTTP/1.1 304 Not Modified\r\nServer: penstock\r\nCache-Control: max-age=1\r\nETag: "e1"\r\n\r\n'
        )
    assert client.say(GET[:-2] + b'If-None-Match: "e2"\r\n\r\n').endswith(b"#EXTM3U\n")


def test_an_answer_that_is_there_at_once_costs_no_change_of_what_is_waited_for(on: Stage) -> None:
    client = on.connect()
    for _ in range(3):
        client.say(GET)
    assert on.loop.modifications == 0


# Waiting.


def wait_of(on: Stage, rank: Rank = Rank.MEDIA) -> Wait:
    wait = Wait(on.loop.now + 5.0, error_of(503), rank)
    on.site.answers = wait
    return wait


def sent_together(on: Stage) -> list[int]:
    """To how many each step of the answers to come is sent."""
    counts: list[int] = []
    send = on.front._fan_out.send
    on.front._fan_out.send = lambda sendings: counts.append(len(sendings[0].sockets)) or send(sendings)  # type: ignore[method-assign,func-returns-value]
    return counts


def test_those_who_wait_for_the_same_are_answered_together_media_first(on: Stage) -> None:
    playlist = wait_of(on, Rank.PLAYLIST)
    first, second = on.connect(), on.connect()
    assert first.say(GET) == second.say(GET) == b""
    media = wait_of(on)
    third = on.connect()
    assert third.say(GET) == b""
    order = sent_together(on)
    playlist.fulfil(Answer.of_bytes(b"P"))
    media.fulfil(Answer.of_bytes(b"M"))
    on.run()
    assert order == [1, 2]
    assert (first.hear(), second.hear(), third.hear()) == (b"P", b"P", b"M")
    assert on.front._timers == {}


@pytest.mark.parametrize(("size", "counts"), [(100, [5]), (400_000, [2, 2, 1]), (3_000_000, [1] * 5)])
def test_the_larger_an_answer_the_fewer_are_sent_it_in_one_step(on: Stage, size: int, counts: list[int]) -> None:
    wait = wait_of(on)
    clients = [on.connect() for _ in range(5)]
    for client in clients:
        client.say(GET)
    order = sent_together(on)
    wait.fulfil(Answer.of_bytes(bytes(size)))
    heard = 0
    while heard < 5 * size:
        on.run()
        more = sum(len(client.hear()) for client in clients)
        assert more
        heard += more
    assert order == counts


def test_what_a_site_says_to_one_requester_no_other_hears(on: Stage) -> None:
    wait = wait_of(on)
    first, second = on.connect(), on.connect()
    ask, names = on.site.answer, iter((b"1", b"2"))

    def name(request: MediaRequest) -> Answer | Wait | Stream:
        request.own_lines.append(b"X-You: %s\r\n" % next(names))
        return ask(request)

    on.site.answer = name  # type: ignore[method-assign]
    assert first.say(GET) == second.say(GET) == b""
    wait.fulfil(answer_of(b"body", b"text/plain", cache_control=b"no-store"))
    on.run()
    for client, line in ((first, b"X-You: 1"), (second, b"X-You: 2")):
        head, _, body = client.hear().partition(b"\r\n\r\n")
        assert (head.splitlines()[-1], body) == (line, b"body")
    on.site.answer = ask  # type: ignore[method-assign]
    assert b"X-You" not in first.say(GET)


def test_a_wait_ends_with_its_late_answer(on: Stage) -> None:
    wait_of(on)
    client = on.connect()
    assert client.say(GET) == b""
    on.loop.advance(5.1)
    assert client.hear().startswith(b"HTTP/1.1 503 ")


def test_a_client_that_leaves_while_it_waits_is_noticed(on: Stage) -> None:
    wait = wait_of(on)
    client = on.connect()
    client.say(GET)
    client.socket.close()
    on.run()
    assert (on.gone, wait.waiters) == (["gone"], {})


def test_an_event_of_the_time_before_its_request_was_taken_costs_nobody_who_waits_the_connection(on: Stage) -> None:
    wait = wait_of(on)
    client = on.connect()
    client.socket.sendall(GET)
    (connection,) = on.front._connections
    connection.look()
    told = on.loop._turns[connection.descriptor].callback
    told(READ)
    assert on.gone == []
    wait.fulfil(Answer.of_bytes(b"M"))
    on.run()
    assert client.hear() == b"M"


def test_one_who_leaves_while_access_is_asked_of_web_hears_nothing_and_neither_does_who_comes_next(on: Stage) -> None:
    on.rule("jwt")
    questions: list[AccessQuestion] = []
    on.gatekeeper.ask_web = questions.append
    client = on.connect()
    client.say(GET.replace(b".m3u8", b".m3u8?token=a.b.c"))
    client.socket.close()
    on.run()
    assert on.gone == ["gone"]
    next_one = on.connect()
    wait = wait_of(on)
    (question,) = questions
    on.gatekeeper.answered(AccessAnswer(question.request, is_allowed=True, has_credentials=True, rule="jwt"))
    wait.fulfil(error_of(503))
    on.run()
    # It has the descriptor that the other one had.
    assert len(set(on._descriptors)) == 1
    assert (on.site.asked, wait.waiters, on.gone, next_one.hear()) == ([], {}, ["gone"], b"")
    assert next_one.say(b"GET /live/x HTTP/1.1\r\n\r\n") == b""
    assert len(on.given) == 1


def test_an_answer_in_a_segment_is_pinned_only_while_it_is_sent(on: Stage) -> None:
    segment = Segment(MemoryBuffer(), 100, 0.0)
    body = b"m" * 30_000_000
    segment.append([b"other", b"HEAD\r\n\r\n", body], [], 5 + 8 + len(body))
    on.site.answers = Answer.in_segment(Range(segment, 105, 8 + len(body)), b"HEAD\r\n\r\n")
    client = on.connect()
    heard = client.say(GET)
    assert segment.is_pinned
    for _ in range(1000):
        on.run()
        heard += client.hear()
        if len(heard) == 8 + len(body):
            break
    assert heard == b"HEAD\r\n\r\n" + body
    assert not segment.is_pinned


def test_an_answer_that_is_dropped_before_its_turn_reaches_all_who_waited_and_is_given_back_once(on: Stage) -> None:
    wait = wait_of(on)
    clients = [on.connect() for _ in range(5)]
    for client in clients:
        client.say(GET)
    segment = Segment(MemoryBuffer(), 0, 0.0)
    segment.append([bytes(400_000)], [], 400_000)
    given_back: list[bool] = []

    class Keeper:
        def unpin(self, segment: Segment) -> None:
            given_back.append(segment.unpin())

    wait.fulfil(Answer.in_segment(Range(segment, 0, 400_000), b"", keeper=Keeper()))
    assert not segment.drop(), "it is still to be sent"
    heard = [0] * 5
    while sum(heard) < 5 * 400_000:
        on.run()
        more = [len(client.hear()) for client in clients]
        assert any(more)
        heard = [sum(each) for each in zip(heard, more, strict=True)]
    assert heard == [400_000] * 5
    assert given_back.count(True) == 1


def test_a_client_that_takes_nothing_of_its_answer_is_closed(on: Stage) -> None:
    transport = on.tls()
    transport.room_bytes = 20
    transport.feed(GET)
    on.loop.settle()
    on.loop.advance(9.9)
    transport.room_bytes = 5
    on.loop.settle()
    assert on.gone == []
    on.loop.advance(10.1)
    assert (on.gone, transport.is_closed) == (["gone"], True)


def test_a_client_that_takes_byte_by_byte_what_is_gone_for_others_is_closed_and_memory_given_back(on: Stage) -> None:
    segment = Segment(MemoryBuffer(), 0, 0.0)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n"
    segment.append([head, b"p" * 900], (), len(head) + 900)
    on.site.answers = Answer.in_segment(Range(segment, 0, segment.size), head)
    transport = on.tls()
    transport.room_bytes = 20
    transport.feed(GET)
    on.loop.settle()

    def take_for(seconds: int) -> None:
        for _ in range(seconds):
            transport.room_bytes = 1
            on.loop.settle()
            on.loop.advance(1.0)

    take_for(30)
    assert on.gone == []
    segment.drop()
    take_for(8)
    assert (on.gone, segment.is_pinned) == ([], True)
    take_for(3)
    assert (on.gone, segment.is_pinned) == (["gone"], False)


def test_an_idle_connection_is_closed_after_a_minute(on: Stage) -> None:
    client = on.connect()
    client.say(GET)
    on.loop.advance(59.0)
    assert on.gone == []
    on.loop.advance(1.5)
    assert on.gone == ["gone"]


def test_a_stream_takes_the_connection_and_what_has_come_behind_its_head(on: Stage) -> None:
    taken: list[Taken] = []
    on.site.answers = Stream(taken.append)
    transport = on.tls()
    transport.feed(GET + b"more")
    on.loop.settle()
    assert (taken[0].received, taken[0].address, taken[0].is_encrypted) == (b"more", PEER, True)
    assert (len(on.front), on.loop.interest, on.gone) == (0, {}, [])


def test_a_site_that_fails_costs_one_connection(on: Stage) -> None:
    errors: list[Exception] = []
    on.front._on_error = errors.append
    on.site.answers = None  # type: ignore[assignment]
    on.site.answer = lambda _request: 1 // 0  # type: ignore[method-assign,assignment,return-value]
    client, other = on.connect(), on.connect()
    assert client.say(GET) == b"<end>"
    assert ([type(error) for error in errors], len(on.front)) == ([ZeroDivisionError], 1)
    assert other.hear() == b""


# The table.


def test_a_line_that_is_in_the_table_is_answered_without_its_site(on: Stage) -> None:
    hits: list[str] = []
    target = "/live/cam/1.m4s"

    def on_hit(address: str, _traits: Traits) -> bool:
        hits.append(address)
        return len(hits) < 3

    on.front.table.put(target, Answer.of_bytes(b"HTTP/1.1 200 OK\r\n\r\n", b"x"), is_free=True, on_hit=on_hit)
    request = b"GET /live/cam/1.m4s HTTP/1.1\r\nHost: x\r\n\r\n"
    client = on.connect()
    for _ in range(2):
        assert client.say(request) == b"HTTP/1.1 200 OK\r\n\r\nx"
    assert (on.site.asked, hits) == ([], [PEER, PEER])
    client.say(request)
    assert len(on.site.asked) == 1, "whoever is told of a hit may have the site look at it"
    on.front.table.remove(target)
    client.say(request)
    assert len(on.site.asked) == 2


@pytest.mark.parametrize(
    ("said", "is_taken"),
    [
        (b"gzip", True),
        (b"br;q=1.0, gzip;q=0.8, *;q=0.1", True),
        (b"gzip;q=0.01", True),
        (b"gzip;q=0", False),
        (b"gzip ; q=0.000, br", False),
        (b"identity", False),
    ],
)
def test_gzip_is_for_those_who_say_so_and_do_not_refuse_it(said: bytes, *, is_taken: bool) -> None:
    assert Traits({b"accept-encoding": said}, stays_open=True).takes_gzip is is_taken


def test_who_reads_gzip_is_answered_what_is_compressed(on: Stage) -> None:
    plain, packed = (Answer.of_bytes(b"HTTP/1.1 200 OK\r\n\r\n", body) for body in (b"x", b"z"))
    on.front.table.put("/live/cam/1.m4s", plain, is_free=True, compressed=packed)
    client = on.connect()
    assert client.say(b"GET /live/cam/1.m4s HTTP/1.1\r\nHost: x\r\n\r\n").endswith(b"x")
    request = b"GET /live/cam/1.m4s HTTP/1.1\r\nHost: x\r\nAccept-Encoding: br, gzip\r\n\r\n"
    assert client.say(request).endswith(b"z")


def test_a_guarded_line_is_answered_from_the_table_when_access_has_let_in_and_credentials_are_no_part_of_it(
    on: Stage,
) -> None:
    on.front.table.put("/live/cam/p.m3u8?x=1", Answer.of_bytes(b"P"), is_free=False)
    on.rule("deny")
    client = on.connect()
    bare = b"GET /live/cam/p.m3u8?x=1 HTTP/1.1\r\nHost: x\r\n\r\n"
    assert client.say(bare).startswith(b"HTTP/1.1 401 ")
    on.rule("open")
    assert client.say(bare) == b"P"
    assert client.say(bare.replace(b"?x=1", b"?key=abc&x=1&%73ig=1&exp=2")) == b"P"
    assert on.site.asked == []


# Access, origins, proxies.


def test_one_without_credentials_hears_401_and_one_with_wrong_ones_403(on: Stage) -> None:
    on.rule("key")

    def heard(request: bytes) -> bytes:
        client = on.connect()
        client.socket.sendall(request)
        on.run()
        on.loop.advance(30.0)  # whoever fails again and again hears of it later
        return client.hear()

    answer = heard(GET)
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"WWW-Authenticate: Bearer" in answer
    assert b"WWW-Authenticate: Basic" in answer
    assert b"WWW-Authenticate: Basic" not in heard(GET[:-2] + b"Sec-Fetch-Mode: cors\r\n\r\n")
    assert heard(GET.replace(b".m3u8", b".m3u8?key=wrong")).startswith(b"HTTP/1.1 403 ")
    assert heard(GET[:-2] + b"Authorization: Bearer wrong\r\n\r\n").startswith(b"HTTP/1.1 403 ")
    assert heard(GET[:-2] + b"Authorization: Basic YTpi\r\n\r\n").startswith(b"HTTP/1.1 403 ")
    assert on.site.asked == []
    assert without_date(heard(b"GET /live/cam/x?token=t HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(b"HTTP/1.1 403 ")
    on.site.free.add("x")
    assert heard(b"GET /live/cam/x HTTP/1.1\r\nHost: x\r\n\r\n").endswith(b"#EXTM3U\n")


def test_credentials_are_told_apart_from_the_rest_of_the_query(on: Stage) -> None:
    on.connect().say(b"GET /live/cam.m3u8?ll=0&token=a.b.c&exp=5&x HTTP/1.1\r\nHost: x\r\n\r\n")
    (request,) = on.site.asked
    assert request.parameters == {"ll": "0", "x": ""}
    assert request.credentials == "token=a.b.c&exp=5"
    assert "a.b.c" not in repr(request)


def test_where_a_callback_is_asked_all_that_names_no_answer_is_for_it(on: Stage) -> None:
    on.rule("callback")
    questions: list[AccessQuestion] = []
    on.gatekeeper.ask_web = questions.append
    target = "/live/cam/low.m3u8"
    on.front.table.put(target, Answer.of_bytes(b"HTTP/1.1 200 OK\r\n\r\n", b"x"), is_free=False)

    def let_in(line: bytes) -> bytes:
        client = on.connect()
        client.say(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % line)
        on.gatekeeper.answered(
            AccessAnswer(questions[-1].request, is_allowed=True, has_credentials=True, rule="callback")
        )
        on.run()
        return client.hear()

    let_in(b"/live/cam.m3u8?ll=0&user=ann&pass=%26&token=t")
    (request,) = on.site.asked
    assert (request.parameters, request.credentials) == ({"ll": "0"}, "user=ann&pass=%26&token=t")
    assert let_in(b"/live/cam/low.m3u8?user=ann&pass=%26").endswith(b"x"), "as all others are answered"
    assert len(on.site.asked) == 1


def test_every_page_may_read_but_not_where_an_address_alone_lets_in(on: Stage) -> None:
    client = on.connect()
    client.say(GET)
    assert b"Access-Control-Allow-Origin: *\r\n" in on.site.asked[-1].cors
    on.rule("ip:203.0.113.0/24")
    client.say(GET)
    assert on.site.asked[-1].cors == b""
    answer = client.say(b"OPTIONS" + GET[3:])
    assert answer.startswith(b"HTTP/1.1 204 ")
    assert b"Access-Control-Allow-Origin" not in answer


def test_where_origins_are_named_each_hears_of_itself() -> None:
    on = Stage(origins=("https://a.example", "https://b.example"))
    client = on.connect()
    answer = client.say(GET[:-2] + b"Origin: https://b.example\r\n\r\n")
    assert b"Access-Control-Allow-Origin: https://b.example\r\n\r\n#EXTM3U" in answer
    assert on.site.asked[0].cors == b"Vary: Origin\r\n"
    assert b"Access-Control" not in client.say(GET[:-2] + b"Origin: https://c.example\r\n\r\n")
    on.close()


def test_a_websocket_is_not_opened_from_a_page_that_may_not_read(on: Stage) -> None:
    upgrade = GET[:-2] + b"Upgrade: websocket\r\nConnection: Upgrade\r\nOrigin: https://evil.example\r\n\r\n"
    on.rule("ip:203.0.113.0/24")
    assert on.connect().say(upgrade).startswith(b"HTTP/1.1 403 ")
    assert on.connect().say(upgrade.replace(b"Host: x", b"Host: evil.example")).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("named", "address"),
    [
        (b"198.51.100.9", "198.51.100.9:0"),
        (b"1.1.1.1, 198.51.100.9:77", "198.51.100.9:77"),
        (b"1.1.1.1, 198.51.100.9, 203.0.113.8", "198.51.100.9:0"),
        (b"[2001:db8::1]:5", "[2001:db8::1]:5"),
        (b"2001:db8::1", "[2001:db8::1]:0"),
        (b"unknown", PEER),
        (b"198.51.100.9, nonsense", PEER),
        (b"", PEER),
    ],
)
def test_a_trusted_proxy_says_who_it_is(named: bytes, address: str) -> None:
    on = Stage(proxies=("203.0.113.0/24",))
    on.connect().say(GET[:-2] + b"X-Forwarded-For: " + named + b"\r\n\r\n")
    assert on.site.asked[0].address == address
    on.close()


def test_anybody_else_may_say_what_they_want(on: Stage) -> None:
    on.connect().say(GET[:-2] + b"X-Forwarded-For: 1.1.1.1\r\n\r\n")
    assert on.site.asked[0].address == PEER


def test_closing_closes_all(on: Stage) -> None:
    wait_of(on)
    clients = [on.connect() for _ in range(3)]
    clients[0].say(GET)
    on.front.close()
    assert (on.gone, len(on.front), on.loop.interest, on.loop.next_timer_at) == (["gone"] * 3, 0, {}, None)
    assert READ
