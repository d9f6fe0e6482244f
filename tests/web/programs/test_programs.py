"""Programs that really run, and what is left of them."""

import asyncio
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penstock.logs import configure_logs
from penstock.web.events.event_log import Event
from penstock.web.hooks.matching import Wanted
from penstock.web.programs.event_programs import EventPrograms
from penstock.web.programs.launcher import Launcher
from penstock.web.programs.settings import ProgramSettings
from penstock.web.programs.while_publishing import WhilePublishing

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def is_running(mark: str) -> bool:
    """Whether any process of this machine has these words among its arguments."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if mark.encode() in (folder / "cmdline").read_bytes():
                    return True
            except OSError:
                continue
    return False


async def until(is_so: Callable[[], bool], within_s: float = 10.0) -> None:
    async with asyncio.timeout(within_s):
        while not is_so():
            await asyncio.sleep(0.01)


def run(test: Callable[[Launcher], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        launcher = Launcher()
        try:
            await test(launcher)
        finally:
            await launcher.close()

    asyncio.run(main())


def program(*arguments: str, timeout_s: float = 10.0, streams: tuple[str, ...] = ()) -> ProgramSettings:
    return ProgramSettings(arguments, Wanted((), streams), timeout_s)


def event(stream: str = "main", number: int = 1) -> Event:
    return Event(number, "publish_started", "live", stream, False, b'{"stream":"main"}')


@pytest.mark.parametrize(
    ("arguments", "how"),
    [
        (["true"], "status 0"),
        (["false"], "status 1"),
        (["sh", "-c", "kill -9 $$"], "signal 9"),
        (["/nowhere/at-all"], "[Errno 2] No such file or directory: '/nowhere/at-all'"),
        (["echo", "x" * 200_000], "its arguments are too long"),
    ],
)
def test_how_a_program_ended_is_told(arguments: list[str], how: str) -> None:
    async def test(launcher: Launcher) -> None:
        started = await launcher.start(arguments, ENVIRONMENT, "x")
        assert await asyncio.wait_for(started.ended, 10) == how

    run(test)


def test_a_program_has_a_clean_environment_a_group_of_its_own_and_no_descriptors_of_ours(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = f"env > {out}; echo group $(ps -o pgid= -p $$) $$ >> {out}; ls /proc/self/fd | tr '\\n' ' ' >> {out}"

    async def test(launcher: Launcher) -> None:
        with socket_left_open():
            started = await launcher.start(["sh", "-c", script], {**ENVIRONMENT, "PENSTOCK_APP": "live"}, "x")
            await asyncio.wait_for(started.ended, 10)

    run(test)
    *env, group, descriptors = out.read_text().splitlines()
    assert {line.partition("=")[0] for line in env} <= {"PATH", "PENSTOCK_APP", "PWD", "SHLVL", "_"}
    _, group_id, pid = group.split()
    assert group_id == pid != str(os.getpgrp())
    # The last is that of the folder being listed.
    assert descriptors.split()[:3] == ["0", "1", "2"]
    assert len(descriptors.split()) == 4


class socket_left_open:  # noqa: N801 - reads as a context
    """A descriptor that programs could inherit, if they inherited any."""

    def __enter__(self) -> None:
        self._ends = os.pipe()
        for end in self._ends:
            os.set_inheritable(end, True)

    def __exit__(self, *_: object) -> None:
        for end in self._ends:
            os.close(end)


def test_signals_mean_to_a_program_what_they_always_mean() -> None:
    async def test(launcher: Launcher) -> None:
        started = await launcher.start(["sleep", "61.1"], ENVIRONMENT, "x")
        await until(lambda: is_running("61.1"))
        began = time.monotonic()
        await started.stop()
        assert started.ended.result() == f"signal {signal.SIGTERM.value}"
        assert time.monotonic() - began < 2.0

    run(test)


def test_the_group_of_a_program_ends_with_it() -> None:
    async def test(launcher: Launcher) -> None:
        started = await launcher.start(["sh", "-c", "sleep 62.2 & exit 3"], ENVIRONMENT, "x")
        assert await asyncio.wait_for(started.ended, 10) == "status 3"
        await until(lambda: not is_running("62.2"))

    run(test)


def test_everything_ends_when_the_launcher_closes() -> None:
    async def test(launcher: Launcher) -> None:
        await launcher.start(["sh", "-c", "trap '' TERM; sleep 63.3; sleep 63.3"], ENVIRONMENT, "x")
        await until(lambda: is_running("63.3"))
        await launcher.close()
        assert not is_running("63.3")

    run(test)


HOLDER = """
import asyncio, os
from penstock.web.programs.launcher import Launcher
async def main():
    launcher = Launcher()
    environment = {"PATH": os.environ["PATH"]}
    await launcher.start(["sh", "-c", "sleep 64.4; sleep 64.4"], environment, "x")
    await launcher.start(["sh", "-c", "trap '' TERM; while :; do sleep 1; : 64.4; done"], environment, "x")
    await asyncio.sleep(0.5)
    print("ready", flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


def test_nothing_is_left_when_the_process_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert is_running("64.4")
        holder.kill()
    ends_at = time.monotonic() + 10
    while is_running("64.4"):
        assert time.monotonic() < ends_at
        time.sleep(0.05)


ALONE = """
import asyncio, os
from penstock.web.programs.launcher import Launcher
async def main():
    launcher = Launcher()
    await launcher.start(["sleep", "73." + "3"], {"PATH": os.environ["PATH"]}, "x")
    await asyncio.sleep(0.5)
    print(launcher._guard.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


def test_the_kernel_ends_a_program_when_nobody_is_left_to_do_it() -> None:
    with subprocess.Popen([sys.executable, "-c", ALONE], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        guard = int(holder.stdout.readline())
        # The guard tells of a program before that has become what it is to be.
        begins_by = time.monotonic() + 10
        while not is_running("73.3"):
            assert time.monotonic() < begins_by
            time.sleep(0.05)
        # So that it cannot notice the end of the guard.
        holder.send_signal(signal.SIGSTOP)
        try:
            os.kill(guard, signal.SIGKILL)
            ends_at = time.monotonic() + 10
            while is_running("73.3"):
                assert time.monotonic() < ends_at
                time.sleep(0.05)
        finally:
            holder.kill()


def test_programs_end_when_their_guard_is_killed_and_a_new_one_starts_more() -> None:
    async def test(launcher: Launcher) -> None:
        first = await launcher.start(["sh", "-c", "sleep 66.6 & sleep 66.6"], ENVIRONMENT, "x")
        await until(lambda: is_running("66.6") and first.started.done())
        assert launcher._guard is not None
        launcher._guard.kill()
        assert await asyncio.wait_for(first.ended, 10) == "its guard is gone"
        await until(lambda: not is_running("66.6"))
        second = await launcher.start(["true"], ENVIRONMENT, "x")
        assert await asyncio.wait_for(second.ended, 10) == "status 0"

    run(test)


def test_an_event_runs_a_program_with_the_event_in_its_environment(tmp_path: Path) -> None:
    out = tmp_path / "out"

    async def test(launcher: Launcher) -> None:
        programs = EventPrograms(launcher, ENVIRONMENT)
        script = f'echo "$0 $PENSTOCK_EVENT $PENSTOCK_APP $PENSTOCK_STREAM $PENSTOCK_DATA" >> {out}'
        programs.configure([program("sh", "-c", script, "{app}/{stream}")])
        programs.hear(event())
        await until(out.exists)
        await until(lambda: out.read_text().endswith("\n"))
        await programs.close()

    run(test)
    assert out.read_text() == 'live/main publish_started live main {"stream":"main"}\n'


def test_programs_of_one_stream_run_one_after_the_other(tmp_path: Path) -> None:
    out = tmp_path / "out"

    async def test(launcher: Launcher) -> None:
        programs = EventPrograms(launcher, ENVIRONMENT)
        programs.configure([program("sh", "-c", f"echo begin >> {out}; sleep 0.05; echo end >> {out}")])
        for number in range(3):
            programs.hear(event(number=number))
        await until(lambda: out.exists() and out.read_text().count("end") == 3)
        await programs.close()

    run(test)
    assert out.read_text().split() == ["begin", "end"] * 3


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    out = tmp_path / "out"

    async def test(launcher: Launcher) -> None:
        programs = EventPrograms(launcher, ENVIRONMENT)
        programs.configure([program("sh", "-c", f"echo begin > {out}; sleep 67.7; echo end >> {out}", timeout_s=1.0)])
        programs.hear(event())
        await until(out.exists)
        await until(lambda: not is_running("67.7"))
        await programs.close()

    run(test)
    assert out.read_text() == "begin\n"


def test_an_unfit_name_runs_nothing_and_too_many_events_are_left_out(tmp_path: Path) -> None:
    out = tmp_path / "out"

    async def test(launcher: Launcher) -> None:
        programs = EventPrograms(launcher, ENVIRONMENT, max_at_once=1, max_waiting=3)
        programs.configure([program("sh", "-c", f"echo $PENSTOCK_STREAM >> {out}", "x", "{stream}")])
        for stream in ("-rf", "a", "b", "c", "d"):
            programs.hear(event(stream))
        await until(lambda: out.exists() and out.read_text().count("\n") == 2)
        await asyncio.sleep(0.1)
        await programs.close()

    run(test)
    assert sorted(out.read_text().split()) == ["a", "b"]


class Published:
    def __init__(self, **streams: str) -> None:
        self.streams = {("live", name): publication for name, publication in streams.items()}

    def __call__(self) -> dict[tuple[str, str], str]:
        return self.streams


def while_publishing(
    test: Callable[[WhilePublishing], Coroutine[Any, Any, None]], published: Published, **options: Any
) -> None:
    async def main(launcher: Launcher) -> None:
        programs = WhilePublishing(launcher, published, ENVIRONMENT, **options)
        task = asyncio.create_task(programs.run())
        try:
            await test(programs)
        finally:
            task.cancel()
            await asyncio.wait([task])

    run(main)


def test_a_program_runs_for_as_long_as_its_stream_is_published() -> None:
    published = Published()

    async def test(programs: WhilePublishing) -> None:
        programs.configure([program("sh", "-c", "sleep 68.8; sleep 68.8", "{app}/{stream}", streams=("live/main",))])
        await asyncio.sleep(0.05)
        published.streams = {("live", "main"): "p1", ("live", "other"): "p2"}
        programs.look_soon()
        await until(lambda: is_running("live/main"))
        assert not is_running("live/other")
        published.streams = {}
        programs.look_soon()
        await until(lambda: not is_running("68.8"))

    while_publishing(test, published)


def test_a_stream_that_was_published_before_we_came_has_its_program() -> None:
    async def test(programs: WhilePublishing) -> None:
        programs.configure([program("sleep", "69.9")])
        await until(lambda: is_running("69.9"))

    while_publishing(test, Published(main="p1"))
    assert not is_running("69.9")


def test_a_program_that_ends_is_started_again_later_each_time(tmp_path: Path) -> None:
    out = tmp_path / "out"

    async def test(programs: WhilePublishing) -> None:
        programs.configure([program("sh", "-c", f"date +%s.%N >> {out}")])
        await until(lambda: out.exists() and out.read_text().count("\n") == 4)

    while_publishing(test, Published(main="p1"), first_delay_s=0.1)
    at = [float(line) for line in out.read_text().split()][:4]
    waits = [later - sooner for sooner, later in pairwise(at)]
    assert waits[0] >= 0.1
    assert waits[1] >= 0.2
    assert waits[2] >= 0.4


def test_a_program_that_ends_with_its_stream_is_no_cause_for_a_warning() -> None:
    published = Published(main="p1")
    stream = io.StringIO()
    writer = configure_logs("info", "json", stream)

    async def test(programs: WhilePublishing) -> None:
        programs.configure([program("echo", "over")])
        await until(lambda: writer.flush(5.0) and "over" in stream.getvalue())
        await asyncio.sleep(0.05)
        published.streams = {}
        programs.look_soon()
        await asyncio.sleep(0.4)

    while_publishing(test, published, first_delay_s=0.3)
    writer.close()
    assert "started again" not in stream.getvalue()


def test_another_publication_has_another_program_after_the_end_of_the_first(tmp_path: Path) -> None:
    out = tmp_path / "out"
    published = Published(main="p1")
    script = f"echo begin >> {out}; trap 'sleep 0.3; echo end >> {out}; exit' TERM; sleep 60 & wait"

    async def test(programs: WhilePublishing) -> None:
        programs.configure([program("sh", "-c", script)])
        await until(lambda: out.exists() and out.read_text() == "begin\n")
        await asyncio.sleep(0.1)
        published.streams = {("live", "main"): "p2"}
        programs.look_soon()
        await until(lambda: out.read_text().count("begin") == 2)

    while_publishing(test, published)
    assert out.read_text().split()[:3] == ["begin", "end", "begin"]


def test_only_so_many_run_at_a_time(tmp_path: Path) -> None:
    async def test(programs: WhilePublishing) -> None:
        programs.configure([program("sh", "-c", f"touch {tmp_path}/$PENSTOCK_STREAM; sleep 60")])
        await until(lambda: len(list(tmp_path.iterdir())) == 2)
        await asyncio.sleep(0.2)

    while_publishing(test, Published(a="p1", b="p2", c="p3"), max_at_once=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
