"""Samples of a stream, a second each, as incidents hear of them."""

from typing import Any

from penstock.web.incidents.incidents import Incident, Incidents
from penstock.web.incidents.second import StreamSecond

SECOND = 1_000_000
MIDNIGHT = 1_794_787_200 * SECOND
"""UTC, on 16 November 2026."""


def second(place: int, bitrate_bps: int = 4_000_000, **fields: Any) -> StreamSecond:
    """The sample at the end of a second, counted from 0."""
    values: dict[str, Any] = {
        "app": "live",
        "stream": "a",
        "at_us": MIDNIGHT + (place + 1) * SECOND,
        "interval_us": SECOND,
        "bitrate_bps": bitrate_bps,
        "fps": 30.0 if bitrate_bps else 0.0,
        "interval_timestamp_jumps": 0,
        "keyframe_interval_ms": 2000,
    }
    return StreamSecond(**{**values, **fields})


def sample(incidents: Incidents, *bitrates: int, begin: int = 0, **fields: Any) -> list[tuple[int, Incident]]:
    """Samples one after the other. What was told, with the place of the sample that told it."""
    return [
        (begin + place, incident)
        for place, bitrate_bps in enumerate(bitrates)
        for incident in incidents.sampled(second(begin + place, bitrate_bps, **fields))
    ]


def times_of(incident: Incident) -> tuple[float, float | None]:
    """From when to when, in seconds."""
    ended_at_us = incident.ended_at_us
    return (incident.started_at_us - MIDNIGHT) / SECOND, None if ended_at_us is None else (
        ended_at_us - MIDNIGHT
    ) / SECOND
