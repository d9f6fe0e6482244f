"""A few threads for calls that block and have no other form: looking up names, and loading certificates.

Owns how many threads there are and how many questions may wait. Those who ask the same thing at the same time share
one answer, so a name that nobody answers for holds one thread, whoever asks for it. A thread that hangs in the system
is not waited for at the end of the process.
"""

import queue
import threading
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

_MAX_THREADS: Final = 4
_MAX_WAITING: Final = 256
T = TypeVar("T")


class Question(Generic[T]):
    """Somebody who waits for an answer. After `cancel` it is not called back."""

    __slots__ = ("on_done",)

    def __init__(self, on_done: Callable[[T | Exception], None]) -> None:
        self.on_done: Callable[[T | Exception], None] | None = on_done

    def cancel(self) -> None:
        """The answer is of no more use."""
        self.on_done = None


class Helper:
    """Has functions called in threads. All of its methods are for the loop's thread."""

    def __init__(
        self, call_from_thread: Callable[[Callable[[], None]], None], *, max_threads: int = _MAX_THREADS
    ) -> None:
        """`call_from_thread` has its argument called on the loop's thread, soon."""
        self._call_from_thread = call_from_thread
        self._max_threads = max_threads
        self._work: queue.SimpleQueue[tuple[Hashable, Callable[[], Any]] | None] = queue.SimpleQueue()
        self._waiting: dict[Hashable, list[Question[Any]]] = {}
        """By what they ask, those whose answer is not there yet."""
        self._threads: list[threading.Thread] = []

    def ask(self, key: Hashable, work: Callable[[], T], on_done: Callable[[T | Exception], None]) -> Question[T]:
        """Have `work` called in a thread, and `on_done` with what it gave or raised. Later, never at once.

        Whoever asks by the same key while it is under way hears the same.
        """
        question: Question[T] = Question(on_done)
        if key in self._waiting:
            self._waiting[key].append(question)
            return question
        if len(self._waiting) >= _MAX_WAITING:
            refused = OSError(f"{len(self._waiting)} other lookups are under way")
            self._call_from_thread(lambda: _tell(question, refused))
            return question
        self._waiting[key] = [question]
        self._work.put((key, work))
        if len(self._threads) < min(len(self._waiting), self._max_threads):
            thread = threading.Thread(target=self._run, name="penstock-lookup", daemon=True)
            self._threads.append(thread)
            thread.start()
        return question

    def close(self) -> None:
        """Nobody is called back any more."""
        for questions in self._waiting.values():
            for question in questions:
                question.cancel()
        self._waiting.clear()
        for _ in self._threads:
            self._work.put(None)

    def _answered(self, key: Hashable, answer: object) -> None:
        for question in self._waiting.pop(key, []):
            _tell(question, answer)

    # In the threads.

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            key, work = item
            answer: object
            try:
                answer = work()
            except Exception as error:
                answer = error
            self._call_from_thread(lambda key=key, answer=answer: self._answered(key, answer))  # type: ignore[misc]


def _tell(question: Question[Any], answer: object) -> None:
    if question.on_done is not None:
        question.on_done(answer)
