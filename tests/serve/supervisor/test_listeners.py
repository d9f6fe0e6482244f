"""Listeners: opened and shut, handed over by systemd, and out of descriptors."""

import contextlib
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from penstock.serve.reactor import Reactor
from penstock.serve.supervisor.listeners import Arrival, Listeners, bind


class Stage:
    """One listener on loopback, on a reactor whose clock is ours."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.errors: list[BaseException] = []
        self.arrivals: list[Arrival] = []
        self.exhausted: list[str] = []
        self.reactor = Reactor(self.errors.append, clock=lambda: self.time)
        self.listeners = Listeners(self.reactor, self._on_arrival, self.exhausted.append)
        self.address = self.listeners.add("rtmp", bind("127.0.0.1", 0))
        self.accept_costs_s = 0.0
        self._clients = contextlib.ExitStack()

    def _on_arrival(self, arrival: Arrival) -> None:
        self.arrivals.append(arrival)
        self.time += self.accept_costs_s

    def knock(self, count: int = 1) -> None:
        for _ in range(count):
            self._clients.enter_context(socket.create_connection(self.address))
        self.run()

    def run(self) -> None:
        """One round of the loop."""
        self.reactor.call_at(self.time, self.reactor.stop)
        self.reactor.run()

    def close(self) -> None:
        self.listeners.close()
        self._clients.close()
        for arrival in self.arrivals:
            arrival.socket.close()
        self.reactor.close()


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.close()
    assert made.errors == []


def test_those_who_come_are_told_with_their_address_once_it_is_open(stage: Stage) -> None:
    stage.knock(2)
    assert stage.arrivals == []
    stage.listeners.set_open(True)
    stage.listeners.set_open(True)
    stage.run()
    assert [(arrival.listener, arrival.ip) for arrival in stage.arrivals] == [("rtmp", "127.0.0.1")] * 2
    assert stage.arrivals[0].port == stage.arrivals[0].socket.getpeername()[1]


def test_those_who_come_while_it_is_shut_wait_in_the_queue(stage: Stage) -> None:
    stage.listeners.set_open(True)
    stage.listeners.set_open(False)
    stage.knock(3)
    assert stage.arrivals == []
    stage.listeners.set_open(True)
    stage.run()
    assert len(stage.arrivals) == 3


def test_a_turn_takes_64_at_most_and_ends_in_time(stage: Stage) -> None:
    stage.listeners.set_open(True)
    stage.knock(70)
    assert len(stage.arrivals) == 64
    stage.run()
    stage.accept_costs_s = 0.0015
    stage.knock(5)
    assert len(stage.arrivals) == 72


def test_without_descriptors_it_looks_again_in_a_while(stage: Stage) -> None:
    stage.listeners.set_open(True)
    client = socket.socket()
    client.connect(stage.address)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        stage.run()
        stage.run()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (stage.exhausted, stage.arrivals) == (["Too many open files"], [])
    stage.time += 0.6
    stage.run()
    stage.run()
    assert len(stage.arrivals) == 1
    client.close()


def test_an_address_can_be_bound_once_only() -> None:
    with bind("127.0.0.1", 0) as first, pytest.raises(OSError, match="Address already in use"):
        bind("127.0.0.1", first.getsockname()[1])


PROGRAM = """
import os, sys
from penstock.errors import ConfigError
from penstock.serve.supervisor.listeners import inherited_listeners
for number, descriptor in enumerate(map(int, sys.argv[1:]), start=3):
    os.dup2(descriptor, number)
os.environ["LISTEN_PID"] = str(os.getpid() + int(os.environ.pop("OFF", "0")))
try:
    for name, listener in inherited_listeners(os.environ, os.getpid()):
        print(name, listener.getsockname()[1], os.get_inheritable(listener.fileno()))
except ConfigError as error:
    print(error)
"""


def activated(names: str, off: int = 0) -> tuple[list[str], list[int]]:
    """What a process finds that systemd would have started with two sockets; and their ports."""
    with bind("127.0.0.1", 0) as first, bind("127.0.0.1", 0) as second:
        # Far from 3 and 4, where they are to be.
        kept = [os.dup(each.fileno()) for each in (first, second)]
        environment = {**os.environ, "LISTEN_FDS": "2", "LISTEN_FDNAMES": names, "OFF": str(off)}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *map(str, kept)],
            env=environment,
            pass_fds=kept,
            capture_output=True,
            text=True,
            check=True,
        )
        for descriptor in kept:
            os.close(descriptor)
        return done.stdout.splitlines(), [each.getsockname()[1] for each in (first, second)]


def test_sockets_of_systemd_are_taken_by_their_names() -> None:
    found, (first, second) = activated("rtmp:http")
    assert found == [f"rtmp {first} False", f"http {second} False"]


def test_a_socket_of_systemd_with_another_name_is_refused() -> None:
    found, _ = activated("rtmp:penstock.socket")
    assert found == [
        "socket activation: a socket is named 'penstock.socket': should be one of rtmp, rtmps, http, https"
    ]


def test_sockets_that_are_for_another_process_are_left_alone() -> None:
    assert activated("rtmp:http", off=1)[0] == []
