"""AMF values, commands and data messages: what is read can be written, and means the same when it is read again."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fuzz import corpus
from fuzz.mutate import mutate
from fuzz.outcome import Outcome, Target, expect, expect_same, join_input, refusal, split_input
from penstock.amf import (
    DEFAULT_LIMITS,
    AmfValue,
    TypedObject,
    read_amf0_leniently,
    read_amf0_value,
    read_amf0_values,
    read_amf3_value,
    write_amf0_values,
    write_amf3_value,
)
from penstock.errors import MalformedAmf, MisuseError, ProtocolViolation
from penstock.protocol.command_codec import read_command, write_command
from penstock.protocol.data import read_data, read_relayed, write_data


@dataclass(slots=True)
class _Measure:
    items: int = 0
    depth: int = 0


def make_payload(pool: Callable[[], Sequence[bytes]], tokens: Sequence[bytes]) -> Callable[[random.Random], bytes]:
    """A maker of damaged payloads."""

    def make(chance: random.Random) -> bytes:
        payloads = pool()
        return join_input(chance.getrandbits(32), mutate(chance.choice(payloads), chance, payloads, tokens))

    return make


def run_amf0(data: bytes) -> Outcome:
    """All values of a payload, the same values one at a time, and what a lenient reader makes of it."""
    _, payload = split_input(data)
    lenient = _read_leniently(payload)
    try:
        values = read_amf0_values(payload)
    except MalformedAmf as fault:
        refusal(fault)
        return Outcome(0, is_refused=True)
    expect_same(lenient, values, "values read leniently and strictly")
    _expect_bounded(values)
    _expect_writable(values, len(payload))
    first, end = read_amf0_value(payload) if payload else (None, 0)
    if values:
        expect_same(first, values[0], "the first value alone and among the others")
        expect(0 < end <= len(payload), f"a value of {len(payload)} bytes ends at {end}")
    return Outcome(len(values), is_refused=False)


def _read_leniently(payload: bytes) -> list[AmfValue] | None:
    try:
        values, items = read_amf0_leniently(payload)
    except MalformedAmf as fault:
        refusal(fault)
        return None
    expect(0 <= items <= DEFAULT_LIMITS.max_items, f"{items} items counted")
    _expect_bounded(values)
    write_amf0_values(*values)
    return values


def run_amf3(data: bytes) -> Outcome:
    """One AMF3 value, which AMF0 must be able to hold."""
    _, payload = split_input(data)
    try:
        value, end = read_amf3_value(payload)
    except MalformedAmf as fault:
        refusal(fault)
        return Outcome(0, is_refused=True)
    expect(0 < end <= len(payload), f"a value of {len(payload)} bytes ends at {end}")
    _expect_bounded([value])
    _expect_writable([value], len(payload))
    try:
        written = write_amf3_value(value)
    except MisuseError as fault:
        # A class may have a member that dynamic objects, which are all that is written, cannot have.
        expect("empty name" in str(fault), f"a value that was read cannot be written: {fault}")
    else:
        expect_same(write_amf3_value(read_amf3_value(written)[0]), written, "AMF3 written and read again")
    return Outcome(1, is_refused=False)


def run_command(data: bytes) -> Outcome:
    """A command, written and read again."""
    _, payload = split_input(data)
    try:
        command = read_command(payload)
    except (MalformedAmf, ProtocolViolation) as fault:
        refusal(fault)
        return Outcome(0, is_refused=True)
    written = write_command(command)
    expect_same(write_command(read_command(written)), written, "a command written and read again")
    return Outcome(1, is_refused=False)


def run_data(data: bytes) -> Outcome:
    """A data message, read whole and as it is relayed."""
    _, payload = split_input(data)
    values = 0
    refused = False
    try:
        relayed = read_relayed(payload)
        expect(payload.endswith(relayed.payload), "what is relayed is not the end of what came")
        values += 1
    except MalformedAmf as fault:
        refusal(fault)
        refused = True
    try:
        message = read_data(payload)
    except MalformedAmf as fault:
        refusal(fault)
        return Outcome(values, is_refused=True)
    written = write_data(message)
    expect_same(write_data(read_data(written)), written, "a data message written and read again")
    return Outcome(values + 1, is_refused=refused)


def _expect_writable(values: list[AmfValue], payload_bytes: int) -> None:
    written = write_amf0_values(*values)
    measure = _Measure()
    for value in values:
        _walk(value, 0, measure)
    room_bytes = payload_bytes + DEFAULT_LIMITS.max_repeated_bytes + 16 * measure.items
    expect(len(written) <= room_bytes, f"{len(written)} bytes written of {payload_bytes} read")
    expect_same(write_amf0_values(*read_amf0_values(written)), written, "AMF0 written and read again")


def _expect_bounded(values: list[AmfValue]) -> None:
    measure = _Measure()
    for value in values:
        _walk(value, 0, measure)
    expect(measure.items <= DEFAULT_LIMITS.max_items, f"{measure.items} items came out")
    expect(measure.depth <= DEFAULT_LIMITS.max_depth, f"a value {measure.depth} levels deep came out")


def _walk(value: AmfValue, depth: int, measure: _Measure) -> None:
    measure.items += 1
    members: Sequence[AmfValue] = ()
    if isinstance(value, list):
        members = value
    elif isinstance(value, dict):
        members = list(value.values())
    elif isinstance(value, TypedObject):
        members = list(value.members.values())
    else:
        return
    measure.depth = max(measure.depth, depth + 1)
    for member in members:
        _walk(member, depth + 1, measure)


def _data_payloads() -> Sequence[bytes]:
    return [each.payload for each in corpus.messages("client") if each.type_id == 18]


def _command_payloads() -> Sequence[bytes]:
    return [each.payload for role in ("client", "server") for each in corpus.messages(role) if each.type_id == 20]


AMF_TARGETS = (
    Target("amf0", make_payload(corpus.amf0_payloads, corpus.AMF0_TOKENS), run_amf0),
    Target("amf3", make_payload(corpus.amf3_payloads, corpus.AMF3_TOKENS), run_amf3),
    Target("command", make_payload(_command_payloads, corpus.AMF0_TOKENS), run_command),
    Target("data", make_payload(_data_payloads, corpus.AMF0_TOKENS), run_data),
)
