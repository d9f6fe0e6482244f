"""Lines of landing files to facts, and why a line is none. Lines in, Arrow tables by kind out; imports no Spark.

Owns the border: what passes here has the types, the fields and the identity that the contract promises, so nothing
behind it checks again. A line that does not pass gets the name of the first rule that it breaks. Fields that the
contract does not know of a kind are left aside: they are a newer server's.

Lines of one kind are read together by Arrow with the types of that kind, which takes a third of the time of a reader
that looks for the fields of all kinds. It reads all of them or none, so where one line is bad they are looked at one by
one.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from penstock.facts import CONTRACT_VERSION, FACTS, Envelope
from penstock.pipeline.lake.dimensions import MAX_TEXT_BYTES
from penstock.pipeline.lake.layout import BRONZE, arrow_schema_of
from penstock.pipeline.lake.schemas import fields_of

MAX_LINE_BYTES: Final = 1024 * 1024
MAX_AHEAD_US: Final = 10 * 60 * 1_000_000
TOO_LONG: Final = "too_long"
MALFORMED: Final = "malformed"
UNKNOWN_VERSION: Final = "unknown_version"
UNKNOWN_KIND: Final = "unknown_kind"
WRONG_TYPE: Final = "wrong_type"
MISSING_FIELD: Final = "missing_field"
ABSURD_VALUE: Final = "absurd_value"
REPLAYED: Final = (UNKNOWN_VERSION, UNKNOWN_KIND)
"""What newer software may understand."""

_KIND: Final = b'"kind":"'
_READING: Final = pj.ReadOptions(use_threads=False, block_size=4 * MAX_LINE_BYTES)
_TYPES: Final = {pa.int64(): (int,), pa.float64(): (int, float), pa.string(): (str,), pa.bool_(): (bool,)}
_INT64: Final = range(-(2**63), 2**63)
_MAX_DIGITS: Final = len(str(2**63))
_YEAR_2000_US: Final = 946_684_800_000_000
_MAX_AMOUNT: Final = 10**15
"""A petabyte, or 31 years. Thousands of such amounts can be added up before 64 bits are full."""
_SUMS_OVER_VIEWERS: Final = ("viewers_sent_bytes", "viewers_watched_us")
_MAX_SUM: Final = 10**17
"""Ten thousand viewers of one stream reach a petabyte, or 31 years together, within days."""
_MAX_FRACTION: Final = 1e12
_NEVER_NEGATIVE: Final = (
    "worker",
    "uptime_us",
    "duration_us",
    "received_bytes",
    "sent_bytes",
    "waited_us",
    "startup_us",
    "watched_us",
    "startup_ms",
    "played_ms",
    "stalls",
    "stalled_ms",
    "latency_ms",
    "dropped_frames",
    "skips",
    "skipped_bytes",
    "viewers",
    *_SUMS_OVER_VIEWERS,
    "interval_us",
    "bitrate_bps",
)
_CLOCKS: Final = ("mono_us", "boot_wall_us", "boot_mono_us", "wall_us", "started_at_us")
_MAX_CLOCK_US: Final = 10**16
"""The year 2286. Python knows no times after 9999, and a row is placed by one."""

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def judged(
    lines: Sequence[bytes], landed_at_us: Ints, oldest_us: int = 0
) -> tuple[dict[str, pa.Table], list[tuple[int, str]]]:
    """Facts by kind, with `landed_at_us`, and the places of lines that are none, each with the rule that it breaks.

    Facts from before `oldest_us` are refused: the tables of that time can not be made anew.
    """
    refused: list[tuple[int, str]] = []
    read: list[tuple[str, pa.Table, list[int]]] = []
    odd: list[int] = []
    for kind, places in _by_kind(lines, refused).items():
        table = _read(kind, [lines[place] for place in places]) if kind in FACTS else None
        if table is None:
            odd += places
        else:
            read.append((kind, table, places))
    read += _read_one_by_one(lines, sorted(odd), refused)
    facts: dict[str, list[pa.Table]] = defaultdict(list)
    for kind, fields, places in read:
        table = fields.append_column("landed_at_us", pa.array(landed_at_us[places]))
        is_refused = np.zeros(len(places), np.bool_)
        for refusal, is_broken in _rules(kind, table, oldest_us):
            refused += [(places[place], refusal) for place in np.flatnonzero(is_broken & ~is_refused).tolist()]
            is_refused |= is_broken
        facts[kind].append(table.filter(pa.array(~is_refused)) if is_refused.any() else table)
    whole = {kind: pa.concat_tables(tables) for kind, tables in facts.items()}
    return {kind: table for kind, table in whole.items() if table.num_rows}, sorted(refused)


def _by_kind(lines: Iterable[bytes], refused: list[tuple[int, str]]) -> dict[str, list[int]]:
    """The places of lines by the kind that they seem to have. No text in a line can look like its kind."""
    found: dict[bytes, list[int]] = defaultdict(list)
    for place, line in enumerate(lines):
        if len(line) >= MAX_LINE_BYTES:
            refused.append((place, TOO_LONG))
        else:
            start = line.find(_KIND) + len(_KIND)
            found[line[start : line.find(b'"', start)]].append(place)
    return {kind.decode(errors="replace"): places for kind, places in found.items()}


@cache
def _schema(kind: str) -> pa.Schema:
    names = [field.name for field in (*fields_of(Envelope), *fields_of(FACTS[kind]))]
    return pa.schema([arrow_schema_of(BRONZE).field(name) for name in names])


@cache
def _required(kind: str) -> list[str]:
    return [field.name for field in (*fields_of(Envelope), *fields_of(FACTS[kind])) if not field.nullable]


def _read(kind: str, lines: Sequence[bytes]) -> pa.Table | None:
    """Lines of a kind with its fields; None if one of them is not what it seems."""
    fields = pj.ParseOptions(explicit_schema=_schema(kind), unexpected_field_behavior="ignore")
    try:
        table = pj.read_json(pa.BufferReader(b"\n".join(lines)), _READING, fields)
        table.validate(full=True)
    except pa.ArrowException:
        return None
    # Two facts in one line are two rows.
    is_whole = table.num_rows == len(lines) and pc.all(pc.equal(table["kind"], kind), skip_nulls=False).as_py()
    return table.combine_chunks() if is_whole else None


# Line by line.


def _read_one_by_one(
    lines: Sequence[bytes], places: Iterable[int], refused: list[tuple[int, str]]
) -> Iterator[tuple[str, pa.Table, list[int]]]:
    """What can be read of these lines, by kind; the others are refused."""
    found: dict[str, tuple[list[bytes], list[int]]] = defaultdict(lambda: ([], []))
    for place in places:
        value = _value(lines[place])
        refusal = _refusal(value)
        if refusal is None:
            kind = value["kind"]
            found[kind][0].append(orjson.dumps({field.name: value.get(field.name) for field in _schema(kind)}))
            found[kind][1].append(place)
        else:
            refused.append((place, refusal))
    for kind, (texts, kept) in found.items():
        table = _read(kind, texts)
        assert table is not None  # noqa: S101 - written by us, with the types of the kind
        yield kind, table, kept


def _value(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _refusal(value: Any) -> str | None:
    """Why a line has no fields of a known kind; None if it has."""
    if not isinstance(value, dict) or all(value.get(field.name) is None for field in fields_of(Envelope)):
        return MALFORMED
    version, kind = value.get("version"), value.get("kind")
    if version is not None and (type(version) is not int or not 1 <= version <= CONTRACT_VERSION):
        return UNKNOWN_VERSION
    if kind is None:
        return MISSING_FIELD
    if not isinstance(kind, str):
        return WRONG_TYPE
    if kind not in FACTS:
        return UNKNOWN_KIND
    if not all(_has_type(value.get(field.name), field.type) for field in _schema(kind)):
        return WRONG_TYPE
    return ABSURD_VALUE if any(isinstance(each, float) and not math.isfinite(each) for each in value.values()) else None


def _has_type(value: Any, wanted: pa.DataType) -> bool:
    if isinstance(value, int) and value not in _INT64:
        return False
    return value is None or type(value) in _TYPES[wanted]


# Rules about values, for all lines of a kind together.


def _rules(kind: str, table: pa.Table, oldest_us: int) -> Iterator[tuple[str, Flags]]:
    """The rules that lines of this table break, in their order, and which lines."""
    boot = pc.binary_join_element_wise(table["server_id"], table["boot_id"], "-")
    seq, named = table["seq"], [name for name in ("view_id", "publication_id") if name in table.column_names]
    rules: tuple[tuple[str, Callable[[], Iterable[pa.ChunkedArray]]], ...] = (
        (UNKNOWN_VERSION, lambda: [_is_outside(table["version"], 1, CONTRACT_VERSION)]),
        (MISSING_FIELD, lambda: (pc.is_null(table[name]) for name in _required(kind))),
        ("wrong_event_id", lambda: [pc.not_equal(table["event_id"], _fact_id(boot, seq))]),
        ("other_boot", lambda: (_is_of_another_boot(table[name], boot, seq) for name in named)),
        ("ahead_of_time", lambda: [pc.greater(table["at_us"], pc.add(table["landed_at_us"], MAX_AHEAD_US))]),
        (ABSURD_VALUE, lambda: _absurd(table)),
        ("past_retention", lambda: [pc.less(table["at_us"], oldest_us)]),
    )
    for refusal, conditions in rules:
        is_broken = np.zeros(table.num_rows, np.bool_)
        for condition in conditions():
            is_broken |= pc.fill_null(condition, False).to_numpy()
        if is_broken.any():
            yield refusal, is_broken


def _fact_id(boot: pa.ChunkedArray, seq: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(boot, pc.cast(seq, pa.string()), "-")


def numbers_of(fact_ids: pa.ChunkedArray) -> pa.Array:
    """The numbers at the end of event_ids; null where there is none. The same names come again and again."""
    encoded = fact_ids.combine_chunks().dictionary_encode()
    numbers = [_number(name.rpartition("-")[2]) for name in encoded.dictionary.to_pylist()]
    return pa.array(numbers, pa.int64()).take(encoded.indices)


def _number(text: str) -> int | None:
    # Python raises for a text of more than 4,300 digits.
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    return int(text) if is_number and int(text) in _INT64 else None


def _is_of_another_boot(name: pa.ChunkedArray, boot: pa.ChunkedArray, seq: pa.ChunkedArray) -> pa.ChunkedArray:
    """A view or publication is named by a fact of the same boot, told before."""
    number = pa.chunked_array([numbers_of(name)])
    is_own = pc.and_(pc.equal(name, _fact_id(boot, number)), pc.less(number, seq))
    return pc.and_(pc.is_valid(name), pc.invert(pc.fill_null(is_own, False)))


def _absurd(table: pa.Table) -> Iterator[pa.ChunkedArray]:
    """Amounts and times that nothing has, which would break sums over whole days; dimensions that are no object."""
    for field in table.schema:
        column, name = table[field.name], field.name
        if name == "dimensions":
            yield _has_no_dimensions(column)
        elif pa.types.is_floating(field.type):
            yield _is_outside(column, -_MAX_FRACTION, _MAX_FRACTION)
        elif name == "seq":
            yield _is_outside(column, 1, _MAX_AMOUNT)
        elif name == "at_us":
            yield pc.less(column, _YEAR_2000_US)
        elif name in _CLOCKS:
            yield _is_outside(column, 0, _MAX_CLOCK_US)
        elif pa.types.is_integer(field.type) and name != "landed_at_us":
            high = _MAX_SUM if name in _SUMS_OVER_VIEWERS else _MAX_AMOUNT
            yield _is_outside(column, 0 if name in _NEVER_NEGATIVE else -high, high)


def _is_outside(column: pa.ChunkedArray, low: float, high: float) -> pa.ChunkedArray:
    """Also of what is no number."""
    return pc.invert(pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high)))


def _has_no_dimensions(column: pa.ChunkedArray) -> pa.ChunkedArray:
    encoded = column.combine_chunks().dictionary_encode()
    texts = [text.encode() for text in encoded.dictionary.to_pylist()]
    is_none = [len(text) > MAX_TEXT_BYTES or not isinstance(_value(text), dict) for text in texts]
    return pa.chunked_array([pa.array(is_none, pa.bool_()).take(encoded.indices)])
