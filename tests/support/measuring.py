"""Processes beside an attack that measure and tell: started as a module, asked by a line, answering by a line of JSON.

Owns their start, their end and the pipes. A process of its own keeps the figures free of what the test does meanwhile.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

_DEADLINE_S = 20.0


class MeasuringProcess:
    """One such process, seen from a test."""

    def __init__(self, process: "subprocess.Popen[str]", requests: IO[str], answers: IO[str], log_path: Path) -> None:
        self._process = process
        self._requests = requests
        self._answers = answers
        self._log_path = log_path

    def ask(self) -> dict[str, Any]:
        """What happened since it was asked last."""
        try:
            self._requests.write("testify\n")
            self._requests.flush()
            line = self._answers.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            status = self._process.wait(_DEADLINE_S)
            raise ConnectionError(f"ended with status {status}: {self._log_path.read_text()[-1000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def measuring_process(module: str, port: int, log_path: Path) -> Iterator[MeasuringProcess]:
    """A process for the length of the block, which begins with its first answer."""
    line = [sys.executable, "-m", module, str(port)]
    with (
        log_path.open("wb") as log,
        subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        if process.stdin is None or process.stdout is None:
            raise AssertionError("pipes were asked for")
        measuring = MeasuringProcess(process, process.stdin, process.stdout, log_path)
        try:
            measuring.ask()
            yield measuring
        finally:
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait(_DEADLINE_S)


def answer(testimony: dict[str, Any]) -> None:
    """Said by the process itself."""
    sys.stdout.write(json.dumps(testimony) + "\n")
    sys.stdout.flush()
