"""What clients over HTTP may cost, on a clock of the test."""

import asyncio

from penstock.web.asgi import Event, Receive, Scope, Send
from penstock.web.clients import Client
from penstock.web.exchanges import Exchange, Exchanges, HttpLimits, Pace, stay_open

LIMITS = HttpLimits(max_connections=2, request_s=10.0, answer_s=5.0, max_long_lived=2, stalled_s=60.0)


class FakeConnection:
    def __init__(self) -> None:
        self.is_over = False
        self.unsent_bytes = 0
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


class Desk:
    """Open exchanges, at a time that is set."""

    def __init__(self) -> None:
        self.time = 100.0
        self.exchanges = Exchanges(lambda: self.time, LIMITS)

    def begin(self, port: int) -> tuple[Exchange, FakeConnection]:
        assert self.exchanges.make_room()
        exchange, connection = self.exchanges.expect(Client(("192.0.2.1", port), "http")), FakeConnection()
        self.exchanges.add(exchange, connection)
        return exchange, connection

    def wait(self, delay_s: float) -> None:
        self.time += delay_s
        self.exchanges.look()


def test_one_that_does_not_ask_is_ended_in_time() -> None:
    desk = Desk()
    _, silent = desk.begin(1)
    desk.wait(9.9)
    assert not silent.is_aborted
    desk.wait(0.1)
    assert (silent.is_aborted, desk.exchanges.is_empty) == (True, True)


def test_one_that_asked_has_time_for_the_answer_and_again_to_take_it() -> None:
    desk = Desk()
    exchange, connection = desk.begin(1)
    desk.wait(9.0)
    desk.exchanges.asked(exchange)
    desk.wait(4.0)
    desk.exchanges.answered(exchange)
    desk.wait(4.9)
    assert not connection.is_aborted
    desk.wait(0.1)
    assert connection.is_aborted


def test_one_that_is_over_is_forgotten() -> None:
    desk = Desk()
    _, connection = desk.begin(1)
    assert not desk.exchanges.is_empty
    connection.is_over = True
    assert (desk.exchanges.is_empty, connection.is_aborted) == (True, False)


def test_at_the_limit_the_oldest_that_has_not_asked_gives_way() -> None:
    desk = Desk()
    (asking, first), (_, second) = desk.begin(1), desk.begin(2)
    desk.exchanges.asked(asking)
    exchange, third = desk.begin(3)
    assert [each.is_aborted for each in (first, second, third)] == [False, True, False]
    desk.exchanges.asked(exchange)
    assert not desk.exchanges.make_room(), "all of them are being answered"


def test_at_the_end_all_are_ended() -> None:
    desk = Desk()
    connections = [desk.begin(port)[1] for port in (1, 2)]
    desk.exchanges.abort_all()
    assert [each.is_aborted for each in connections] == [True, True]


def test_turns_that_are_not_waited_for_come_at_the_same_rate() -> None:
    pace = Pace(per_s=10.0, burst=3.0)
    assert [pace.has_turn(100.0) for _ in range(5)] == [True, True, True, False, False]
    assert [pace.has_turn(100.1001), pace.has_turn(100.15), pace.has_turn(100.2002)] == [True, False, True]


def test_a_long_answer_lasts_while_the_client_takes_it() -> None:
    desk = Desk()
    exchange, connection = desk.begin(1)
    desk.exchanges.asked(exchange)
    assert desk.exchanges.stay_open(exchange)
    for _ in range(3):
        desk.wait(59.0)
        desk.exchanges.progressed(exchange)
    assert not connection.is_aborted
    desk.wait(60.0)
    assert connection.is_aborted


def test_a_client_of_a_long_answer_that_has_more_written_than_it_takes_is_ended_at_once() -> None:
    desk = Desk()
    exchange, connection = desk.begin(1)
    connection.unsent_bytes = 1024 * 1024 + 1
    desk.wait(0.1)
    assert not connection.is_aborted, "a short answer may be of any size"
    assert desk.exchanges.stay_open(exchange)
    connection.unsent_bytes = 1024 * 1024
    desk.wait(0.1)
    assert not connection.is_aborted
    connection.unsent_bytes += 1
    desk.wait(0.1)
    assert connection.is_aborted


def test_long_answers_are_counted_apart_and_bounded() -> None:
    desk = Desk()
    first = [desk.begin(port) for port in (1, 2)]
    assert [desk.exchanges.stay_open(exchange) for exchange, _ in first] == [True, True]
    for exchange, _ in first:
        desk.exchanges.asked(exchange)
    late, _ = desk.begin(3)
    desk.begin(4)
    assert not desk.exchanges.stay_open(late)
    first[0][1].is_over = True
    desk.wait(0.1)
    assert desk.exchanges.stay_open(late)


def test_an_application_asks_by_its_scope_for_a_long_answer() -> None:
    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        desk.time += 4.0
        asked.append(stay_open(scope))
        desk.wait(59.0)
        await send({"type": "http.response.body", "body": b"1", "more_body": True})
        desk.wait(59.0)

    async def receive() -> Event:
        return {"type": "http.disconnect"}

    async def send(event: Event) -> None:
        sent.append(event["body"])

    desk, asked, sent = Desk(), list[bool](), list[bytes]()
    exchange, connection = desk.begin(1)
    asyncio.run(desk.exchanges.serve(exchange, app, {"type": "http"}, receive, send))
    assert (asked, sent, connection.is_aborted) == ([True], [b"1"], False)


def test_where_nobody_bounds_answers_all_may_be_long() -> None:
    assert stay_open({"type": "http"})


def test_answers_without_an_end_do_not_hold_up_the_end_of_the_process() -> None:
    desk = Desk()
    exchange, _ = desk.begin(1)
    assert not desk.exchanges.is_empty
    assert desk.exchanges.stay_open(exchange)
    assert desk.exchanges.is_empty
