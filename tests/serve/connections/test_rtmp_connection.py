"""One connection: what it reads in a turn, when it stops reading, what it sends, and how it ends."""

# Long because: one connection, driven into each of its states.

import errno
from dataclasses import replace

import pytest

from penstock.protocol.events import (
    ConnectRequested,
    Event,
    HandshakeCompleted,
    PlayRequested,
    PublishEnded,
    PublishRequested,
)
from penstock.serve.coalesced_reads import Pace
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.reactor import READ, WRITE
from penstock.serve.settings import ServerSettings
from tests.serve.fake_peer import HELLO, FakePeer, audio, codes, ping
from tests.serve.fakes import FakeLoop, FakeOwner
from tests.support.hostile_clients import AUDIO, DATA, command, connect_command, full_header, message
from tests.support.session_runs import grant, new_server

LOST = OSError(errno.ECONNRESET, "Connection reset by peer")


class FakeSink:
    """What a connection publishes to."""

    key = "live/a"
    has_viewers = True

    def __init__(self) -> None:
        self.taken: list[tuple[int, bytes]] = []

    def take_media(self, type_id: int, timestamp_ms: int, payload: bytes, now: float) -> None:
        self.taken.append((timestamp_ms, payload))


class Stage:
    """A connection, its peer, and an owner that grants everything."""

    def __init__(self, settings: ServerSettings | None = None, *, is_encrypted: bool = False) -> None:
        self.loop = FakeLoop()
        self.owner = FakeOwner(settings)
        self.owner.decide = self.decide
        self.sink = FakeSink()
        self.transport = self.loop.new_transport(can_send_files=not is_encrypted)
        self.connection = RtmpConnection(
            "1", "192.0.2.1:1000", self.transport, new_server(), loop=self.loop, owner=self.owner
        )
        self.peer = FakePeer(self.loop, self.transport, self.connection)

    def decide(self, connection: RtmpConnection, event: Event) -> None:
        if isinstance(event, HandshakeCompleted):
            connection.handshaken_at = self.loop.now
        elif isinstance(event, PublishRequested):
            self.accept_publish(event.stream_id)
        elif isinstance(event, PublishEnded):
            del connection.publications[event.stream_id]
            connection.update_rates()
        elif not isinstance(event, PlayRequested):
            grant(connection.session, event)

    def accept_publish(self, stream_id: int) -> None:
        self.connection.publications[stream_id] = self.sink
        self.connection.session.accept_publish(stream_id)
        self.connection.update_rates()

    def publishing(self) -> "Stage":
        self.peer.with_streams().publish()
        assert self.connection.publications
        return self

    @property
    def interest(self) -> int:
        return self.loop.interest[self.transport.descriptor]

    @property
    def is_reading(self) -> bool:
        return bool(self.interest & READ)


# Reading.


def test_what_comes_is_answered_in_the_same_turn() -> None:
    on = Stage()
    on.transport.feed(HELLO + connect_command())
    on.loop.run_events()
    assert len(on.transport.output) > 3073
    assert codes(on.peer.hear()) == ["NetConnection.Connect.Success"]
    assert on.loop.queued_turns == 0


def test_what_is_published_reaches_the_stream_in_order() -> None:
    on = Stage().publishing()
    on.peer.say(audio(20, b"one"), audio(40, b"two"))
    assert on.sink.taken == [(20, b"\xaf\x01one"), (40, b"\xaf\x01two")]


def test_a_peer_is_heard_when_it_sends() -> None:
    on = Stage().publishing()
    on.loop.advance(5.0)
    assert on.connection.heard_at == on.loop.now - 5.0
    on.peer.say(audio())
    assert on.connection.heard_at == on.loop.now


@pytest.mark.parametrize(("publishes", "size"), [(True, 65536), (False, 8192)])
def test_a_turn_reads_four_times_and_less_of_those_who_publish_nothing(publishes: bool, size: int) -> None:
    on = Stage()
    on.peer.with_streams()
    if publishes:
        on.peer.publish()
    on.transport.receives.clear()
    on.transport.feed(message(DATA, bytes(4000), csid=8, stream_id=1, chunk_bytes=128) * 200)
    on.loop.run_events()
    assert on.transport.receives == [size] * 4
    assert on.is_reading
    on.loop.settle()
    assert on.transport.unread_bytes == 0


def test_a_read_that_is_not_full_is_the_last_of_its_turn() -> None:
    on = Stage().publishing()
    on.transport.receives.clear()
    on.peer.say(audio())
    assert on.transport.receives == [65536]


