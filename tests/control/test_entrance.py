"""Who is let in, exactly over all workers, and that each worker gets its share."""

from ipaddress import ip_network

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.control.entrance import Admission, Entrance, EntranceLimits, Refusal

LIMITS = EntranceLimits(
    max_connections=1000, max_connections_per_ip=100, max_new_connections_per_ip_per_s=100, exempts_loopback=True
)


def entrance(workers: int = 2, limits: EntranceLimits = LIMITS) -> Entrance:
    made = Entrance(limits)
    for worker in range(1, workers + 1):
        made.worker_ready(worker)
    return made


def admitted(door: Entrance, ip: str = "127.0.0.1", *, listener: str = "rtmp", now: float = 0.0) -> Admission:
    answer = door.admit(listener, ip, 4000, now)
    assert isinstance(answer, Admission)
    return answer


def refused(door: Entrance, ip: str, *, listener: str = "rtmp", now: float = 0.0) -> tuple[str, str]:
    answer = door.admit(listener, ip, 4000, now)
    assert isinstance(answer, Refusal)
    return answer.limit, answer.detail


def with_limits(connections: int = 1000, per_ip: int = 100, per_s: int = 100, *, loopback: bool = True) -> Entrance:
    return entrance(2, EntranceLimits(connections, per_ip, per_s, exempts_loopback=loopback))


def test_connections_are_numbered_and_told_by_their_address() -> None:
    door = entrance()
    assert admitted(door, "192.0.2.1") == Admission(1, 1, "192.0.2.1:4000")
    assert admitted(door, "2001:db8::1") == Admission(2, 2, "[2001:db8::1]:4000")


def test_of_two_hundred_connections_each_of_two_workers_has_half() -> None:
    door = entrance()
    for _ in range(200):
        admitted(door)
    assert (door.connections_of(1), door.connections_of(2), door.connections) == (100, 100, 200)


def test_a_worker_that_comes_late_gets_all_until_it_has_as_many() -> None:
    door = entrance(1)
    for _ in range(3):
        admitted(door)
    door.worker_ready(2)
    assert [admitted(door).worker for _ in range(5)] == [2, 2, 2, 1, 2]


def test_a_congested_worker_gets_nobody_while_another_is_not() -> None:
    door = entrance()
    answers = [door.admit("rtmp", "127.0.0.1", 4000, 0.0, congested={1}) for _ in range(3)]
    answers.append(door.admit("rtmp", "127.0.0.1", 4000, 0.0, congested={1, 2}))
    assert [answer.worker for answer in answers if isinstance(answer, Admission)] == [2, 2, 2, 1]


def test_nobody_is_let_in_while_no_worker_is_ready() -> None:
    assert refused(Entrance(LIMITS), "127.0.0.1") == ("workers", "none is ready")


def test_all_together_are_as_many_as_allowed_over_both_workers() -> None:
    door = with_limits(connections=5)
    numbers = [admitted(door).number for _ in range(5)]
    assert refused(door, "127.0.0.1") == ("connections", "5 are open")
    door.left(numbers[0])
    door.left(numbers[0])
    admitted(door)
    assert refused(door, "127.0.0.1") == ("connections", "5 are open")
    assert door.turned_away == {"connections": 2}


def test_an_address_has_as_many_as_allowed_over_both_workers() -> None:
    door = with_limits(per_ip=3)
    assert [admitted(door, "192.0.2.1").worker for _ in range(3)] == [1, 2, 1]
    assert refused(door, "192.0.2.1") == ("connections per address", "192.0.2.1 has 3")
    assert admitted(door, "192.0.2.2").worker == 2


def test_an_address_opens_no_more_per_second_than_allowed() -> None:
    door = with_limits(per_ip=4, per_s=2)
    for _ in range(4):
        door.left(admitted(door, "192.0.2.1").number)
    assert refused(door, "192.0.2.1") == ("new connections per address", "192.0.2.1 opens them too fast")
    admitted(door, "192.0.2.1", now=0.5)


def test_this_machine_is_exempt_if_it_is_said_so() -> None:
    door = with_limits(per_ip=1)
    assert [admitted(door).number, admitted(door).number] == [1, 2]
    door = with_limits(per_ip=1, loopback=False)
    admitted(door)
    assert refused(door, "127.0.0.1") == ("connections per address", "127.0.0.1 has 1")


def test_other_limits_hold_for_those_who_come_later() -> None:
    door = with_limits(per_ip=1)
    admitted(door, "192.0.2.1")
    door.apply(EntranceLimits(1000, 2, 100, exempts_loopback=True))
    admitted(door, "192.0.2.1")
    assert refused(door, "192.0.2.1")[0] == "connections per address"


def test_a_full_server_still_answers_over_http_as_many_as_it_has_others() -> None:
    door = with_limits(connections=2, per_ip=2)
    for listener in ("rtmp", "rtmps", "http", "https"):
        admitted(door, listener=listener)
    assert refused(door, "192.0.2.1", listener="rtmp") == ("connections", "2 are open")
    assert refused(door, "192.0.2.1", listener="https") == ("connections over HTTP", "2 are open")
    assert (door.connections, door.connections_of(1)) == (2, 2)


def test_connections_of_one_address_over_http_are_bounded_and_counted_apart() -> None:
    door = with_limits(per_ip=1)
    first = admitted(door, "192.0.2.1", listener="http")
    admitted(door, "192.0.2.1")
    assert refused(door, "192.0.2.1", listener="https") == (
        "connections per address",
        "192.0.2.1 has 1 over HTTP",
    )
    admitted(door, "192.0.2.2", listener="http")
    door.left(first.number)
    admitted(door, "192.0.2.1", listener="http")
    assert door._http_per_address == {"192.0.2.1": 1, "192.0.2.2": 1}


