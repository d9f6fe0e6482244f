"""Who is let in: limits on connections in all, from one address and per second, and descriptors kept for files."""

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from penstock.serve.connections.acceptor import RESERVED_DESCRIPTORS, Accepted, Acceptor
from penstock.serve.reactor import Reactor
from penstock.serve.settings import ServerSettings


class Stage:
    """An acceptor with one listener on loopback, on a reactor whose clock is ours."""

    def __init__(self, settings: ServerSettings, host: str = "127.0.0.1") -> None:
        self.time = 1000.0
        self.settings = settings
        self.errors: list[BaseException] = []
        self.reactor = Reactor(self.errors.append, clock=lambda: self.time)
        self.accepted: list[Accepted] = []
        self.limits: list[tuple[str, str]] = []
        self.acceptor = Acceptor(self.reactor, lambda: self.settings, self._on_limit)
        self.accept_costs_s = 0.0
        self.address = host, self.acceptor.listen(host, 0, self._on_accepted)
        self._family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._clients = ExitStack()

    def _on_accepted(self, accepted: Accepted) -> None:
        self.accepted.append(accepted)
        self.time += self.accept_costs_s

    def _on_limit(self, limit: str, detail: str) -> None:
        self.limits.append((limit, detail))

    def client(self, source: str | None = None) -> socket.socket:
        """One that has not connected yet."""
        client = self._clients.enter_context(socket.socket(self._family))
        client.bind((source or self.address[0], 0))
        return client

    def knock(self, count: int = 1, source: str | None = None) -> list[socket.socket]:
        """So many clients connect, and the loop looks at them."""
        made = [self.client(source) for _ in range(count)]
        for client in made:
            client.connect(self.address)
        self.run()
        return made

    def run(self) -> None:
        """One round of the loop."""
        self.reactor.call_at(self.time, self.reactor.stop)
        self.reactor.run()

    def close(self) -> None:
        self.acceptor.close()
        for accepted in self.accepted:
            accepted.socket.close()
        self._clients.close()
        self.reactor.close()


@pytest.fixture
def made() -> Iterator[list[Stage]]:
    stages: list[Stage] = []
    yield stages
    for stage in stages:
        stage.close()
        assert stage.errors == []


def new_stage(made: list[Stage], settings: ServerSettings | None = None, host: str = "127.0.0.1") -> Stage:
    stage = Stage(settings or ServerSettings(), host)
    made.append(stage)
    return stage


