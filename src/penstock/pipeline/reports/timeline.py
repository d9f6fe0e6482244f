"""penstock pipeline view: what one viewer experienced, from the facts about the view.

Samples in which nothing happened are merged into one line; a skip or a stall has a line of its own. Counters of samples
are cumulative, so a missing sample changes no total.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TextIO
from zoneinfo import ZoneInfo

import pyarrow.dataset as ds
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.amf import printable
from penstock.errors import PipelineError
from penstock.pipeline.lake.arrow_lake import ArrowLake, Span
from penstock.pipeline.lake.hours import utc_of_us
from penstock.pipeline.queries.answers import plain
from penstock.pipeline.reports import wording

What = Literal["started", "first_picture", "watched", "skipped", "stalled", "ended", "open"]
Row = dict[str, Any]

_KINDS: Final = ("play_started", "play_first_keyframe", "viewer_sample", "play_stopped")
_MAX_STRETCHES: Final = 20
_SHORTEST_STRETCH_US: Final = 60_000_000
_LISTED: Final = 5
_SHOWN_AT_EACH_END: Final = 40
STALLED_LAG_MS: Final = 2000
"""As in silver.views: a sample farther behind the live edge, or waiting for a key frame, is stalled."""
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the timeline. Figures cover the time up to `at`."""

    at: datetime
    what: What
    lasted_us: int = 0
    samples: int = 0
    sent_bytes: int = 0
    skips: int = 0
    skipped_bytes: int = 0
    lag_ms_max: int | None = None
    rtt_us_max: int | None = None
    retransmits: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    view: Row
    """The row of silver.views."""
    moments: tuple[Moment, ...]


def read_timeline(lake: ArrowLake, prefix: str) -> Timeline:
    """The view whose id has this prefix; PipelineError if there is none, or more than one."""
    found = lake.find("silver.views", prefix, _LISTED + 1) if prefix else []
    if not found:
        raise PipelineError(f"view: no view has an id that begins with {prefix!r}; ids are in silver.views")
    if len(found) > 1:
        listed = ", ".join(row["view_id"] for row in found[:_LISTED])
        more = " and more" if len(found) > _LISTED else ""
        raise PipelineError(f"view: several ids begin with {prefix!r}: {listed}{more}")
    (view,) = found
    # A failed start has no view_seq in its facts; its view_id is the event_id of its play_stopped.
    is_its_own = (ds.field("view_seq") == view["view_seq"]) | (ds.field("seq") == view["view_seq"])
    span = Span(view["started_at"] - _HOUR, (view["ended_at"] or view["last_seen_at"]) + _HOUR)
    facts = [
        {**fact, "kind": kind}
        for kind in _KINDS
        for fact in lake.facts(kind, span, (ds.field("boot_key") == view["boot_key"]) & is_its_own)
    ]
    return Timeline(view, tuple(tell(view, facts)))


def tell(view: Row, facts: Iterable[Row]) -> Iterator[Moment]:
    """The moments of a view in order. Facts may come in any order and more than once."""
    ordered = sorted({fact["seq"]: fact for fact in facts}.values(), key=lambda fact: fact["seq"])
    samples = [fact for fact in ordered if fact["kind"] == "viewer_sample"]
    for fact in ordered:
        if fact["kind"] == "play_started":
            yield Moment(_at(fact), "started", lasted_us=fact["waited_us"])
        elif fact["kind"] == "play_first_keyframe":
            yield Moment(_at(fact), "first_picture", lasted_us=fact["startup_us"])
    yield from _stretches(samples)
    stops = [fact for fact in ordered if fact["kind"] == "play_stopped"]
    for fact in stops:
        yield Moment(
            _at(fact),
            "ended",
            lasted_us=fact["watched_us"],
            sent_bytes=fact["sent_bytes"],
            skips=fact["skips"],
            skipped_bytes=fact["skipped_bytes"],
            detail=fact["reason"],
        )
    if not stops:
        is_open = view["is_open"]
        detail = "" if is_open else str(view["end_reason"])
        yield Moment(view["last_seen_at"], "open" if is_open else "ended", view["watched_us"], detail=detail)