def test_connections_over_http_may_come_fast() -> None:
    door = with_limits(per_ip=2, per_s=1)
    for _ in range(50):
        door.left(admitted(door, "192.0.2.1", listener="http").number)


def test_a_trusted_proxy_brings_many_over_http_and_is_one_address_elsewhere() -> None:
    proxies = (ip_network("192.0.2.0/24"),)
    door = entrance(2, EntranceLimits(100, 1, 100, exempts_loopback=False, http_proxies=proxies))
    for ip in ("192.0.2.9", "192.0.2.9", "::ffff:192.0.2.9"):
        admitted(door, ip, listener="http")
    admitted(door, "192.0.2.9")
    assert refused(door, "192.0.2.9")[0] == "connections per address"


def test_one_behind_a_proxy_counts_against_its_own_address() -> None:
    door = with_limits(per_ip=1)
    first, second = admitted(door, "127.0.0.1"), admitted(door, "127.0.0.1")
    assert door.from_proxy(first.number, "192.0.2.1:5000", 0.0) is None
    assert door.from_proxy(second.number, "192.0.2.1:5001", 0.0) == Refusal(
        "connections per address", "192.0.2.1 has 1"
    )
    door.left(second.number)
    door.left(first.number)
    assert door.from_proxy(admitted(door).number, "[2001:db8::1]:5000", 0.0) is None


def test_a_proxy_itself_is_not_held_to_the_limits_of_one_address() -> None:
    door = Entrance(EntranceLimits(100, 1, 1, exempts_loopback=False, behind_proxies=frozenset(("rtmps",))))
    door.worker_ready(1)
    first, second = (door.admit("rtmps", "192.0.2.9", port, 0.0) for port in (5000, 5001))
    assert isinstance(first, Admission)
    assert isinstance(second, Admission)
    assert isinstance(door.admit("rtmp", "192.0.2.9", 5002, 0.0), Admission)
    assert isinstance(door.admit("rtmp", "192.0.2.9", 5003, 0.0), Refusal)
    assert door.from_proxy(first.number, "192.0.2.1:5000", 0.0) is None
    assert door.from_proxy(second.number, "192.0.2.1:5001", 0.0) is not None


def test_a_proxy_that_does_not_know_or_speaks_of_one_that_is_gone_changes_nothing() -> None:
    door = with_limits(per_ip=1)
    assert door.from_proxy(admitted(door, "192.0.2.9").number, "unknown", 0.0) is None
    assert door.from_proxy(77, "192.0.2.1:5000", 0.0) is None
    assert refused(door, "192.0.2.9")[0] == "connections per address"
    admitted(door, "192.0.2.1")


def test_a_lost_worker_takes_its_connections_with_it() -> None:
    door = with_limits(per_ip=2)
    numbers = [admitted(door, "192.0.2.1").number for _ in range(2)]
    door.worker_lost(1)
    assert (door.connections, list(door.ready_workers)) == (1, [2])
    door.left(numbers[0])
    assert admitted(door, "192.0.2.1").worker == 2
    assert refused(door, "192.0.2.1")[0] == "connections per address"


class RandomGuests(RuleBasedStateMachine):
    """Guests that come and go, directly and through proxies, and workers that are lost and come back."""

    def __init__(self) -> None:
        super().__init__()
        self.door = entrance(2, EntranceLimits(8, 3, 1000, exempts_loopback=False))
        self.guests: dict[int, tuple[int, str | None]] = {}

    @precondition(lambda self: self.door.ready_workers)
    @rule(ip=st.sampled_from(["192.0.2.1", "192.0.2.2", "192.0.2.3"]))
    def come(self, ip: str) -> None:
        from_there = [group for _, group in self.guests.values() if group == ip]
        answer = self.door.admit("rtmp", ip, 1, 0.0)
        assert isinstance(answer, Admission) == (len(self.guests) < 8 and len(from_there) < 3)
        if isinstance(answer, Admission):
            self.guests[answer.number] = answer.worker, ip

    @precondition(lambda self: self.guests)
    @rule(data=st.data(), ip=st.sampled_from(["192.0.2.1", "192.0.2.2"]))
    def tell_the_true_address(self, data: st.DataObject, ip: str) -> None:
        number = data.draw(st.sampled_from(sorted(self.guests)))
        worker, _ = self.guests.pop(number)
        from_there = [group for _, group in self.guests.values() if group == ip]
        is_refused = self.door.from_proxy(number, f"{ip}:9", 0.0) is not None
        assert is_refused == (len(from_there) >= 3)
        self.guests[number] = worker, None if is_refused else ip

    @precondition(lambda self: self.guests)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.guests)))
        del self.guests[number]
        self.door.left(number)

    @rule(worker=st.integers(1, 2), is_back=st.booleans())
    def lose(self, worker: int, is_back: bool) -> None:
        self.guests = {number: guest for number, guest in self.guests.items() if guest[0] != worker}
        self.door.worker_lost(worker)
        if is_back:
            self.door.worker_ready(worker)

    @invariant()
    def counts_are_exact(self) -> None:
        assert self.door.connections == len(self.guests)
        for worker in (1, 2):
            assert self.door.connections_of(worker) == sum(guest[0] == worker for guest in self.guests.values())
        groups = [group for _, group in self.guests.values() if group is not None]
        assert self.door._per_address == {group: groups.count(group) for group in groups}


TestRandomGuests = RandomGuests.TestCase
TestRandomGuests.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
