"""What the checks on facts and tables have found, the worst first: `penstock pipeline check`.

Owns how rows of gold.data_quality are summed up for people and for programs. Finds nothing itself: checks run with
every run of the pipeline, on what it computes.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from penstock.amf import printable
from penstock.pipeline.build.checks import SEVERITIES, Severity

_ORDER: Final[tuple[Severity, ...]] = ("error", "warning", "info")


@dataclass(frozen=True, slots=True)
class Finding:
    """One check that did not hold, over all its hours and subjects."""

    severity: Severity
    check: str
    table: str
    violations: int
    subjects: int
    """How many rows tell of it; each is one subject in one hour."""
    first_at: datetime
    last_at: datetime
    example: str
    """The subject of the worst row, and its figures in words."""


def findings_of(rows: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Rows of gold.data_quality to one finding for each check, errors first."""
    by_check: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        by_check.setdefault((row["table"], row["check"]), []).append(row)
    found = [_finding(table, check, held) for (table, check), held in by_check.items()]
    return sorted(found, key=lambda each: (_ORDER.index(each.severity), each.table, each.check))


def _finding(table: str, check: str, rows: Sequence[Mapping[str, Any]]) -> Finding:
    worst = max(rows, key=lambda row: (row["violations"], row["at"], row["subject"]))
    times = [row["at"] for row in rows]
    return Finding(
        severity=SEVERITIES.get(check, "error"),
        check=check,
        table=table,
        violations=sum(row["violations"] for row in rows),
        subjects=len(rows),
        first_at=min(times),
        last_at=max(times),
        example=printable(f"{worst['subject']}: {worst['detail']}"),
    )


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether a table is wrong."""
    return any(finding.severity == "error" for finding in findings)


def findings_text(findings: Sequence[Finding]) -> str:
    """A few lines for each finding."""
    if not findings:
        return "All checks hold.\n"
    lines = []
    for each in findings:
        when = f"{each.first_at:%Y-%m-%d %H:%M} to {each.last_at:%Y-%m-%d %H:%M} UTC"
        lines.append(f"{each.severity:<7}  {each.check}  {each.table}  {each.violations:,} violations, {when}")
        lines.append(f"         such as {each.example}")
    counts = ", ".join(f"{sum(each.severity == name for each in findings)} {name}" for name in _ORDER)
    return "\n".join([*lines, f"{len(findings)} checks do not hold: {counts}"]) + "\n"


def findings_json(findings: Sequence[Finding]) -> str:
    """The same for programs."""
    rows = [
        {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(each).items()}
        for each in findings
    ]
    return json.dumps({"has_errors": has_errors(findings), "findings": rows}, indent=1, ensure_ascii=False) + "\n"
