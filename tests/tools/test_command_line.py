"""Values on the command line, and how a command starts and ends."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable

import pytest

from penstock.errors import MalformedMedia
from penstock.tools.command_line import (
    BENCH,
    PLAY,
    PROBE,
    PUBLISH,
    ToolCommand,
    address,
    bit_rate,
    count,
    picture_size,
    seconds,
)
from penstock.tools.running import run_to_status, until_interrupted
from tests.tools.frames import parsed


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (bit_rate, "800k", 800_000),
        (bit_rate, "2.5M", 2_500_000),
        (bit_rate, "1000", 1000),
        (picture_size, "640x360", (640, 360)),
        (seconds, "0.5", 0.5),
        (count, "12", 12),
    ],
)
def test_values_are_read_with_their_units(read: Callable[[str], object], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        *((bit_rate, text) for text in ("", "x", "-1", "1e6", "999", "2G", "9999M", "nan", "9" * 400)),
        *((picture_size, text) for text in ("", "640", "641x360", "640x361", "8x8", "99999x2", "640x-2")),
        *((seconds, text) for text in ("", "x", "0", "-1", "nan", "inf")),
        *((count, text) for text in ("", "0", "-1", "1.5", "x", "9999999", "٣")),
    ],
)
def test_nonsense_is_refused(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        read(text)


@pytest.mark.parametrize("command", [PUBLISH, PLAY, PROBE, BENCH], ids=lambda command: command.name)
def test_every_command_takes_what_it_works_on(command: ToolCommand) -> None:
    assert parsed(command, "x")


def test_a_file_goes_with_no_option_of_the_pattern(capsys: pytest.CaptureFixture[str]) -> None:
    for option in (["--codec", "av1"], ["--size", "64x64"], ["--fps", "5"], ["--bitrate", "1M"], ["--test-pattern"]):
        assert PUBLISH.run(parsed(PUBLISH, "rtmp://h/a/b", "file.mp4", *option)) == 2
    assert "a file keeps its codecs" in capsys.readouterr().err


def test_only_a_file_can_be_looped(capsys: pytest.CaptureFixture[str]) -> None:
    assert PUBLISH.run(parsed(PUBLISH, "rtmp://h/a/b", "--loop")) == 2
    assert "--loop is for files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (MalformedMedia("flv", "torn\x1b"), "penstock play: flv: torn\\x1b\n"),
        (FileNotFoundError(2, "No such file", "x"), "penstock play: [Errno 2] No such file: 'x'\n"),
    ],
)
def test_an_error_is_one_line_and_status_1(fault: Exception, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> int:
        raise fault

    assert run_to_status("play", main()) == 1
    assert capsys.readouterr().err == line


def test_a_reader_that_has_seen_enough_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> int:
        raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", sys.stdout)
    assert run_to_status("play", main()) == 0


def test_an_extra_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    monkeypatch.delitem(sys.modules, "penstock.tools.files", raising=False)
    monkeypatch.delitem(sys.modules, "penstock.tools.probe", raising=False)
    assert PROBE.run(parsed(PROBE, "x.flv")) == 1
    assert capsys.readouterr().err == "penstock probe: no package av; pip install 'penstock[tools]'\n"


def test_a_module_that_is_missing_otherwise_is_a_bug() -> None:
    with pytest.raises(ModuleNotFoundError):
        ToolCommand("nothing", "does nothing", lambda _: None).run(argparse.Namespace())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_work_and_not_the_command(number: int) -> None:
    steps: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            steps.append("goodbye")

    async def main() -> None:
        assert await until_interrupted(work())
        steps.append("summary")

    asyncio.run(main())
    assert steps == ["goodbye", "summary"]


def test_work_that_ends_was_not_interrupted() -> None:
    async def work() -> None:
        pass

    async def main() -> bool:
        return await until_interrupted(work())

    assert not asyncio.run(main())


def test_a_cancellation_from_elsewhere_goes_on() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        await until_interrupted(work())

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


def test_an_address_may_be_in_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUDIO", "rtmp://127.0.0.1/live/a?key=b")
    monkeypatch.delenv("NONE", raising=False)
    assert address("env:STUDIO") == "rtmp://127.0.0.1/live/a?key=b"
    assert address("rtmp://127.0.0.1/live/env:a") == "rtmp://127.0.0.1/live/env:a"
    with pytest.raises(argparse.ArgumentTypeError, match="the variable NONE is empty or not there"):
        address("env:NONE")
