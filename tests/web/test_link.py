"""A link: messages however they are cut, descriptors with the message that they belong to, and an end told once."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from penstock.control.messages import Alive, HttpConnection, Linked, Message, Stop
from penstock.control.parcels import Parcel, ParcelReader, write_parcel
from penstock.web.link import Link, decoder_of
from tests.support.cuts import by_size
from tests.web.web_process import send_message

ToUs = Linked | Stop


class Ends:
    """A link and the other end of its socket."""

    def __init__(self) -> None:
        ours, self.other = socket.socketpair()
        self.heard: list[tuple[ToUs, tuple[int, ...]]] = []
        self.ends = 0
        self.link: Link[ToUs] = Link(ours, decoder_of(ToUs), self._on_message, self._on_end)

    def _on_message(self, message: ToUs, descriptors: tuple[int, ...]) -> None:
        self.heard.append((message, descriptors))

    def _on_end(self) -> None:
        self.ends += 1


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0.001)


def talk(conversation: Callable[[Ends], Awaitable[None]]) -> Ends:
    async def run() -> Ends:
        ends = Ends()
        await conversation(ends)
        await settle()
        ends.link.close()
        ends.other.close()
        return ends

    return asyncio.run(run())


def encoded(message: Message) -> bytes:
    return write_parcel(Parcel(msgspec.msgpack.encode(message)))


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_messages_are_the_same_however_they_are_cut(cut: int) -> None:
    async def conversation(ends: Ends) -> None:
        for piece in by_size(encoded(Stop(is_at_once=True)) + encoded(Linked(3)), cut):
            ends.other.send(piece)
            await asyncio.sleep(0.001)

    assert [message for message, _ in talk(conversation).heard] == [Stop(is_at_once=True), Linked(3)]


def test_each_message_has_its_own_descriptors() -> None:
    pipes = [os.pipe() for _ in range(2)]

    async def conversation(ends: Ends) -> None:
        for number, (read_end, _) in enumerate(pipes):
            send_message(ends.other, Linked(number), read_end)
        send_message(ends.other, Stop(is_at_once=False))

    heard = talk(conversation).heard
    assert [message for message, _ in heard] == [Linked(0), Linked(1), Stop(is_at_once=False)]
    for (_, descriptors), (read_end, write_end) in zip(heard, pipes, strict=False):
        (received,) = descriptors
        assert not os.get_inheritable(received)
        os.write(write_end, b"x")
        assert os.read(received, 1) == b"x"
        for each in (received, read_end, write_end):
            os.close(each)
    assert heard[2][1] == ()


def test_the_end_of_the_other_side_is_told_once() -> None:
    async def conversation(ends: Ends) -> None:
        ends.other.close()

    assert talk(conversation).ends == 1


def test_closing_it_is_not_told() -> None:
    async def conversation(ends: Ends) -> None:
        ends.link.close()
        ends.link.close()

    assert talk(conversation).ends == 0


def test_what_is_not_understood_ends_it_and_its_descriptors_are_closed() -> None:
    read_end, write_end = os.pipe()

    async def conversation(ends: Ends) -> None:
        send_message(ends.other, HttpConnection("203.0.113.7:5000", "http"), write_end)
        os.close(write_end)

    assert talk(conversation).ends == 1
    assert os.read(read_end, 1) == b""
    os.close(read_end)


def test_descriptors_of_half_a_message_are_closed_with_it() -> None:
    read_end, write_end = os.pipe()

    async def conversation(ends: Ends) -> None:
        data = write_parcel(Parcel(msgspec.msgpack.encode(Linked(1)), (write_end,)))
        socket.send_fds(ends.other, [data[:-1]], [write_end])
        os.close(write_end)
        await settle()
        ends.other.close()

    assert talk(conversation).heard == []
    assert os.read(read_end, 1) == b""
    os.close(read_end)


def test_what_is_not_taken_at_once_goes_when_it_is_and_not_with_the_next_message() -> None:
    reader = ParcelReader()
    orders = [Alive({"filler": "x" * 2_000_000}), Alive({"filler": "y"})]

    async def conversation(ends: Ends) -> None:
        for order in orders:
            ends.link.send(order)
        ends.other.setblocking(False)
        for _ in range(1000):
            try:
                reader.feed(ends.other.recv(1 << 16))
            except BlockingIOError:
                await asyncio.sleep(0.001)

    talk(conversation)
    heard = [reader.next_parcel() for _ in orders]
    assert [each and msgspec.msgpack.decode(each.body, type=Alive) for each in heard] == orders


def test_one_that_does_not_read_costs_little_and_gets_whole_messages_when_it_does() -> None:
    reader = ParcelReader()
    message = Alive({"filler": "x" * 100_000})

    async def conversation(ends: Ends) -> None:
        for _ in range(200):
            ends.link.send(message)
        ends.other.setblocking(False)
        received_bytes = 0
        for _ in range(1000):
            try:
                data = ends.other.recv(1 << 16)
            except BlockingIOError:
                await asyncio.sleep(0.001)
                continue
            received_bytes += len(data)
            reader.feed(data)
        assert 8_000_000 < received_bytes < 9_000_000

    talk(conversation)
    while (parcel := reader.next_parcel()) is not None:
        assert msgspec.msgpack.decode(parcel.body, type=Alive) == message
    assert reader.next_parcel() is None


def test_telling_one_that_is_gone_does_nothing() -> None:
    async def conversation(ends: Ends) -> None:
        ends.other.close()
        ends.link.send(Alive({}))

    assert talk(conversation).ends == 1
