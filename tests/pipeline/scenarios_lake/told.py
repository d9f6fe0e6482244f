"""What landing files tell, read line by line with nothing of the pipeline: the keys that each table has to have."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Keys = set[tuple[Any, ...]]


def facts_in(folder: Path, names: Iterable[str]) -> list[dict[str, Any]]:
    """Every fact once, however often it landed; lines that are none are passed over."""
    facts: dict[str, dict[str, Any]] = {}
    for name in names:
        for line in (folder / name).read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                fact = json.loads(line)
            except ValueError:
                continue
            facts[fact["event_id"]] = fact
    return list(facts.values())


def keys_by_table(facts: list[dict[str, Any]]) -> dict[str, Keys]:
    """Tables of which each row is told by a fact, and the keys of those rows."""

    def of(*kinds: str) -> list[dict[str, Any]]:
        return [fact for fact in facts if fact["kind"] in kinds]

    def keys(told: Iterable[dict[str, Any]], *names: str) -> Keys:
        return {tuple(fact[name] for name in names) for fact in told}

    plays = of("play_first_keyframe", "play_stopped", "viewer_sample")
    streams = of("publish_stopped", "stream_sample")
    return {
        "bronze.facts": keys(facts, "server_id", "boot_id", "seq", "kind"),
        "silver.connections": keys(of("connection_opened", "connection_closed"), "server_id", "boot_id", "conn_id"),
        "silver.views": keys(of("play_started"), "event_id") | keys(plays, "view_id"),
        "silver.publications": keys(of("publish_started"), "event_id") | keys(streams, "publication_id"),
        "silver.stream_seconds": keys(streams, "event_id"),
        "silver.recording_segments": keys(of("recording_segment_closed"), "server_id", "recording_id", "segment"),
        "gold.recordings": keys(of("recording_segment_closed"), "server_id", "path"),
        "rollup.view_minutes": _minutes(of("play_started"), plays),
    }


def _minutes(started: list[dict[str, Any]], others: list[dict[str, Any]]) -> Keys:
    """View and minute of each fact about a view."""
    named = [(fact["event_id"], fact["at_us"]) for fact in started]
    named += [(fact["view_id"], fact["at_us"]) for fact in others]
    return {(int(view_id.rpartition("-")[2]), at_us // 60_000_000) for view_id, at_us in named}
