"""The control socket: questions however they come, and what an earlier server has left."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.serve.reactor import Reactor
from penstock.serve.supervisor.control_socket import ControlSocket, connect, is_served


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    errors: list[BaseException] = []
    made = Reactor(errors.append)
    yield made
    made.close()
    assert errors == []


def rounds(reactor: Reactor, count: int = 4) -> None:
    for _ in range(count):
        reactor.call_later(0.005, reactor.stop)
        reactor.run()


def asked(reactor: Reactor, folder: Path, *pieces: bytes) -> bytes:
    with connect(folder) as client:
        for piece in pieces:
            client.sendall(piece)
            rounds(reactor)
        client.settimeout(5)
        try:
            return client.recv(65536)
        except ConnectionResetError:  # closed with the question unread
            return b""


def test_a_question_is_a_line_and_so_is_its_answer_however_it_was_cut(reactor: Reactor, tmp_path: Path) -> None:
    control = ControlSocket(reactor, tmp_path, lambda question: {"asked": question["ask"]})
    assert asked(reactor, tmp_path, b'{"ask": "sta', b'tus"}\n') == b'{"asked": "status"}\n'
    control.close()


@pytest.mark.parametrize("line", [b"[1]\n", b"{\n", b"\xff\n", b"[" * 10_000 + b"\n"])
def test_what_is_no_object_is_told_so(reactor: Reactor, tmp_path: Path, line: bytes) -> None:
    control = ControlSocket(reactor, tmp_path, lambda question: question)
    assert asked(reactor, tmp_path, line) == b'{"error": "a question is a JSON object"}\n'
    control.close()


def test_whoever_asks_without_end_or_leaves_is_closed(reactor: Reactor, tmp_path: Path) -> None:
    control = ControlSocket(reactor, tmp_path, lambda question: question)
    assert asked(reactor, tmp_path, b"x" * 65_536, b"x") == b""
    connect(tmp_path).close()
    rounds(reactor)
    control.close()


def test_more_than_sixteen_at_once_are_not_let_in(reactor: Reactor, tmp_path: Path) -> None:
    control = ControlSocket(reactor, tmp_path, lambda question: question)
    clients = [connect(tmp_path) for _ in range(16)]
    rounds(reactor, 20)
    assert asked(reactor, tmp_path, b"{}\n") == b""
    for client in clients:
        client.close()
    rounds(reactor)
    assert asked(reactor, tmp_path, b"{}\n") == b"{}\n"
    control.close()


def test_a_socket_that_a_killed_server_left_is_replaced(reactor: Reactor, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "control.sock"))
    assert not is_served(tmp_path)
    control = ControlSocket(reactor, tmp_path, lambda question: question)
    assert (tmp_path / "control.sock").stat().st_mode & 0o777 == 0o600
    assert is_served(tmp_path)
    with pytest.raises(ConfigError, match="another server uses"):
        ControlSocket(reactor, tmp_path, lambda question: question)
    control.close()
    assert not (tmp_path / "control.sock").exists()


def test_a_folder_may_have_a_longer_path_than_addresses_of_sockets(reactor: Reactor, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    control = ControlSocket(reactor, folder, lambda question: question)
    assert asked(reactor, folder, b"{}\n") == b"{}\n"
    control.close()
