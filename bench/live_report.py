"""The benchmark's tables: medians over rounds, and ratios to nginx, the floor and one worker of the same round.

Owns how figures are put side by side. A ratio is taken within a round and then its median over the rounds, since the
machine's speed drifts between rounds and hardly within one. Rounds in which others took the server's core are left out
where there are better ones, and the remarks say so.
"""

import operator
import statistics
from collections.abc import Callable, Iterable, Sequence

from bench.run import Figures
from bench.scenarios import Scenario
from bench.servers import CONTESTANTS

Round = dict[str, Figures]
"""The figures of one scenario in one round by row."""

KB = 1000
MB = 1_000_000
MAX_OTHERS_SHARE = 0.1


def table(scenario: Scenario, rounds: Sequence[Round]) -> str:
    """One scenario as a Markdown table."""
    cost = "CPU µs/message" if scenario.streams > 1 else "CPU-s/viewer-min"
    columns: list[tuple[str, Callable[[str], str]]] = [
        ("row", str),
        (cost, lambda row: _number(_median(rounds, row, lambda each: each.cost), 4 if scenario.streams == 1 else 1)),
        ("to nginx", lambda row: _number(ratio(rounds, row, "nginx"), 2)),
        ("to floor", lambda row: _number(ratio(rounds, row, CONTESTANTS[row].floor), 2)),
        ("to one worker", lambda row: _number(ratio(rounds, row, CONTESTANTS[row].one_worker), 2)),
        ("server CPU %", lambda row: _number(_percent(_median(rounds, row, lambda each: each.server_cpu_share)), 1)),
        ("busiest worker %", lambda row: _number(_percent(_median(rounds, row, _busiest)), 1)),
        (
            "to the one",
            lambda row: _number(compare(rounds, row, CONTESTANTS[row].one_worker, _busiest, operator.truediv), 2),
        ),
        ("sends/s", lambda row: _number(_median(rounds, row, _sends_per_s(scenario)), 1)),
        ("p50 ms", lambda row: _number(_median(rounds, row, lambda each: each.p50_ms), 1)),
        (
            "more than one worker",
            lambda row: _number(
                compare(rounds, row, CONTESTANTS[row].one_worker, lambda each: each.p50_ms, operator.sub), 1
            ),
        ),
        ("p99 ms", lambda row: _number(_median(rounds, row, lambda each: each.p99_ms), 1)),
        ("first key p50 ms", lambda row: _number(_median(rounds, row, lambda each: each.first_key_p50_ms), 0)),
        ("first key p99 ms", lambda row: _number(_median(rounds, row, lambda each: each.first_key_p99_ms), 0)),
        ("delivered %", lambda row: _number(_percent(_median(rounds, row, lambda each: each.delivered)), 1)),
        ("gaps", lambda row: _number(_median(rounds, row, lambda each: each.gaps), 0)),
        ("slow: gaps", lambda row: _number(_median(rounds, row, lambda each: each.slow_gaps), 0)),
        ("slow: off key", lambda row: _number(_median(rounds, row, lambda each: each.slow_resumed_off_key), 0)),
        ("idle PSS MB", lambda row: _number(_median(rounds, row, _idle_mb), 1)),
        ("PSS kB/conn", lambda row: _number(_per_connection(rounds, row, "pss_bytes"), 1)),
        ("memfd kB/conn", lambda row: _number(_per_connection(rounds, row, "memfd_bytes"), 1)),
        ("sockets kB/conn", lambda row: _number(_per_connection(rounds, row, "socket_bytes"), 1)),
        ("pump p99 ms", lambda row: _number(_median(rounds, row, lambda each: each.pump_p99_ms), 2)),
        ("generator %", lambda row: _number(_percent(_median(rounds, row, lambda each: each.generator_share)), 0)),
        ("remarks", lambda row: "; ".join(_remarks(rounds, row))),
    ]
    present = [row for row in scenario.rows if any(row in each for each in rounds)]
    cells = [[title, *(write(row) for row in present)] for title, write in columns]
    # A column that says nothing in this scenario is left out.
    lines = list(zip(*(column for column in cells if any(column[1:])), strict=True))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([f"{scenario.name}: {scenario.meaning}", "", rows[0], rule, *rows[1:]])


def ratio(rounds: Iterable[Round], row: str, reference: str | None) -> float | None:
    """Median over the rounds of this row's cost by that of another."""
    return compare(rounds, row, reference, lambda each: each.cost, operator.truediv)


def compare(
    rounds: Iterable[Round],
    row: str,
    reference: str | None,
    pick: Callable[[Figures], float | None],
    put_together: Callable[[float, float], float],
) -> float | None:
    """Median over the rounds of what a figure of this row and that of another make together."""
    if reference is None or reference == row:
        return None
    good = _good(rounds, row, reference)
    pairs = [(pick(each[row]), pick(each[reference])) for each in good]
    compared = [put_together(value, base) for value, base in pairs if value is not None and base]
    return statistics.median(compared) if compared else None


def _good(rounds: Iterable[Round], *rows: str) -> list[Round]:
    """Rounds with all of these rows; those that had the core to themselves, if there are any."""
    whole = [each for each in rounds if all(row in each for row in rows)]
    quiet = [each for each in whole if all(each[row].others_share <= MAX_OTHERS_SHARE for row in rows)]
    return quiet or whole


def _busiest(figures: Figures) -> float | None:
    return figures.busiest_worker_share


def _sends_per_s(scenario: Scenario) -> Callable[[Figures], float | None]:
    """To each viewer. Of several streams a round may have any number."""
    return lambda figures: figures.rounds_per_s if scenario.streams == 1 and scenario.viewers else None


def _idle_mb(figures: Figures) -> float | None:
    return None if figures.idle_pss_bytes is None else figures.idle_pss_bytes / MB


def _median(rounds: Iterable[Round], row: str, pick: Callable[[Figures], float | None]) -> float | None:
    values = [value for each in _good(rounds, row) if (value := pick(each[row])) is not None]
    return statistics.median(values) if values else None


def _per_connection(rounds: Iterable[Round], row: str, field: str) -> float | None:
    def pick(figures: Figures) -> float | None:
        return None if figures.memory is None else getattr(figures.memory, field) / figures.connections / KB

    return _median(rounds, row, pick)


def _percent(share: float | None) -> float | None:
    return None if share is None else share * 100


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _remarks(rounds: Sequence[Round], row: str) -> list[str]:
    seen: dict[str, None] = {}
    if left_out := sum(row in each for each in rounds) - len(_good(rounds, row)):
        seen[f"{left_out} rounds left out, as others had its core"] = None
    others_share = _median(rounds, row, lambda each: each.others_share)
    if others_share is not None and others_share > MAX_OTHERS_SHARE:
        seen[f"others had its core for {others_share:.0%} of the time"] = None
    for each in rounds:
        if row in each:
            seen.update((f"INVALID: {fault}", None) for fault in each[row].faults)
            seen.update((note, None) for note in each[row].notes)
    return list(seen)
