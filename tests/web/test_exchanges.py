"""What clients over HTTP may cost, on a clock of the test."""

from penstock.web.clients import Client
from penstock.web.exchanges import Exchange, Exchanges, HttpLimits, Pace

LIMITS = HttpLimits(max_connections=2, request_s=10.0, answer_s=5.0)


class FakeConnection:
    def __init__(self) -> None:
        self.is_over = False
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