def _stretches(samples: list[Row]) -> Iterator[Moment]:
    if not samples:
        return
    longest_us = max(samples[-1]["watched_us"] // _MAX_STRETCHES, _SHORTEST_STRETCH_US)
    origin: Row = {"watched_us": 0, "sent_bytes": 0, "skips": 0, "skipped_bytes": 0, "retransmits": None}
    before = start = origin
    stretch: list[Row] = []
    kind: What = "watched"
    for sample in samples:
        now = _what(before, sample)
        is_full = sample["watched_us"] - start["watched_us"] > longest_us and now == "watched"
        if stretch and (now != kind or is_full):
            yield _moment(kind, start, stretch)
            start, stretch = before, []
        stretch.append(sample)
        before, kind = sample, now
    yield _moment(kind, start, stretch)


def _what(before: Row, sample: Row) -> What:
    if sample["skips"] > before["skips"]:
        return "skipped"
    stands_still = sample["lag_ms"] is None or sample["lag_ms"] > STALLED_LAG_MS
    return "stalled" if stands_still else "watched"


def _moment(what: What, start: Row, stretch: list[Row]) -> Moment:
    last = stretch[-1]
    return Moment(
        at=_at(last),
        what=what,
        lasted_us=last["watched_us"] - start["watched_us"],
        samples=len(stretch),
        sent_bytes=last["sent_bytes"] - start["sent_bytes"],
        skips=last["skips"] - start["skips"],
        skipped_bytes=last["skipped_bytes"] - start["skipped_bytes"],
        lag_ms_max=_largest(stretch, "lag_ms"),
        rtt_us_max=_largest(stretch, "rtt_us"),
        retransmits=(last["retransmits"] or 0) - (start["retransmits"] or 0),
    )


def timeline_json(timeline: Timeline) -> str:
    """For programs: the row, and the moments with their figures."""
    moments = [plain(dataclasses.asdict(moment)) for moment in timeline.moments]
    return json.dumps({"view": plain(timeline.view), "moments": moments}, ensure_ascii=False)


def write_timeline(timeline: Timeline, zone: ZoneInfo, out: TextIO) -> None:
    """For people."""
    view = timeline.view
    console = Console(file=out, width=None if out.isatty() else 120, highlight=False)
    name, view_id = printable(f"{view['app']}/{view['stream']}"), printable(view["view_id"])
    console.print(Text(name, style="bold"), Text(view_id, style="dim"))
    who = (view["protocol"], view["client"], view["network"], f"viewer {view['viewer_key']}")
    console.print(Text(printable(" · ".join(each for each in who if each))))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in (f"time ({zone.key})", "since start", "what", ""):
        table.add_column(name, justify="right" if name == "since start" else "left")
    left_out = max(len(timeline.moments) - 2 * _SHOWN_AT_EACH_END, 0)
    for index, moment in enumerate(timeline.moments):
        if left_out and index == _SHOWN_AT_EACH_END:
            table.add_row("", "", "…", f"{wording.counted(left_out, 'moment')} more; --format json has them all")
        if _SHOWN_AT_EACH_END <= index < _SHOWN_AT_EACH_END + left_out:
            continue
        since_start = (moment.at - view["started_at"]).total_seconds()
        clock = f"{moment.at.astimezone(zone):%Y-%m-%d %H:%M:%S}"
        what = Text(moment.what.replace("_", " "), style=_STYLES.get(moment.what, ""))
        table.add_row(clock, wording.duration(max(since_start, 0)), what, Text(printable(_in_words(moment))))
    console.print(table)


_STYLES: Final[dict[str, str]] = {"skipped": "yellow", "stalled": "red", "ended": "bold", "first_picture": "green"}


def _in_words(moment: Moment) -> str:
    lasted = wording.duration(moment.lasted_us / 1_000_000)
    parts: list[str] = []
    match moment.what:
        case "started":
            parts = [f"waited {wording.milliseconds(moment.lasted_us // 1000)} for the stream"]
        case "first_picture":
            parts = [f"{wording.milliseconds(moment.lasted_us // 1000)} after the request"]
        case "ended" | "open":
            parts = [moment.detail.replace("_", " "), f"watched {lasted}"]
        case "stalled":
            parts = [f"too far behind for {lasted}"]
        case "watched" | "skipped":
            parts = [f"{wording.counted(moment.samples, 'sample')} over {lasted}"]
    if moment.sent_bytes:
        rate = moment.sent_bytes * 8_000_000 / moment.lasted_us if moment.lasted_us else None
        parts.append(f"{wording.amount(moment.sent_bytes, 'B')} at {wording.amount(rate, 'bit/s')}")
    if moment.skips:
        parts.append(f"{wording.counted(moment.skips, 'skip')} of {wording.amount(moment.skipped_bytes, 'B')}")
    if moment.lag_ms_max:
        parts.append(f"up to {wording.milliseconds(moment.lag_ms_max)} behind")
    if moment.rtt_us_max is not None:
        parts.append(f"round trip up to {moment.rtt_us_max / 1000:.3g} ms")
    if moment.retransmits:
        parts.append(f"{wording.counted(moment.retransmits, 'segment')} sent again")
    return ", ".join(part for part in parts if part)


def _at(fact: Row) -> datetime:
    return utc_of_us(fact["at_us"])


def _largest(samples: Iterable[Row], column: str) -> int | None:
    return max((value for sample in samples if (value := sample[column]) is not None), default=None)
