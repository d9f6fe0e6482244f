"""The telemetry contract: what a later reader may rely on."""

import dataclasses
import re
import typing

import pytest

from penstock import facts
from penstock.facts import CONTRACT_VERSION, FACTS, Envelope, Fact

KINDS_OF_VERSION_1 = {
    "server_started",
    "server_stopped",
    "clock_stepped",
    "connection_opened",
    "connection_closed",
    "publish_started",
    "publish_stopped",
    "play_started",
    "play_first_keyframe",
    "play_stopped",
    "stream_sample",
    "viewer_sample",
    "view_beacon",
    "recording_segment_closed",
    "recording_gap",
    "push_started",
    "push_state",
    "push_stopped",
    "protocol_violation",
    "limit_hit",
}
JSON_TYPES = {str, int, float, type(None)}


def types_of(kind: type[Fact]) -> dict[str, set[type]]:
    hints = typing.get_type_hints(kind)
    return {field.name: set(typing.get_args(hints[field.name])) or {hints[field.name]} for field in fields_of(kind)}


def fields_of(kind: type[Fact] | type[Envelope]) -> tuple[dataclasses.Field[object], ...]:
    return dataclasses.fields(kind)


def test_version_1_has_these_kinds() -> None:
    assert CONTRACT_VERSION == 1
    assert set(FACTS) == KINDS_OF_VERSION_1


def test_the_envelope_has_these_fields_in_this_order() -> None:
    names = [field.name for field in fields_of(Envelope)]
    assert names == ["event_id", "server_id", "boot_id", "seq", "kind", "version", "at_us", "mono_us", "worker"]


@pytest.mark.parametrize("kind", FACTS.values(), ids=lambda kind: kind.kind)
def test_a_kind_is_named_after_its_class(kind: type[Fact]) -> None:
    assert re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower() == kind.kind


@pytest.mark.parametrize("kind", FACTS.values(), ids=lambda kind: kind.kind)
def test_a_fact_has_fields_of_its_own_and_none_of_the_envelope(kind: type[Fact]) -> None:
    names = {field.name for field in fields_of(kind)}
    assert names
    assert names & {field.name for field in fields_of(Envelope)} == set()


@pytest.mark.parametrize("kind", FACTS.values(), ids=lambda kind: kind.kind)
def test_every_field_is_a_plain_json_value(kind: type[Fact]) -> None:
    assert {name for name, types in types_of(kind).items() if not types <= JSON_TYPES} == set()


@pytest.mark.parametrize("kind", FACTS.values(), ids=lambda kind: kind.kind)
def test_every_time_and_size_carries_its_unit(kind: type[Fact]) -> None:
    measured = re.compile(r"duration|uptime|wall|step|offset|startup|watched|waited|lag|rtt|ping|skew|bytes|bitrate")
    units = re.compile(r"_(us|ms|bytes|bps)$")
    assert [name for name in types_of(kind) if measured.search(name) and not units.search(name)] == []


@pytest.mark.parametrize("kind", FACTS.values(), ids=lambda kind: kind.kind)
def test_a_fact_cannot_be_changed(kind: type[Fact]) -> None:
    fact = kind(*(None for _ in fields_of(kind)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(fact, fields_of(kind)[0].name, 1)


def test_a_field_without_a_unit_would_be_found() -> None:
    @dataclasses.dataclass(frozen=True)
    class Lagging(Fact):
        kind = "lagging"
        lag: int

    with pytest.raises(AssertionError):
        test_every_time_and_size_carries_its_unit(Lagging)


def test_violations_of_the_protocol_are_told_under_the_name_of_the_error() -> None:
    assert facts.ProtocolViolation("c-1", "127.0.0.1:5", "chunk", "too long").kind == "protocol_violation"
