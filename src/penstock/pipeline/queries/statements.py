"""Which statements only read, told by Spark's own parser.

Owns the list of what a query may consist of. Whatever is not on it is refused, since Spark has many statements that
write, and gets more: some inside a WITH, one that runs a program, one that runs a string. A function that calls any
Java method is taken out of the session of readers.
"""

import re
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.errors import PipelineError

_QUERY_NODES: Final = frozenset(
    (
        *("Project", "Filter", "Aggregate", "Distinct", "Sort", "GlobalLimit", "LocalLimit", "Offset", "Sample"),
        *("Join", "LateralJoin", "Union", "Intersect", "Except", "Generate", "Pivot", "Unpivot", "PipeOperator"),
        *("OneRowRelation", "LocalRelation", "SubqueryAlias", "WithWindowDefinition"),
        *("Repartition", "RepartitionByExpression", "RebalancePartitions"),
        *("UnresolvedRelation", "UnresolvedInlineTable", "UnresolvedTableValuedFunction", "UnresolvedTVFAliases"),
        *("UnresolvedWith", "UnresolvedHaving", "UnresolvedHint", "UnresolvedSubqueryColumnAliases"),
    )
)
_TELLING: Final = ("Show", "Describe", "Explain")
"""How the names of statements begin that tell of tables and plans."""

_CALLS_OF_JAVA: Final = ("reflect", "java_method", "try_reflect")

_FOR_MACHINES: Final = re.compile(r"^\[[A-Z0-9_.]+\] | SQLSTATE: \w{5};?")


def reading_session(spark: SparkSession) -> SparkSession:
    """A session beside this one that sees the same tables and cannot call Java."""
    session = spark.newSession()
    registry = session._jsparkSession.sessionState().functionRegistry()  # noqa: SLF001 - Python has no word for it
    for name in _CALLS_OF_JAVA:
        registry.dropFunction(_builtin(session, name))
    return session


def check_only_reads(spark: SparkSession, statement: str) -> None:
    """Raise unless the statement is a query, SHOW, DESCRIBE or EXPLAIN."""
    parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001
    try:
        plan = parser.parsePlan(statement)
    except PySparkException as error:
        raise PipelineError(f"sql: {one_line(error)}") from error
    if _name(plan).startswith(_TELLING):
        return
    for name in _names(plan):
        if name not in _QUERY_NODES:
            raise PipelineError(f"sql: only queries, SHOW, DESCRIBE and EXPLAIN without --write; this has {name}")


def one_line(error: Exception) -> str:
    """What Spark says, without the plan, the trace and the codes for machines."""
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    text = str(error if cause is None else cause.getMessage()).strip()
    # What was asked is repeated below the message, and below that stands the plan.
    for mark in ("\n== SQL", ";\n'", "\nJVM stacktrace", "\n\tat "):
        text = text.split(mark, maxsplit=1)[0]
    text = _FOR_MACHINES.sub("", " ".join(text.split())).strip()
    return text[:500] or type(error).__name__


def _names(plan: Any) -> list[str]:
    found = [_name(plan)]
    for inner in (plan.children(), plan.innerChildren()):
        for index in range(inner.size()):
            found += _names(inner.apply(index))
    return found


def _name(plan: Any) -> str:
    return str(plan.getClass().getSimpleName()).rstrip("$")


def _builtin(spark: SparkSession, name: str) -> Any:
    jvm: Any = spark._jvm  # noqa: SLF001
    some = jvm.scala.Some
    return jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name, some("builtin"), some("system"))
