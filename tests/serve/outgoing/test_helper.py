"""Calls that block, in a few threads: answered on the loop, shared, bounded."""

import queue
import threading
from collections.abc import Callable

from penstock.serve.outgoing.helper import Helper
from tests.support.rtmp_driver import DEADLINE_S


class Calls:
    """What threads want to have called on the loop."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def post(self, call: Callable[[], None]) -> None:
        self._calls.put(call)

    def run_one(self) -> None:
        self._calls.get(timeout=DEADLINE_S)()


def test_an_answer_is_told_on_the_loop_and_not_before() -> None:
    calls, answers = Calls(), list[object]()
    helper = Helper(calls.post)
    helper.ask("a", lambda: threading.current_thread().name, answers.append)
    assert answers == []
    calls.run_one()
    assert answers == ["penstock-lookup"]
    helper.close()


def test_an_error_is_an_answer() -> None:
    calls, answers = Calls(), list[object]()
    helper = Helper(calls.post)
    fault = OSError("no such host")

    def fail() -> int:
        raise fault

    helper.ask("a", fail, answers.append)
    calls.run_one()
    assert answers == [fault]
    helper.close()


def test_those_who_ask_the_same_share_one_call() -> None:
    calls, answers, may_answer = Calls(), list[object](), threading.Event()
    made = list[int]()
    helper = Helper(calls.post)

    def work() -> int:
        may_answer.wait(DEADLINE_S)
        made.append(1)
        return len(made)

    helper.ask("a", work, answers.append)
    helper.ask("a", work, answers.append)
    may_answer.set()
    calls.run_one()
    assert (answers, made) == ([1, 1], [1])
    helper.close()


def test_one_who_has_cancelled_hears_nothing_and_others_do() -> None:
    calls, answers, others = Calls(), list[object](), list[object]()
    helper = Helper(calls.post)
    question = helper.ask("a", lambda: 1, answers.append)
    helper.ask("a", lambda: 2, others.append)
    question.cancel()
    calls.run_one()
    assert (answers, others) == ([], [1])
    helper.close()


def test_a_call_that_hangs_holds_its_own_thread_alone() -> None:
    calls, answers, may_end = Calls(), list[object](), threading.Event()
    helper = Helper(calls.post, max_threads=2)
    helper.ask("hangs", lambda: may_end.wait(DEADLINE_S), answers.append)
    helper.ask("works", lambda: "address", answers.append)
    calls.run_one()
    assert answers == ["address"]
    may_end.set()
    helper.close()


def test_too_many_questions_are_refused_in_words() -> None:
    calls, answers, may_end = Calls(), list[object](), threading.Event()
    helper = Helper(calls.post, max_threads=1)
    for number in range(256):
        helper.ask(number, lambda: may_end.wait(DEADLINE_S), lambda _answer: None)
    helper.ask("one more", lambda: True, answers.append)
    calls.run_one()
    assert [str(answer) for answer in answers] == ["256 other lookups are under way"]
    helper.close()
    may_end.set()