def test_a_turn_with_much_media_ends_in_time_and_goes_on_in_another() -> None:
    on = Stage().publishing()
    on.loop.look_costs_s = 0.0011
    on.transport.feed(b"".join(audio(number) for number in range(100)))
    on.loop.run_events()
    assert len(on.sink.taken) == 8, "it looks at the clock after each 4 messages"
    assert not on.is_reading, "what it has is enough"
    assert on.loop.queued_turns == 1
    on.loop.run_turns()
    assert len(on.sink.taken) == 16
    on.loop.settle()
    assert [timestamp_ms for timestamp_ms, _ in on.sink.taken] == list(range(100))
    assert on.is_reading
    assert on.loop.queued_turns == 0


def test_work_without_events_ends_in_time_and_goes_on_in_another_turn() -> None:
    on = Stage(ServerSettings(max_messages_per_s=10**6))
    on.peer.connected()
    on.loop.look_costs_s = 0.0011
    on.transport.feed(b"".join(map(ping, range(400))))
    on.loop.run_events()
    assert 0 < len(on.peer.hear()) < 400
    assert on.loop.queued_turns == 1
    on.loop.run_turns()
    assert 0 < len(on.peer.hear()) < 400
    on.loop.settle()
    on.peer.hear()
    assert len([each for each in on.peer.messages if each.type_id == 4]) == 400


def test_a_turn_that_has_time_goes_on_although_the_session_gave_way() -> None:
    on = Stage(ServerSettings(max_messages_per_s=10**6))
    on.peer.connected()
    on.transport.feed(b"".join(map(ping, range(400))))
    on.loop.run_events()
    assert len([each for each in on.peer.hear() if each.type_id == 4]) == 400


def test_what_a_peer_makes_us_hold_is_told_and_told_to_be_gone() -> None:
    on = Stage()
    on.peer.connected()
    on.peer.say(full_header(3, 20, 1000) + bytes(128))
    assert on.connection.held_bytes == on.owner.held_bytes >= 128
    on.peer.say(full_header(8, 20, 1000) + bytes(128))
    assert on.connection.held_bytes == on.owner.held_bytes >= 256
    on.connection.close("enough")
    assert on.owner.held_bytes == 0


# Requests that are decided later.


def test_while_a_request_is_undecided_nothing_more_is_read() -> None:
    on = Stage()
    on.peer.with_streams()
    on.owner.decide = lambda _connection, _event: None
    on.peer.say(command("publish", 3.0, None, "a", "live", stream_id=1), audio(20))
    on.peer.say(audio(40))
    assert not on.is_reading
    assert on.transport.unread_bytes == len(audio(40))
    on.accept_publish(1)
    on.connection.request_turn()
    on.loop.settle()
    assert codes(on.peer.hear()) == ["NetStream.Publish.Start"]
    assert [timestamp_ms for timestamp_ms, _ in on.sink.taken] == [20, 40]
    assert on.is_reading


def test_an_answer_that_nobody_waits_for_by_then_asks_for_no_turn() -> None:
    on = Stage()
    on.peer.connected()
    on.connection.close("gone")
    on.connection.request_turn()
    assert on.loop.queued_turns == 0


# Replies that are not read.


def test_one_who_does_not_read_our_answers_is_not_read_either() -> None:
    on = Stage(ServerSettings(max_messages_per_s=10**6, max_unread_reply_bytes=1000))
    on.peer.connected()
    on.transport.room_bytes = 0
    on.transport.feed(b"".join(map(ping, range(2000))))
    on.loop.settle()
    assert on.interest == WRITE
    assert on.transport.unread_bytes > 0
    assert 1000 <= on.connection.queue.queued_bytes < 1000 + 128 * 18, "one call of the session comes on top"
    on.transport.room_bytes = 10**9
    on.loop.settle()
    assert len([each for each in on.peer.hear() if each.type_id == 4]) == 2000
    assert on.interest == READ


def test_what_an_event_queues_for_one_who_does_not_read_is_looked_at_before_the_next_event() -> None:
    on = Stage()
    on.peer.with_streams()
    on.transport.room_bytes = 0
    asked = []

    def queue_much(connection: RtmpConnection, event: Event) -> None:
        asked.append(event)
        connection.queue.put(bytes(70_000))

    on.owner.decide = queue_much
    play = command("play", 0.0, None, "a", stream_id=1) + command("closeStream", 0.0, None, stream_id=1)
    on.transport.feed(play * 10)
    on.loop.settle()
    assert len(asked) == 1


