"""Every place that reads a source is planned for itself, so that filters may be pushed into it.

Spark 4.3 keeps what was planned for a pushed filter with the DataFrame that was loaded: later queries of it that push
no filter, and both sides of a union with itself, are answered by that plan, wrongly and without an error. A rule of
Spark's optimiser parts them (`OwnPlans.java`). It is compiled in the driver's Java, by the compiler that Spark has for
its own code. Sources other than ours are left as they are.
"""

from importlib.resources import files
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkAttributeError
from pyspark.sql import SparkSession

RULE: Final = "penstock.OwnPlans"


def have_own_plans(spark: SparkSession) -> bool:
    """Let all queries of this session be planned so; False: this Spark does not allow it."""
    try:
        session, jvm = spark._jsparkSession, spark._jvm  # noqa: SLF001 - there is no other way to it
    except PySparkAttributeError:
        # Spark Connect, whose Java is another machine's.
        return False
    try:
        extensions = session.extensions()
        if RULE not in _rules_of(extensions, session):
            extensions.injectOptimizerRule(_compiled(jvm))
        return RULE in _rules_of(extensions, session)
    except Py4JError:
        # Of another version. Nothing was changed, and without pushed filters every answer is right.
        return False


def _rules_of(extensions: Any, session: Any) -> list[str]:
    rules = extensions.buildOptimizerRules(session)
    return [rules.apply(place).getClass().getName() for place in range(rules.size())]


def _compiled(jvm: Any) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook((files(__package__) / "OwnPlans.java").read_text(encoding="utf-8"))
    rule = compiler.getClassLoader().loadClass(RULE).getDeclaredConstructors()[0].newInstance(None)
    rule.check()
    return rule
