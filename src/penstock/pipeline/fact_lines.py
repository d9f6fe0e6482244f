"""Lines of landing files to facts, and why a line is none. DataFrames in, DataFrames out.

Owns the border: what passes here has the types, the fields and the identity that the contract promises, so nothing
behind it checks again. A line that does not pass keeps its text and gets the name of the first rule that it breaks.
Fields that the contract does not know are left aside: they are a newer server's.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from penstock.facts import CONTRACT_VERSION, FACTS, Envelope
from penstock.pipeline import identity
from penstock.pipeline.schemas import bronze_schema, fields_of, landing_schema

MAX_LINE_BYTES: Final = 1024 * 1024
"""Longer lines are not read; `missed_lines` has their beginnings."""
KEPT_RAW_CHARACTERS: Final = 64 * 1024
MAX_AHEAD_US: Final = 10 * 60 * 1_000_000
UNKNOWN_VERSION: Final = "unknown_version"
UNKNOWN_KIND: Final = "unknown_kind"
REPLAYED: Final = (UNKNOWN_VERSION, UNKNOWN_KIND)
"""What newer software may understand."""

_OF_FILE: Final = ("file", "landed_at_us", "file_bytes")
_BROKEN: Final = "_broken"
_OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _BROKEN,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
_YEAR_2000_US: Final = 946_684_800_000_000
_MAX_AMOUNT: Final = 10**15
"""A petabyte, or 31 years. Thousands of such amounts can be added up before 64 bits are full."""
_SUMS_OVER_VIEWERS: Final = ("viewers_sent_bytes", "viewers_watched_us")
_MAX_SUM: Final = 10**17
"""Ten thousand viewers of one stream reach a petabyte, or 31 years together, within days."""
_MAX_FRACTION: Final = 1e12
_NEVER_NEGATIVE: Final = (
    "seq",
    "mono_us",
    "uptime_us",
    "duration_us",
    "received_bytes",
    "sent_bytes",
    "waited_us",
    "startup_us",
    "watched_us",
    "skips",
    "skipped_bytes",
    "viewers",
    *_SUMS_OVER_VIEWERS,
    "interval_us",
    "bitrate_bps",
)
_CLOCKS: Final = ("at_us", "mono_us", "boot_wall_us", "boot_mono_us", "wall_us", "started_at_us")
_KINDS_WITH_VIEW: Final = tuple(
    kind for kind, fact in FACTS.items() if any(field.name == "view_id" for field in fields_of(fact))
)
_KINDS_WITH_VIEWER: Final = ("play_started", "play_stopped")


def facts_of_lines(lines: DataFrame, oldest_us: int = 0) -> DataFrame:
    """One row per line in and out. In: `value`, `file`, `landed_at_us`, `file_bytes`.

    Out: the fields of landing, `file`, `landed_at_us`, `file_bytes`, `line_bytes`, `refusal`, which is null for a fact,
    and `raw`, the text of a line that is none. Facts from before `oldest_us` are refused: the tables of that time can
    not be made anew.
    """
    schema = StructType([*landing_schema(), StructField(_BROKEN, StringType())])
    text = F.rtrim("value")
    read = lines.select(
        F.from_json("value", schema, _OPTIONS).alias("fact"),
        F.octet_length("value").alias("line_bytes"),
        # Two lines in one, or a line with something behind it, of which the parser would see the first only.
        (~text.endswith("}") | text.contains('}{"event_id"')).alias("_is_joined"),
        "value",
        *_OF_FILE,
    )
    flat = read.select("fact.*", "line_bytes", "_is_joined", "value", *_OF_FILE)
    judged = flat.withColumn("refusal", _refusal(oldest_us))
    kept_characters = F.when(F.col("refusal").isin(*REPLAYED), MAX_LINE_BYTES).otherwise(KEPT_RAW_CHARACTERS)
    # Strings of a Parquet file have to be text, for readers other than Spark.
    raw = F.when(F.col("refusal").isNotNull(), F.make_valid_utf8(F.substring("value", F.lit(1), kept_characters)))
    return judged.select(*landing_schema().names, *_OF_FILE, "line_bytes", "refusal", raw.alias("raw"))


def bronze_rows(facts: DataFrame, salts: Mapping[str, str]) -> DataFrame:
    """One row per fact in and out: facts that were not refused, to rows of bronze with `kind` and `hour`."""
    kind = F.col("kind")
    has_viewer = kind.isin(*_KINDS_WITH_VIEWER)
    viewer = {name: F.col(name) for name in ("auth_subject", "viewer", "peer_addr", "client", "at_us")}
    added = {
        "boot_key": identity.boot_key(F.col("server_id"), F.col("boot_id")),
        "view_seq": identity.view_seq(kind, F.col("seq"), F.when(kind.isin(*_KINDS_WITH_VIEW), F.col("view_id"))),
        "viewer_key": F.when(has_viewer, identity.viewer_key(viewer, salts)) if salts else F.lit(None).cast("string"),
        "network": F.when(F.col("_ip").isNotNull(), identity.network_of(F.col("_ip"))),
    }
    columns = [added[name].alias(name) if name in added else F.col(name) for name in bronze_schema().names]
    # A column of its own, since the network asks for it a dozen times.
    with_ip = facts.withColumn("_ip", F.when(F.col("peer_addr").isNotNull(), identity.ip_of(F.col("peer_addr"))))
    return with_ip.select(*columns, kind, identity.hour_of(F.col("at_us")).alias("hour"))


def _refusal(oldest_us: int) -> Column:
    """The name of the first rule that a line breaks; null if it breaks none."""
    rules = {
        "too_long": F.col("line_bytes") >= MAX_LINE_BYTES,
        "malformed": _is_malformed(),
        UNKNOWN_VERSION: _is_of_unknown_version(),
        UNKNOWN_KIND: ~F.col("kind").isin(*FACTS),
        "wrong_type": F.col(_BROKEN).isNotNull(),
        "missing_field": _misses_a_field(),
        "wrong_event_id": F.col("event_id") != _fact_id(F.col("seq")),
        "other_boot": _is_about_another_boot(),
        "ahead_of_time": F.col("at_us") > F.col("landed_at_us") + MAX_AHEAD_US,
        "absurd_value": _is_absurd(),
        "past_retention": F.col("at_us") < oldest_us,
    }
    refusal = F.lit(None).cast("string")
    for name, is_broken in reversed(rules.items()):
        refusal = F.when(is_broken, name).otherwise(refusal)
    return refusal


def _is_malformed() -> Column:
    """No JSON object, or one that was torn: then the parser gives nothing at all."""
    names = [field.name for field in fields_of(Envelope)]
    return F.col("_is_joined") | F.coalesce(*(F.col(name).cast("string") for name in names)).isNull()


def _is_of_unknown_version() -> Column:
    version = F.col("version")
    is_unreadable = version.isNull() & F.col(_BROKEN).isNotNull() & F.get_json_object("value", "$.version").isNotNull()
    return is_unreadable | (version > CONTRACT_VERSION) | (version < 1)


def _misses_a_field() -> Column:
    """Whether a field is null that may not be, in the envelope or in the fields of the kind."""
    misses = F.lit(False)
    for kind, fact in FACTS.items():
        misses = F.when(F.col("kind") == kind, _any_null(fact)).otherwise(misses)
    return _any_null(Envelope) | misses


def _any_null(fact: type) -> Column:
    nulls = [F.col(field.name).isNull() for field in fields_of(fact) if not field.nullable]
    return reduce(Column.__or__, nulls)


def _fact_id(seq: Column) -> Column:
    return F.concat_ws("-", "server_id", "boot_id", seq)


def _is_about_another_boot() -> Column:
    """A view or publication is named by a fact of the same boot, told before."""
    broken = []
    for name in ("view_id", "publication_id"):
        number = identity.number_of(F.col(name))
        is_own = number.isNotNull() & (F.col(name) == _fact_id(number)) & (number < F.col("seq"))
        broken.append(F.col(name).isNotNull() & ~F.coalesce(is_own, F.lit(False)))
    return reduce(Column.__or__, broken)


def _is_absurd() -> Column:
    """Amounts that nothing can have, which would break sums over whole days."""
    fields = landing_schema().fields
    others = (*_CLOCKS, *_SUMS_OVER_VIEWERS)
    amounts = [F.abs(field.name) for field in fields if field.dataType == LongType() and field.name not in others]
    fractions = [F.abs(field.name) for field in fields if field.dataType == DoubleType()]
    # NaN is the largest of all numbers to Spark.
    return (
        (F.col("seq") < 1)
        | (F.col("at_us") < _YEAR_2000_US)
        | (F.least(*(F.col(name) for name in _NEVER_NEGATIVE)) < 0)
        | (F.greatest(*amounts) > _MAX_AMOUNT)
        | (F.greatest(*_SUMS_OVER_VIEWERS) > _MAX_SUM)
        | (F.greatest(*fractions) > _MAX_FRACTION)
    )