def test_a_peer_that_takes_a_little_is_sent_the_rest_when_it_takes_more() -> None:
    on = Stage()
    on.transport.room_bytes = 1000
    on.peer.connected()
    assert on.interest == READ | WRITE
    on.transport.room_bytes = 10**6
    on.loop.settle()
    assert codes(on.peer.hear()) == ["NetConnection.Connect.Success"]
    assert on.interest == READ


# Rates.


def test_one_who_asks_for_more_than_its_allowance_is_not_read_for_a_while() -> None:
    on = Stage(ServerSettings(max_messages_per_s=100))
    on.peer.connected()
    on.peer.say(*map(ping, range(520)))
    assert not on.is_reading
    assert on.connection.rates.limit == "messages"
    on.transport.feed(ping())
    on.loop.settle()
    assert on.transport.unread_bytes == len(ping())
    on.loop.advance(2.0)
    assert on.is_reading
    assert on.transport.unread_bytes == 0


def test_bytes_of_one_who_publishes_nothing_count_as_well() -> None:
    on = Stage(ServerSettings(max_messages_per_s=10))
    on.peer.connected()
    on.peer.say(message(30, bytes(60_000), chunk_bytes=128))
    assert on.connection.rates.limit == "messages"


def test_a_pause_is_never_so_short_that_timers_are_the_work() -> None:
    on = Stage(ServerSettings(max_messages_per_s=10_000))
    on.peer.connected()
    before = on.loop.now
    on.connection.charge(50_001)
    on.loop.settle()
    assert on.loop.next_timer_at == before + 0.05


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        (ServerSettings(max_publish_messages_per_s=10), "publish messages"),
        (ServerSettings(max_publish_bps=8_000), "publish bandwidth"),
    ],
)
def test_publishers_have_rates_of_their_own(settings: ServerSettings, limit: str) -> None:
    on = Stage(settings).publishing()
    on.peer.say(*(audio(number, bytes(100)) for number in range(40)))
    assert on.connection.rates.limit == limit


def test_an_encoder_at_its_usual_rates_is_never_slowed_down() -> None:
    on = Stage().publishing()
    for number in range(300):
        on.peer.say(*(audio(number, bytes(1000)) for _ in range(10)))
        on.loop.advance(0.02)
    assert on.connection.rates.limit is None


def test_begun_and_ended_publications_do_not_pay_for_a_flood() -> None:
    on = Stage(ServerSettings(max_messages_per_s=100, max_publish_messages_per_s=1000))
    on.peer.with_streams()
    for _ in range(100):
        on.peer.say(*map(ping, range(400)))
        on.peer.publish()
        on.peer.close_stream()
    assert on.connection.rates.limit is not None


def test_one_that_was_too_fast_is_forgiven_when_it_has_kept_to_its_allowance_for_long_enough() -> None:
    on = Stage(ServerSettings(max_messages_per_s=100))
    on.peer.connected()
    on.peer.say(*map(ping, range(520)))
    on.loop.advance(5.0)
    on.peer.say(ping())
    assert on.connection.rates.limit == "messages"
    on.loop.advance(1.0)
    on.peer.say(ping())
    assert on.connection.rates.limit is None


def test_one_that_is_slowed_down_again_and_again_has_been_too_fast_since_the_first_time() -> None:
    on = Stage(ServerSettings(max_messages_per_s=1000))
    on.peer.connected()
    since = on.loop.now
    on.peer.say(ping() * 30_000)
    on.loop.advance(8.0)
    assert on.transport.unread_bytes > 0
    assert on.connection.rates.too_fast_for_s(on.loop.now) == on.loop.now - since


def test_one_that_was_too_fast_once_is_not_the_longer_so_the_longer_it_is_quiet() -> None:
    on = Stage(ServerSettings(max_messages_per_s=100))
    on.peer.connected()
    on.peer.say(*map(ping, range(600)))
    paused_at = on.loop.now
    on.loop.advance(20.0)
    assert on.connection.rates.too_fast_for_s(on.loop.now) < 2.0
    assert on.connection.rates.too_fast_for_s(paused_at + 0.5) == 0.5


# Sending.


def test_what_the_session_was_told_to_say_is_sent_at_once() -> None:
    on = Stage()
    on.peer.connected()
    on.connection.session.send_ping(7)
    on.connection.send_session_data()
    assert [each.payload for each in on.peer.hear()[-1:]] == [bytes.fromhex("0006 00000007")]


def test_what_the_session_says_to_one_that_is_full_waits_in_the_queue() -> None:
    on = Stage()
    on.peer.connected()
    on.transport.room_bytes = 0
    on.connection.session.send_ping(7)
    on.connection.send_session_data()
    assert on.interest == READ | WRITE
    assert on.connection.queue.queued_bytes > 0
    on.connection.session.send_ping(8)
    on.connection.send_session_data()
    on.transport.room_bytes = 1000
    on.loop.settle()
    assert [each.payload[-1] for each in on.peer.hear()[-2:]] == [7, 8]


