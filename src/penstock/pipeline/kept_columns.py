"""Expressions in Java that were asked for before, kept instead of made anew.

Every cycle builds the same columns by the same calls into Java, some seven thousand, and more to give up what they
returned. A column never changes, and what is made of columns, names and numbers is the same each time. So the
functions that PySpark calls answer from memory what they were asked before. Whatever else they are given, such as a
frame, goes to Java as ever. In effect for the Java of this process alone, never for a session that somebody else made.
"""

from collections.abc import Callable
from typing import Any, Final

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

MAX_KEPT: Final = 20_000
"""Then all are forgotten: times are among the numbers, so that some columns of each cycle never come back."""

_FUNCTIONS: Final = ("functions", "org.apache.spark.sql.functions", "org.apache.spark.sql.expressions.Window")
_LISTS: Final = "PythonUtils"
_TO_LISTS: Final = frozenset(("toSeq", "toList"))
_DRAWN: Final = frozenset(("rand", "randn", "randstr", "uniform", "uuid", "shuffle"))
"""Functions that are another one each time."""
_KEYS: Final = frozenset((str, int, bool, float, type(None)))


def keep_columns(spark: SparkSession) -> None:
    """Let PySpark's functions in this process remember."""
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no other way to it
    memory = _Memory()
    for name in _FUNCTIONS:
        setattr(jvm, name, _Functions(memory, getattr(jvm, name)))
    setattr(jvm, _LISTS, _Functions(memory, getattr(jvm, _LISTS), _TO_LISTS))


class _Memory:
    """What was asked, and the answer. Threads may ask the same at the same time: then both answers are right."""

    def __init__(self) -> None:
        self._answers: dict[tuple[Any, ...], Any] = {}

    def ask(self, asked: Any, name: str, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        try:
            key = (asked, name, *map(_key_of, arguments))
        except _OfNoUse:
            return call(*arguments)
        answer = self._answers.get(key)
        if answer is None:
            answer = call(*arguments)
            if isinstance(answer, JavaObject):
                answer = _Kept(self, answer)
            if len(self._answers) >= MAX_KEPT:
                self._answers = {}
            self._answers[key] = answer
        return answer


class _OfNoUse(Exception):
    """An argument that will not come again, or may change."""


def _key_of(argument: Any) -> Any:
    if type(argument) is _Kept:
        return argument
    if type(argument) in _KEYS:
        # 1, 1.0 and True are equal, and not the same to Java.
        return type(argument), argument
    if type(argument) in (list, tuple):
        return tuple(map(_key_of, argument))
    raise _OfNoUse


class _Kept:
    """An object of Java that never changes: a column, a window, or a list of such."""

    def __init__(self, memory: _Memory, java: Any) -> None:
        self._memory = memory
        self._java = java

    def _get_object_id(self) -> str:
        """What it is to Py4J, which takes whatever has this for an object of Java."""
        return str(self._java._get_object_id())  # noqa: SLF001

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or name == "Java":
            # So Py4J asks whether something is a list, a map or an object of Python.
            raise AttributeError(name)
        method = getattr(self._java, name)

        def call(*arguments: Any) -> Any:
            return self._memory.ask(self, name, method, arguments)

        self.__dict__[name] = call
        return call


class _Functions:
    """A class of Java. PySpark would look each of its methods up anew whenever it is called."""

    def __init__(self, memory: _Memory, java: Any, remembered: frozenset[str] | None = None) -> None:
        self._memory = memory
        self._java = java
        self._remembered = remembered

    def __getattr__(self, name: str) -> Any:
        found = method = getattr(self._java, name)
        if name not in _DRAWN if self._remembered is None else name in self._remembered:

            def found(*arguments: Any) -> Any:
                return self._memory.ask(self, name, method, arguments)

        self.__dict__[name] = found
        return found
