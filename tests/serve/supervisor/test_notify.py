"""What systemd is told, and what is kept from children."""

import socket
from collections.abc import Iterator

import pytest

from penstock.serve.supervisor.notify import Notifier, own_environment


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind("")  # the kernel chooses a name in the abstract namespace
        made.settimeout(10)
        yield made


def notifier(manager: socket.socket, **more: str) -> Notifier:
    return Notifier({"NOTIFY_SOCKET": "@" + manager.getsockname()[1:].decode(), **more}, pid=77)


def test_states_are_told_as_datagrams(manager: socket.socket) -> None:
    told = notifier(manager)
    told.ready()
    told.stopping()
    told.alive()
    assert [manager.recv(99) for _ in range(3)] == [b"READY=1", b"STOPPING=1", b"WATCHDOG=1"]


def test_reloading_comes_with_the_time_that_systemd_asks_for(manager: socket.socket) -> None:
    notifier(manager).reloading()
    state, _, stamp = manager.recv(99).partition(b"\nMONOTONIC_USEC=")
    assert state == b"RELOADING=1"
    assert int(stamp) > 0


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/nowhere/notify"}])
def test_without_a_manager_that_listens_nothing_happens(environment: dict[str, str]) -> None:
    Notifier(environment, pid=77).ready()


@pytest.mark.parametrize(
    ("environment", "every_s"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "77"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "78"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_told_twice_in_its_time_if_it_is_ours(environment: dict[str, str], every_s: float) -> None:
    assert Notifier(environment, pid=77).watchdog_s == every_s


def test_children_are_not_given_what_is_addressed_to_the_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_PID", "PENSTOCK_TEST"):
        monkeypatch.setenv(name, "1")
    assert "PENSTOCK_TEST" in own_environment()
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_PID"} & own_environment().keys()