def test_a_send_past_the_queue_says_what_was_taken_and_what_is_lost() -> None:
    on = Stage()
    on.transport.room_bytes = 3
    assert on.connection.send_now(b"abcd") == 3
    on.transport.fault = LOST
    assert on.connection.send_now(b"d") == -1
    assert on.owner.closings == [], "the caller's matter"


def test_bytes_that_tls_could_not_pass_on_wake_it_when_the_peer_reads() -> None:
    on = Stage(is_encrypted=True)
    on.loop.settle()
    on.transport.holds_back = True
    assert on.connection.send_now(b"abcd") == 4
    assert on.interest & WRITE
    on.transport.holds_back = False
    on.loop.settle()
    assert not on.interest & WRITE


def test_what_came_with_the_handshake_of_tls_is_read_without_an_event() -> None:
    on = Stage(is_encrypted=True)
    on.transport.feed(HELLO)
    on.loop.run_turns()
    assert on.transport.unread_bytes == 0


# Coalesced reads.


def test_one_that_is_read_with_others_is_read_at_once_while_it_has_to_read_first() -> None:
    on = Stage()
    on.peer.connected()
    on.connection.set_pace(Pace.LAZY)
    assert on.loop.paces == {on.transport.descriptor: Pace.LAZY}
    on.transport.room_bytes = 0
    on.connection.session.send_ping(1)
    on.connection.send_session_data()
    assert on.loop.paces == {}
    on.transport.room_bytes = 1000
    on.loop.settle()
    assert on.loop.paces == {on.transport.descriptor: Pace.LAZY}


def test_of_one_that_is_read_with_others_a_full_turn_leads_to_another() -> None:
    on = Stage().publishing()
    on.connection.set_pace(Pace.LAZY)
    on.transport.feed(audio(0, bytes(100)) * 5000)
    on.loop.run_events()
    assert on.transport.unread_bytes > 0
    assert on.loop.queued_turns == 1
    on.loop.run_turns()
    assert on.transport.unread_bytes < 5000 * len(audio(0, bytes(100))) - 8 * 65536 + 1


# The end.


def test_a_peer_that_hangs_up_is_closed_and_what_it_did_has_ended() -> None:
    on = Stage().publishing()
    left: list[str] = []
    on.connection.on_close = lambda: left.append("left")
    on.peer.hang_up()
    assert on.owner.closings == ["closed by the peer"]
    assert [type(event) for event in on.owner.events[-1:]] == [PublishEnded]
    assert on.connection.is_closed
    assert on.transport.is_closed
    assert (on.loop.interest, left) == ({}, ["left"])


def test_what_was_sent_before_the_end_is_read_before_it() -> None:
    on = Stage().publishing()
    on.transport.feed(audio(20))
    on.transport.is_ended = on.transport.is_hung_up = True
    on.loop.settle()
    assert len(on.sink.taken) == 1
    assert on.owner.closings == ["closed by the peer"]


def test_it_ends_once() -> None:
    on = Stage().publishing()
    on.connection.close("first")
    on.connection.close("second")
    on.connection.send()
    on.connection.set_pace(Pace.LAZY)
    assert on.owner.closings == ["first"]


def test_a_connection_that_is_lost_says_why() -> None:
    on = Stage()
    on.transport.fault = LOST
    on.transport.feed(b"x")
    on.loop.settle()
    assert on.owner.closings == ["connection lost: Connection reset by peer"]


def test_a_connection_that_is_lost_while_sending_says_why() -> None:
    on = Stage()
    on.peer.connected()
    on.transport.fault = LOST
    on.connection.session.send_ping(1)
    on.connection.send_session_data()
    assert on.owner.closings == ["connection lost: Connection reset by peer"]


def test_a_peer_that_hangs_up_while_it_is_not_read_is_closed_instead_of_told_of_for_ever() -> None:
    on = Stage()
    on.peer.with_streams()
    on.owner.decide = lambda _connection, _event: None
    on.peer.say(command("publish", 3.0, None, "a", "live", stream_id=1))
    assert not on.is_reading
    on.transport.is_hung_up = True
    on.loop.settle()
    assert on.owner.closings == ["connection lost"]


def test_one_that_breaks_the_protocol_is_its_owners_matter() -> None:
    on = Stage()
    on.peer.connected()
    on.peer.say(connect_command())
    assert [violation.layer for violation in on.owner.violations] == ["session"]
    assert on.connection.is_closed