def is_turned_away(client: socket.socket) -> bool:
    """Whether the server has closed it; one that was let in has nothing to read yet."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_who_is_let_in_is_given_on_with_its_address_and_does_not_block(made: list[Stage]) -> None:
    on = new_stage(made)
    (client,) = on.knock()
    (accepted,) = on.accepted
    assert accepted.address == f"127.0.0.1:{client.getsockname()[1]}"
    assert not accepted.socket.getblocking()
    assert accepted.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert accepted.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 128 * 1024
    assert on.acceptor.connections == 1


def test_an_ipv6_address_is_written_in_brackets(made: list[Stage]) -> None:
    on = new_stage(made, host="::1")
    (client,) = on.knock()
    assert on.accepted[0].address == f"[::1]:{client.getsockname()[1]}"


def test_above_the_limit_of_all_newcomers_are_turned_away_until_somebody_leaves(made: list[Stage]) -> None:
    on = new_stage(made, ServerSettings(max_connections=2))
    clients = on.knock(3)
    assert [is_turned_away(client) for client in clients] == [False, False, True]
    assert on.limits == [("connections", "2 are open")]
    on.accepted[0].leave()
    on.knock()
    assert len(on.accepted) == 3
    assert on.acceptor.connections == 2


def test_one_address_may_have_so_many_and_another_as_many(made: list[Stage]) -> None:
    on = new_stage(made, ServerSettings(max_connections_per_ip=2, exempts_loopback=False))
    clients = on.knock(3, source="127.0.0.2")
    assert [is_turned_away(client) for client in clients] == [False, False, True]
    assert on.limits == [("connections per address", "127.0.0.2 has 2")]
    on.knock(source="127.0.0.3")
    assert len(on.accepted) == 3
    on.accepted[0].leave()
    on.knock(source="127.0.0.2")
    assert len(on.accepted) == 4


def test_one_address_may_open_so_many_per_second_beyond_a_burst(made: list[Stage]) -> None:
    settings = ServerSettings(max_connections_per_ip=5, max_new_connections_per_ip_per_s=2, exempts_loopback=False)
    on = new_stage(made, settings)
    for _ in range(5):
        on.knock()
        on.accepted[-1].leave()
    on.knock()
    assert len(on.accepted) == 5
    assert on.limits == [("new connections per address", "127.0.0.1 opens them too fast")]
    on.time += 1.0
    on.knock(3)
    assert len(on.accepted) == 7


def test_loopback_is_exempt_from_limits_per_address_unless_it_is_said(made: list[Stage]) -> None:
    on = new_stage(made, ServerSettings(max_connections_per_ip=1, max_new_connections_per_ip_per_s=1))
    on.knock(10)
    assert len(on.accepted) == 10


def test_limits_that_change_hold_for_the_next(made: list[Stage]) -> None:
    on = new_stage(made, ServerSettings(max_connections=1))
    on.knock()
    on.settings = ServerSettings(max_connections=2)
    on.knock(2)
    assert len(on.accepted) == 2


def test_one_that_left_leaves_nothing_behind(made: list[Stage]) -> None:
    on = new_stage(made, ServerSettings(exempts_loopback=False))
    on.knock(3)
    for accepted in on.accepted:
        accepted.leave()
    assert (on.acceptor.connections, dict(on.acceptor._per_address)) == (0, {})


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Let the process have so many more descriptors; for more than none, all but those that are kept for files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_free = os.dup(0)
    os.close(next_free)
    kept = RESERVED_DESCRIPTORS if count else 0
    # Of few descriptors a smaller part is kept.
    limit = max(next_free + count + kept, 4 * kept)
    taken = [os.dup(0) for _ in range(next_free + count + kept, limit)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in taken:
            os.close(descriptor)


def test_the_last_descriptors_are_kept_for_files(made: list[Stage]) -> None:
    on = new_stage(made)
    with descriptors_left(2):
        # The client's own is one of the two.
        on.knock()
        assert (len(on.accepted), on.limits) == (1, [])
        (client,) = on.knock()
        assert on.limits == [("descriptors", "the rest is reserved for files")]
        assert is_turned_away(client)


def test_where_descriptors_are_short_it_looks_again_in_a_while_instead_of_spinning(made: list[Stage]) -> None:
    on = new_stage(made)
    with descriptors_left(1):
        on.knock()
        assert len(on.limits) == 1
        on.knock()
        assert len(on.limits) == 1
    on.time += 0.49
    on.run()
    assert on.accepted == []
    on.time += 0.02
    on.run()
    on.run()
    assert len(on.accepted) == 1


def out_of_descriptors(on: Stage) -> None:
    """Somebody knocks when there is no descriptor left at all."""
    client = on.client()
    with descriptors_left(0):
        client.connect(on.address)
        on.run()


def test_without_any_descriptor_it_says_so_and_looks_again_in_a_while(made: list[Stage]) -> None:
    on = new_stage(made)
    out_of_descriptors(on)
    assert on.limits == [("descriptors", "Too many open files")]
    on.time += 0.5
    on.run()
    on.run()
    assert len(on.accepted) == 1


def test_after_the_end_nobody_is_let_in(made: list[Stage]) -> None:
    on = new_stage(made)
    on.acceptor.close()
    with pytest.raises(ConnectionRefusedError):
        on.knock()


def test_a_pause_that_ends_after_the_end_opens_nothing(made: list[Stage]) -> None:
    on = new_stage(made)
    out_of_descriptors(on)
    on.acceptor.close()
    on.time += 1.0
    on.run()
    on.run()
    assert (on.accepted, on.errors) == ([], [])


def test_a_crowd_is_let_in_over_several_turns(made: list[Stage]) -> None:
    on = new_stage(made)
    on.knock(100)
    assert len(on.accepted) == 64
    on.run()
    assert len(on.accepted) == 100


def test_a_turn_of_accepting_ends_in_time(made: list[Stage]) -> None:
    on = new_stage(made)
    on.accept_costs_s = 0.0011
    on.knock(10)
    assert len(on.accepted) == 2
    on.accept_costs_s = 0.0
    on.run()
    assert len(on.accepted) == 10
