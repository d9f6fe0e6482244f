"""The fuzz targets for a few hundred inputs each, and proof that the harness can fail.

The inputs are those of seed 1, so this run says the same each time; longer runs are `make fuzz`.
"""

import random
from pathlib import Path

import pytest
from fuzz import __main__ as command
from fuzz import corpus
from fuzz.chunks import write_chunks
from fuzz.mutate import mutate
from fuzz.outcome import BrokenInvariant, Outcome, Target, expect_same, join_input, refusal, split_input
from fuzz.runner import make_input, run_input, run_target
from fuzz.targets import TARGETS

from penstock.amf import read_amf0_values
from penstock.errors import MalformedAmf, ProtocolViolation
from penstock.protocol.chunk_reader import ChunkReader
from penstock.protocol.message import Message

RUNS = {"server": 300, "client": 300}


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_a_reader(name: str) -> None:
    tally, finding = run_target(TARGETS[name], 1, max_runs=RUNS.get(name, 600), max_seconds=None)
    assert finding is None
    assert tally.values > 0
    assert 0 < tally.refused < tally.runs


@pytest.mark.parametrize("name", TARGETS)
def test_seed_and_number_decide_an_input_alone(name: str) -> None:
    inputs = [make_input(TARGETS[name], 7, run) for run in range(20)]
    assert inputs == [make_input(TARGETS[name], 7, run) for run in range(20)]
    assert inputs != [make_input(TARGETS[name], 8, run) for run in range(20)]


def broken_run(data: bytes) -> Outcome:
    """A reader that trips over one byte."""
    _, payload = split_input(data)
    if b"\x0b" in payload:
        raise IndexError("list index out of range")
    read_amf0_values(payload)
    return Outcome(1, is_refused=False)


def make_bytes(chance: random.Random) -> bytes:
    return join_input(0, b"\x05" * chance.randrange(50) + chance.choice((b"", b"\x0b")) + b"\x05" * 40)


BROKEN = Target("broken", make_bytes, broken_run)


def test_a_reader_that_raises_another_error_is_found_and_its_input_made_smaller() -> None:
    tally, finding = run_target(BROKEN, 1, max_runs=100, max_seconds=None)
    assert finding is not None
    assert tally.runs == finding.run + 1
    assert isinstance(finding.fault, IndexError)
    assert finding.data == bytes.fromhex("00000000 0b")


def test_a_reader_that_raises_the_error_of_another_family_is_found() -> None:
    def run(data: bytes) -> Outcome:
        raise MalformedAmf("amf0", "left uncaught by its target")

    _, finding = run_target(Target("broken", make_bytes, run), 1, max_runs=1, max_seconds=None)
    assert finding is not None


def test_a_reader_that_takes_too_long_is_found() -> None:
    with pytest.raises(BrokenInvariant, match=r"\d\.\d\d s for 4 bytes"):
        run_input(TARGETS["amf0"], bytes(4), bound_seconds=-1.0)


def test_results_that_differ_are_found_and_shown() -> None:
    with pytest.raises(BrokenInvariant, match=r"whole and in pieces: .*1, 2.* against .*1, 3"):
        expect_same([1, 2], [1, 3], "whole and in pieces")
    expect_same([float("nan")], [float("nan")], "not a number")


@pytest.mark.parametrize("detail", ["two\nlines", "x" * 2000, "\udc80"])
def test_an_error_that_would_spoil_a_log_is_found(detail: str) -> None:
    with pytest.raises(BrokenInvariant, match="an error "):
        refusal(ProtocolViolation("chunk", detail))


def test_a_bound_in_time_ends_the_runs() -> None:
    tally, finding = run_target(TARGETS["amf0"], 1, max_runs=None, max_seconds=0.05)
    assert finding is None
    assert tally.runs > 0


def test_the_command_ends_with_0_and_a_line_for_each_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--runs", "3", "--seed", "5", "--target", "amf0", "--target", "frame"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines] == [["amf0", "3", "runs"], ["frame", "3", "runs"]]


def test_the_command_ends_with_1_at_a_finding_and_can_run_it_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    targets = {"broken": BROKEN}
    assert command.main(["--runs", "100", "--seed", "1", "--findings", str(tmp_path)], targets) == 1
    (path,) = tmp_path.iterdir()
    assert f"FOUND by broken, seed 1, run {path.stem.rpartition('-')[2]}: 5 bytes in {path}" in capsys.readouterr().out
    assert path.read_text(encoding="ascii") == "000000000b\n"
    with pytest.raises(IndexError):
        command.main(["--replay", str(path)], targets)


@pytest.mark.parametrize("seed", range(40))
def test_the_chunk_reader_gives_back_what_the_second_writer_wrote(seed: int) -> None:
    chance = random.Random(seed)
    script = [each for each in chance.choices(corpus.messages("client"), k=30) if each.type_id > 2]
    stream, expected = write_chunks(script, chance)
    reader = ChunkReader()
    reader.receive_data(stream)
    messages: list[Message] = []
    while (message := reader.next_message()) is not None:
        messages.append(message)
        if message.type_id == 1:
            reader.chunk_size = int.from_bytes(message.payload, "big")
    assert messages == [
        Message(each.type_id, each.timestamp, each.stream_id, each.payload, each.csid) for each in expected
    ]
    assert reader.buffered_bytes == 0


def test_damage_stays_within_the_size_of_an_input() -> None:
    chance = random.Random(1)
    assert all(len(mutate(bytes(64 * 1024), chance, [bytes(64 * 1024)], [bytes(1000)])) <= 64 * 1024 for _ in range(50))
    assert all(isinstance(mutate(b"", chance), bytes) for _ in range(200))
