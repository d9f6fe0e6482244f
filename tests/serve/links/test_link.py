"""Links: messages with descriptors between two processes, over real socket pairs and over one that cuts at random."""

import array
import errno
import math
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.messages import Left, Linked, Stop
from penstock.control.parcels import Parcel, write_parcel
from penstock.serve.links.link import CONGESTED_FROM_BYTES, MAX_PENDING_BYTES, Link
from penstock.serve.reactor import READ, WRITE, Reactor
from tests.serve.fakes import FakeLoop

Received = Left | Linked | Stop
DECODER: msgspec.msgpack.Decoder[Received] = msgspec.msgpack.Decoder(Received)
DEADLINE_S = 10.0


class End:
    """A link, and what came of it."""

    def __init__(self, loop: Any, sock: Any) -> None:
        self.messages: list[Received] = []
        self.descriptors: list[tuple[int, ...]] = []
        self.closings = 0
        self.fails_on: Received | None = None
        self.link = Link(loop, sock, DECODER, self._on_message, self._on_closed)

    def _on_message(self, message: Received, descriptors: tuple[int, ...]) -> None:
        if message == self.fails_on:
            raise RuntimeError("a defect of the receiver")
        self.messages.append(message)
        self.descriptors.append(descriptors)

    def _on_closed(self) -> None:
        self.closings += 1


class Pair:
    """Two ends on one loop."""

    def __init__(self, buffer_bytes: int | None = None) -> None:
        self.errors: list[BaseException] = []
        self.reactor = Reactor(self.errors.append)
        near, self.far_socket = socket.socketpair()
        if buffer_bytes is not None:
            near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        self.near = End(self.reactor, near)

    def open_far(self) -> End:
        return End(self.reactor, self.far_socket)

    def run_until(self, is_reached: Callable[[], bool]) -> None:
        def look() -> None:
            if is_reached():
                self.reactor.stop()

        self.reactor.after_events = look
        late = self.reactor.call_later(DEADLINE_S, self.reactor.stop)
        self.reactor.call_later(0, look)
        self.reactor.run()
        late.cancel()
        assert is_reached()

    def close(self) -> None:
        self.near.link.close()
        self.far_socket.close()
        self.reactor.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def pipes(count: int) -> tuple[list[int], list[int]]:
    """Ends to be sent away, and the ends that tell whether the others are still open."""
    made = [os.pipe() for _ in range(count)]
    return [write for _, write in made], [read for read, _ in made]


def are_closed(reads: list[int]) -> bool:
    """Whether nobody has the other ends any more. Closes these."""
    ended = []
    for read in reads:
        os.set_blocking(read, False)
        try:
            ended.append(os.read(read, 1) == b"")
        except BlockingIOError:
            ended.append(False)
        os.close(read)
    return all(ended)


def test_a_message_arrives_with_its_descriptors_and_the_sender_keeps_none(pair: Pair) -> None:
    far = pair.open_far()
    writes, reads = pipes(2)
    pair.near.link.send(Linked(2), writes)
    pair.near.link.send(Stop(is_at_once=False))
    pair.run_until(lambda: len(far.messages) == 2)
    assert far.messages == [Linked(2), Stop(is_at_once=False)]
    assert [len(each) for each in far.descriptors] == [2, 0]
    os.write(far.descriptors[0][1], b"!")
    assert os.read(reads[1], 1) == b"!"
    for descriptor in far.descriptors[0]:
        assert not os.get_inheritable(descriptor)
        os.close(descriptor)
    assert are_closed(reads)
    far.link.close()


def test_the_other_end_hears_of_the_end_once_behind_the_last_message(pair: Pair) -> None:
    far = pair.open_far()
    pair.near.link.send(Left([1]))
    pair.near.link.close()
    pair.near.link.close()
    pair.run_until(lambda: not far.link.is_open)
    assert (far.messages, far.closings, far.link.fault) == ([Left([1])], 1, None)
    assert pair.near.closings == 0


def test_what_is_sent_to_one_that_is_gone_is_given_up_and_the_end_comes_from_the_loop(pair: Pair) -> None:
    pair.far_socket.close()
    writes, reads = pipes(2)
    pair.near.link.send(Linked(1), writes[:1])
    pair.near.link.send(Linked(2), writes[1:])
    assert pair.near.closings == 0
    assert pair.near.link.pending_bytes == 0
    pair.run_until(lambda: pair.near.closings == 1)
    assert are_closed(reads)
    assert pair.near.link.fault == os.strerror(errno.EPIPE)


