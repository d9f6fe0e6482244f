"""How little the kernel may hold: less for what never ends, as much as it has room for where an answer is whole."""

import socket
from collections.abc import Iterator

import pytest

from penstock.serve.connections.transport import LowWater, prepare_socket

LOW_BYTES = 131_072


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            prepare_socket(client, LOW_BYTES)
            yield client


def low_water_of(connection: socket.socket) -> int:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)


def test_it_is_lifted_for_whole_answers(connection: socket.socket) -> None:
    assert low_water_of(connection) == LOW_BYTES
    LowWater(connection).lift()
    assert low_water_of(connection) == 0


def test_it_comes_back_as_it_was_however_often_it_was_lifted(connection: socket.socket) -> None:
    low_water = LowWater(connection)
    low_water.lift()
    low_water.lift()
    low_water.restore()
    assert low_water_of(connection) == LOW_BYTES


def test_one_that_was_never_lifted_stays(connection: socket.socket) -> None:
    LowWater(connection).restore()
    assert low_water_of(connection) == LOW_BYTES