def test_a_bug_costs_the_connection_and_is_told() -> None:
    on = Stage()

    def fail(_connection: RtmpConnection, event: Event) -> None:
        if isinstance(event, ConnectRequested):
            raise ZeroDivisionError

    on.owner.decide = fail
    on.peer.connected()
    assert [type(bug) for bug in on.owner.bugs] == [ZeroDivisionError]
    assert on.owner.closings == ["bug"]


def test_a_bug_at_the_end_of_one_publication_does_not_hide_the_others() -> None:
    on = Stage()
    on.peer.with_streams(2)
    on.peer.publish("a", stream_id=1)
    on.peer.publish("b", stream_id=2)
    ended: list[int] = []

    def fail(_connection: RtmpConnection, event: Event) -> None:
        assert isinstance(event, PublishEnded)
        ended.append(event.stream_id)
        raise ZeroDivisionError

    on.owner.decide = fail
    on.connection.close("gone")
    assert (ended, len(on.owner.bugs)) == ([1, 2], 2)
    assert on.owner.closings == ["gone"]


def test_a_request_that_was_not_looked_at_before_the_end_is_not_asked_for() -> None:
    on = Stage()
    on.peer.with_streams()
    on.loop.look_costs_s = 1.0
    on.peer.play("a")
    asked = len(on.owner.events)
    on.transport.feed(command("play", 3.0, None, "b", stream_id=1))
    on.loop.run_events()
    assert on.loop.queued_turns == 1, "between the end of the first play and the second"
    on.connection.close("gone")
    assert [type(event).__name__ for event in on.owner.events[asked:]] == ["PlayEnded", "PlayEnded"]


def test_one_that_is_to_be_closed_and_has_been_sent_everything_is_closed_in_its_next_turn() -> None:
    on = Stage()
    on.peer.connected()
    on.connection.close_when_sent = True
    on.connection.request_turn()
    on.loop.run_turns()
    assert on.owner.closings == ["closed by the server"]


def test_one_that_is_to_be_closed_is_not_while_tls_has_bytes_of_it() -> None:
    on = Stage(is_encrypted=True)
    on.peer.connected()
    on.transport.holds_back_what_is_sent = True
    on.connection.close_when_sent = True
    on.connection.session.send_ping(1)
    on.connection.send_session_data()
    assert on.owner.closings == []
    assert on.interest & WRITE
    on.transport.holds_back = False
    on.loop.settle()
    assert on.owner.closings == ["closed by the server"]


def test_one_that_is_to_be_closed_is_closed_when_everything_is_sent() -> None:
    on = Stage()
    on.peer.connected()
    on.transport.room_bytes = 0
    on.connection.session.send_ping(1)
    on.connection.close_when_sent = True
    on.connection.send_session_data()
    assert not on.connection.is_closed
    on.transport.room_bytes = 1000
    on.loop.settle()
    assert [each.type_id for each in on.peer.hear()[-1:]] == [4]
    assert on.owner.closings == ["closed by the server"]


def test_last_words_come_behind_everything_else() -> None:
    on = Stage()
    on.peer.connected()
    on.transport.room_bytes = 0
    on.connection.session.send_ping(1)
    on.connection.send_session_data()
    on.connection.last_words = lambda: on.connection.session.announce_shutdown("Bye.")
    on.connection.close_when_sent = True
    on.connection.request_turn()
    on.loop.settle()
    assert not on.connection.is_closed
    on.transport.room_bytes = 10
    on.loop.settle()
    on.transport.room_bytes = 1000
    on.loop.settle()
    assert [each.type_id for each in on.peer.hear()[-2:]] == [4, 20]
    assert codes(on.peer.messages[-1:]) == ["NetConnection.Connect.AppShutdown"]
    assert on.owner.closings == ["closed by the server"]


def test_a_pause_that_ends_after_the_end_does_no_harm() -> None:
    on = Stage(ServerSettings(max_messages_per_s=100))
    on.peer.connected()
    on.peer.say(*map(ping, range(520)))
    on.connection.close("gone")
    on.loop.advance(10.0)
    assert on.owner.bugs == []


def test_settings_that_are_applied_later_hold_for_the_next_publication() -> None:
    on = Stage()
    on.peer.with_streams()
    on.owner.settings = replace(on.owner.settings, max_publish_messages_per_s=10)
    on.peer.publish()
    on.peer.say(*(message(AUDIO, b"\xaf\x01", csid=4, stream_id=1) for _ in range(40)))
    assert on.connection.rates.limit == "publish messages"