def test_descriptors_for_a_link_that_was_closed_are_closed(pair: Pair) -> None:
    pair.near.link.close()
    writes, reads = pipes(1)
    pair.near.link.send(Linked(1), writes)
    assert are_closed(reads)


def test_one_that_does_not_read_makes_the_link_congested_until_it_does(pair: Pair) -> None:
    numbers = list(range(10_000))
    while not pair.near.link.is_congested:
        pair.near.link.send(Left(numbers))
    assert CONGESTED_FROM_BYTES < pair.near.link.pending_bytes < CONGESTED_FROM_BYTES + 100_000
    far = pair.open_far()
    pair.run_until(lambda: pair.near.link.pending_bytes == 0)
    assert not pair.near.link.is_congested
    assert set(map(len, (message.numbers for message in far.messages if isinstance(message, Left)))) == {10_000}
    far.link.close()


def test_one_that_never_reads_loses_its_link_and_the_descriptors_on_their_way(pair: Pair) -> None:
    writes, reads = pipes(3)
    block = Left(list(range(70_000, 70_000 + 1_000_000)))
    pair.near.link.send(block)
    for descriptor in writes:
        pair.near.link.send(Linked(1), [descriptor])
    while pair.near.link.fault is None:
        pair.near.link.send(block)
    assert pair.near.link.fault.endswith("bytes wait to be sent")
    assert int(pair.near.link.fault.split()[0]) > MAX_PENDING_BYTES
    pair.run_until(lambda: pair.near.closings == 1)
    assert are_closed(reads)


def test_a_message_that_fails_costs_itself_alone(pair: Pair) -> None:
    far = pair.open_far()
    far.fails_on = Left([2])
    for number in (1, 2, 3):
        pair.near.link.send(Left([number]))
    pair.run_until(lambda: len(far.messages) == 2)
    assert far.messages == [Left([1]), Left([3])]
    assert [str(error) for error in pair.errors] == ["a defect of the receiver"]
    far.link.close()


@pytest.mark.parametrize(
    "data",
    [
        write_parcel(Parcel(b"\xc1")),
        write_parcel(Parcel(msgspec.msgpack.encode(["Unknown", 1]))),
        b"\xff\xff\xff\xff\0\0",
        write_parcel(Parcel(msgspec.msgpack.encode(Stop(is_at_once=True)), (0,))),
    ],
    ids=["no msgpack", "no such message", "too long", "a descriptor is missing"],
)
def test_what_is_no_message_ends_the_link_and_says_why(pair: Pair, data: bytes) -> None:
    pair.far_socket.sendall(data)
    pair.run_until(lambda: pair.near.closings == 1)
    assert pair.near.link.fault
    assert pair.near.messages == []


def test_descriptors_of_half_a_message_are_closed_with_the_link(pair: Pair) -> None:
    before = open_descriptors()
    writes, reads = pipes(1)
    socket.send_fds(pair.far_socket, [b"\x10\0\0\0\x01\0half"], writes)
    os.close(writes[0])
    pair.far_socket.shutdown(socket.SHUT_WR)
    pair.run_until(lambda: pair.near.closings == 1)
    assert are_closed(reads)
    assert open_descriptors() <= before


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 4)), max_size=12), st.sampled_from([4096, None]))
def test_all_messages_arrive_in_order_through_a_narrow_socket(sent: list[tuple[int, int]], buffer: int | None) -> None:
    before = open_descriptors()
    pair = Pair(buffer)
    far = pair.open_far()
    kept = []
    for count, descriptors in sent:
        writes, reads = pipes(descriptors)
        kept += reads
        pair.near.link.send(Left([7] * count), writes)
    pair.run_until(lambda: len(far.messages) == len(sent))
    assert far.messages == [Left([7] * count) for count, _ in sent]
    assert [len(each) for each in far.descriptors] == [count for _, count in sent]
    for descriptor in (each for received in far.descriptors for each in received):
        os.close(descriptor)
    assert are_closed(kept)
    far.link.close()
    pair.close()
    assert open_descriptors() == before


