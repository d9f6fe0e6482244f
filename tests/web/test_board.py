"""Whether a server is alive and ready, told from what its workers told last and when."""

from penstock.control import messages
from penstock.control.figures import Figures
from penstock.control.messages import Entrance
from penstock.web.board import Board


def told(worker: int, boot_id: str = "b1", pid: int = 50, **figures: int) -> messages.Figures:
    return messages.Figures(worker, boot_id, pid, Figures(**figures).to_plain())  # type: ignore[arg-type]


def lost(worker: int) -> messages.Figures:
    return messages.Figures(worker, "b1", 50, None)


def test_a_server_is_alive_once_every_worker_has_told_something() -> None:
    board = Board(2, 7)
    assert board.complaint(100.0) == "worker 1 is missing"
    board.figures(told(1), 100.0)
    assert board.complaint(100.0) == "worker 2 is missing"
    board.figures(told(2), 100.0)
    assert board.complaint(105.0) is None


def test_a_worker_that_tells_nothing_for_five_seconds_hangs() -> None:
    board = Board(2, 7)
    board.figures(told(1), 100.0)
    board.figures(told(2), 100.0)
    board.figures(told(1), 105.0)
    assert board.complaint(105.1) == "worker 2 does not answer"


def test_what_was_counted_before_is_in_the_totals() -> None:
    board = Board(1, 7)
    board.past_figures(messages.PastFigures(Figures(sent_bytes=100).to_plain()))
    board.figures(told(1, "b2", sent_bytes=5), 100.0)
    assert board.server_figures().total.sent_bytes == 105


def test_a_lost_worker_is_missing_until_there_is_another() -> None:
    board = Board(1, 7)
    board.figures(told(1), 100.0)
    board.figures(lost(1), 101.0)
    assert board.complaint(101.0) == "worker 1 is missing"
    assert board.refusal(101.0) == "no worker is ready"
    assert not board.has_workers
    board.figures(told(1, "b2"), 102.0)
    assert board.complaint(102.0) is board.refusal(102.0) is None
    assert board.has_workers


def test_one_worker_of_two_is_enough_to_be_ready() -> None:
    board = Board(2, 7)
    assert board.refusal(100.0) == "no worker is ready"
    board.figures(told(2), 100.0)
    assert board.refusal(105.0) is None
    assert board.refusal(105.1) == "no worker is ready"


def test_a_server_that_stops_is_alive_but_not_ready() -> None:
    board = Board(1, 7)
    board.figures(told(1), 100.0)
    board.is_stopping = True
    assert board.refusal(100.0) == "shutting down"
    assert board.complaint(100.0) is None


def test_those_whom_the_supervisor_turned_away_are_among_the_limits_hit() -> None:
    board = Board(1, 7)
    board.figures(messages.Figures(1, "b1", 50, {"limits_hit": {"viewers per stream": 2, "connections": 1}}), 100.0)
    board.entrance(Entrance(40, {"connections": 3}, 9))
    board.entrance(Entrance(40, {"connections": 4}, 9))
    assert board.server_figures().total.limits_hit == {"viewers per stream": 2, "connections": 5}


def test_those_whom_web_turned_away_itself_are_too() -> None:
    board = Board(1, 7)
    board.turned_away_here["api tokens"] += 2
    assert board.server_figures().total.limits_hit == {"api tokens": 2}


def test_all_processes_are_known_by_their_pids() -> None:
    board = Board(2, 7)
    assert set(board.server_figures().pids) == {7}
    board.figures(told(1, pid=50), 100.0)
    board.figures(told(2, pid=51), 100.0)
    board.entrance(Entrance(40, {}, 0))
    board.figures(lost(1), 101.0)
    assert set(board.server_figures().pids) == {7, 40, 51}


def test_each_worker_is_told_of_by_itself() -> None:
    board = Board(2, 7)
    board.figures(told(2, viewers=3), 100.0)
    board.figures(told(1, viewers=4), 100.0)
    figures = board.server_figures()
    assert {worker: each.viewers for worker, each in figures.workers.items()} == {1: 4, 2: 3}
    assert figures.total.viewers == 7


def test_a_server_that_drains_takes_nobody_and_says_so() -> None:
    board = Board(1, 7)
    board.figures(told(1), 100.0)
    board.entrance(Entrance(pid=3, turned_away={}, connections=4, is_draining=True))
    assert board.refusal(100.0) == "draining"
    assert board.complaint(100.0) is None
