"""Signals to a program whose main thread is in one long call: each is heard, and one too many ends what comes next."""

import signal
import subprocess
import sys
import time

from tests.support.processes import is_pending

# The call is of C, takes half a second and lets other threads run, as writing a table does; no handler runs meanwhile.
BUSY = """
import hashlib, itertools, sys
from penstock.commands.stopping import hear_each_signal

heard = itertools.count(1)
hear_each_signal(lambda: next(heard) > 1)
print("ready", flush=True)
try:
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000)
    print(sys.stdin.readline())
except KeyboardInterrupt:
    print("interrupted")
"""


def said_after(*numbers: signal.Signals, then: str) -> str:
    program = [sys.executable, "-c", BUSY]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            for number in numbers:
                process.send_signal(number)
                while is_pending(process.pid, number):
                    time.sleep(0.01)
            process.stdin.write(then)
            process.stdin.flush()
            return process.stdout.readline()
        finally:
            process.kill()


def test_two_signals_of_one_number_are_two_even_if_the_main_thread_looks_late() -> None:
    assert said_after(signal.SIGTERM, signal.SIGTERM, then="") == "interrupted\n"


def test_one_signal_interrupts_nothing() -> None:
    assert said_after(signal.SIGTERM, then="went on\n") == "went on\n"