class CuttingSocket:
    """A socket to itself that takes and gives as much as it was told, and descriptors as Linux does."""

    def __init__(self, takes: Iterable[int], gives: Iterable[int]) -> None:
        self._takes = deque(takes)
        self._gives = deque(gives)
        self._pieces: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self.is_over = False
        self.reads = 0

    def setblocking(self, _is_blocking: bool) -> None: ...

    def fileno(self) -> int:
        return 5

    def close(self) -> None: ...

    def sendmsg(self, buffers: list[bytes], ancillary: list[tuple[int, int, bytes]]) -> int:
        taken = self._takes.popleft() if self._takes else 10**6
        if taken == 0:
            raise BlockingIOError
        data = bytes(buffers[0][:taken])
        descriptors = tuple(os.dup(each) for _, _, numbers in ancillary for each in array.array("i", numbers))
        self._pieces.append((data, descriptors))
        return len(data)

    def recvmsg(self, _size: int, _room: int, _flags: int) -> tuple[bytes, list[tuple[int, int, bytes]], int, None]:
        self.reads += 1
        given = self._gives.popleft() if self._gives else 10**6
        if not given or not self._pieces:
            if self.is_over and not self._pieces:
                return b"", [], 0, None
            raise BlockingIOError
        data = b""
        while self._pieces and len(data) < given:
            piece, descriptors = self._pieces.popleft()
            room = given - len(data)
            data += piece[:room]
            if rest := piece[room:]:
                self._pieces.appendleft((rest, ()))
            if descriptors:
                body = b"".join(number.to_bytes(4, "little") for number in descriptors)
                return data, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, body)], 0, None
        return data, [], 0, None


@pytest.mark.parametrize(("descriptors", "reads"), [(0, 1), (1, 3)])
def test_a_link_is_read_once_for_what_it_has_and_on_behind_descriptors(descriptors: int, reads: int) -> None:
    loop, ends = FakeLoop(), CuttingSocket([], [])
    loop.turn_ends_at = math.inf
    end = End(loop, ends)
    probe, other = os.pipe()
    for _ in range(2):
        end.link.send(Stop(is_at_once=False), [os.dup(probe) for _ in range(descriptors)])
    loop._turns[5].callback(READ)
    assert (len(end.messages), ends.reads) == (2, reads)
    end.link.close()
    for descriptor in (probe, other, *(each for received in end.descriptors for each in received)):
        os.close(descriptor)


CUTS = st.lists(st.integers(0, 20), max_size=60)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2)), max_size=10), CUTS, CUTS)
def test_messages_are_the_same_however_both_sides_cut_them(
    sent: list[tuple[int, int]], takes: list[int], gives: list[int]
) -> None:
    before = open_descriptors()
    loop = FakeLoop()
    end = End(loop, CuttingSocket(takes, gives))
    call = loop._turns[5].callback
    probe, other = os.pipe()
    for count, descriptors in sent:
        end.link.send(Left([7] * count), [os.dup(probe) for _ in range(descriptors)])
    for _ in range(300):
        call(READ | WRITE if loop.interest[5] & WRITE else READ)
    assert end.messages == [Left([7] * count) for count, _ in sent]
    assert [len(each) for each in end.descriptors] == [count for _, count in sent]
    assert (end.link.pending_bytes, loop.interest[5]) == (0, READ)
    for descriptor in (probe, other, *(each for received in end.descriptors for each in received)):
        os.close(descriptor)
    end.link.close()
    assert open_descriptors() == before


class ScarceSocket(CuttingSocket):
    """One whose kernel has too many descriptors on their way, for a while."""

    refusals = 2

    def sendmsg(self, buffers: list[bytes], ancillary: list[tuple[int, int, bytes]]) -> int:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.ETOOMANYREFS, "too many")
        return super().sendmsg(buffers, ancillary)


def test_too_many_descriptors_on_their_way_are_waited_for() -> None:
    loop = FakeLoop()
    end = End(loop, ScarceSocket([], []))
    end.link.send(Stop(is_at_once=False))
    end.link.send(Left([1]))
    loop.advance(0.2)
    loop._turns[5].callback(READ)
    assert end.messages == [Stop(is_at_once=False), Left([1])]


def test_a_message_whose_descriptors_this_process_has_no_room_for_comes_without_them() -> None:
    class FullSocket(CuttingSocket):
        def recvmsg(self, size: int, room: int, flags: int) -> tuple[bytes, list[tuple[int, int, bytes]], int, None]:
            data, ancillary, _, address = super().recvmsg(size, room, flags)
            for _, _, body in ancillary:
                os.close(int.from_bytes(body, "little"))
            return data, [], socket.MSG_CTRUNC if ancillary else 0, address

    loop = FakeLoop()
    end = End(loop, FullSocket([], []))
    end.link.send(Linked(3), [os.dup(0)])
    end.link.send(Left([1]))
    for _ in range(2):
        loop._turns[5].callback(READ)
    assert list(zip(end.messages, end.descriptors, strict=True)) == [(Linked(3), ()), (Left([1]), ())]
