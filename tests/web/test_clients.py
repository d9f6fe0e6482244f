"""Who is at the other end: the socket's own word over TCP, the worker's behind TLS, nobody's where neither knows."""

import socket

import pytest

from penstock.web.clients import Client, client_of, read_client_address
from tests.support.rtmp_driver import LOOPBACK


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("203.0.113.7:5000", ("203.0.113.7", 5000)),
        ("[2001:db8::1]:443", ("2001:db8::1", 443)),
        ("[::ffff:203.0.113.7]:1", ("203.0.113.7", 1)),
        ("[fe80::1%eth0]:2", ("fe80::1%eth0", 2)),
    ],
)
def test_an_address_is_read_as_workers_write_it(text: str, address: tuple[str, int]) -> None:
    assert read_client_address(text) == address


@pytest.mark.parametrize("text", ["", ":", "localhost:1", "203.0.113.7", "203.0.113.7:", "203.0.113.7:70000", "@:1"])
def test_what_is_no_address_is_absent(text: str) -> None:
    assert read_client_address(text) is None


def test_a_socket_over_tcp_tells_its_peer_whatever_else_is_told() -> None:
    with (
        socket.create_server((LOOPBACK, 0)) as listener,
        socket.create_connection(listener.getsockname()) as peer,
        listener.accept()[0] as connection,
    ):
        expected = Client((LOOPBACK, peer.getsockname()[1]), "http")
        assert client_of(connection, "203.0.113.7:5000", "https") == expected


def test_behind_a_pair_counts_what_was_told() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert client_of(ours, "203.0.113.7:5000", "https") == Client(("203.0.113.7", 5000), "https")
        assert client_of(ours, "", "https") == Client(None, "https")


def test_one_who_is_gone_is_not_taken_for_this_machine() -> None:
    with socket.socket() as never_connected:
        assert client_of(never_connected, "127.0.0.1:5000", "https") == Client(None, "http")
