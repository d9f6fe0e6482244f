"""Bytes to many sockets by one system call, the same to some of them: io_uring, where the kernel lets us.

Owns the ring and how it is laid out in memory; whom to send to, and what a short send means, is the caller's matter.
Every send is done or refused before the call returns, so nothing is ever under way between two calls. A kernel before
5.19, a container or an administrator may forbid io_uring: then there is no ring, and one call is made for each socket.
"""

import ctypes
import errno
import mmap
import os
import socket
import struct
from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

ENTRIES: Final = 1024
"""Sockets that are served by one call. The ring takes some 100 kB."""

# The same numbers on every architecture that CPython runs on under Linux.
_IO_URING_SETUP: Final = 425
_IO_URING_ENTER: Final = 426
# Do not stop at an entry that is refused; do not interrupt this thread. Kernels that know the second (5.19) also keep
# to MSG_DONTWAIT, which older ones did not: they waited.
_SETUP_SUBMIT_ALL: Final = 1 << 7
_SETUP_COOP_TASKRUN: Final = 1 << 8
_FEATURE_SINGLE_MMAP: Final = 1
_ENTER_GETEVENTS: Final = 1
_SQES_OFFSET: Final = 0x10000000
_OP_SEND: Final = 26

_PARAMS_BYTES: Final = 120
_SQ_OFFSETS = struct.Struct("<7I")
_SQ_OFFSETS_AT: Final = 40
_CQ_OFFSETS_AT: Final = 80
# An entry: operation, flags, priority, socket, offset, address, size, flags of the send, name.
_SQE = struct.Struct("<BBHiQQIIQ24x")
_CQE_BYTES: Final = 16
_WRAP: Final = 0xFFFFFFFF

_NOTHING_TAKEN: Final = {-errno.EAGAIN: 0, -errno.EINTR: 0}


def open_send_ring(entries: int = ENTRIES) -> "SendRing | None":
    """A ring that was seen to work, or None where there is none."""
    try:
        ring = SendRing(entries)
    except OSError:
        return None
    if _is_sound(ring):
        return ring
    ring.close()
    return None


class SendRing:
    """One io_uring. Raises OSError where the system has none."""

    def __init__(self, entries: int) -> None:
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.argtypes = (ctypes.c_long,) * 7
        self._syscall.restype = ctypes.c_long
        params = ctypes.create_string_buffer(_PARAMS_BYTES)
        struct.pack_into("<I", params, 8, _SETUP_SUBMIT_ALL | _SETUP_COOP_TASKRUN)
        self._descriptor = self._call(_IO_URING_SETUP, entries, ctypes.addressof(params), 0, 0, 0, 0)
        self._entries, completions, _, _, _, features = struct.unpack_from("<6I", params)
        if not features & _FEATURE_SINGLE_MMAP:
            os.close(self._descriptor)
            raise OSError(errno.ENOSYS, "this kernel keeps the halves of a ring apart")
        _, sq_tail, _, _, _, _, sq_array = _SQ_OFFSETS.unpack_from(params, _SQ_OFFSETS_AT)
        cq_head, cq_tail, _, _, _, cqes, _ = _SQ_OFFSETS.unpack_from(params, _CQ_OFFSETS_AT)
        self._map_ring(max(sq_array + 4 * self._entries, cqes + _CQE_BYTES * completions), sq_tail, cq_head, cq_tail)
        self._places = self._words[sq_array // 4 : sq_array // 4 + self._entries]
        self._results = self._bytes[cqes : cqes + _CQE_BYTES * completions].cast("i")
        self._names = self._bytes[cqes : cqes + _CQE_BYTES * completions].cast("Q")
        self._map_entries()
        self._numbers = memoryview(array("I", range(self._entries)))
        self._tail = self._head = 0

    def send(self, batches: Sequence[tuple[Sequence[int], bytes]]) -> list[list[int]]:
        """To the sockets of each batch its bytes. How many each socket took: 0 if it was full, -1 if it is lost."""
        # In one place in memory, so that its address is asked for once. A single one is not copied.
        data = b"".join([data for _sockets, data in batches])
        address = _address_of(data)
        sockets, addresses, sizes = array("i"), array("Q"), array("I")
        for batch, its_data in batches:
            count, size = len(batch), len(its_data)
            sockets.extend(batch)
            addresses += array("Q", (address,)) * count
            sizes += array("I", (size,)) * count
            address += size
        sent: list[int] = []
        for start in range(0, len(sockets), self._entries):
            part = slice(start, start + self._entries)
            sent += self._send_some(sockets[part], addresses[part], sizes[part])
        ends = accumulate(len(batch) for batch, _data in batches)
        return [sent[end - len(batch) : end] for end, (batch, _data) in zip(ends, batches, strict=True)]

    def close(self) -> None:
        """Give the memory back."""
        os.close(self._descriptor)
        for view in (self._places, self._results, self._names, self._words, self._bytes):
            view.release()
        for view in (self._sockets, self._addresses, self._sizes):
            view.release()
        self._ring_memory.close()
        self._entry_memory.close()

    def _map_ring(self, size: int, sq_tail: int, cq_head: int, cq_tail: int) -> None:
        self._ring_memory = mmap.mmap(self._descriptor, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self._bytes = memoryview(self._ring_memory)
        self._words = self._bytes[: size // 4 * 4].cast("I")
        self._sq_tail, self._cq_head, self._cq_tail = sq_tail // 4, cq_head // 4, cq_tail // 4

    def _map_entries(self) -> None:
        size = self._entries * _SQE.size
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        self._entry_memory = mmap.mmap(self._descriptor, size, flags=flags, offset=_SQES_OFFSET)
        how = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
        for name in range(self._entries):
            _SQE.pack_into(self._entry_memory, name * _SQE.size, _OP_SEND, 0, 0, -1, 0, 0, 0, how, name)
        # The fields that change, of all entries: one assignment fills them without a loop in Python.
        entries = memoryview(self._entry_memory)
        self._sockets = entries.cast("i")[1 :: _SQE.size // 4]
        self._addresses = entries.cast("Q")[2 :: _SQE.size // 8]
        self._sizes = entries.cast("I")[6 :: _SQE.size // 4]

    def _send_some(self, sockets: "array[int]", addresses: "array[int]", sizes: "array[int]") -> list[int]:
        """To no more sockets than the ring has entries."""
        count = len(sockets)
        self._sockets[:count] = memoryview(sockets)
        self._addresses[:count] = memoryview(addresses)
        self._sizes[:count] = memoryview(sizes)
        done = self._submit(count)
        sent = self._collect(done)
        if min(sent, default=0) < 0:
            sent = [taken if taken >= 0 else _NOTHING_TAKEN.get(taken, -1) for taken in sent]
        return sent + [0] * (count - done)

    def _submit(self, count: int) -> int:
        """Let the kernel do the first entries, and wait until it has. It may take fewer when it is short of memory."""
        first = self._tail % self._entries
        room = self._entries - first
        self._places[first : first + count] = self._numbers[: min(count, room)]
        if count > room:
            self._places[: count - room] = self._numbers[room:count]
        self._tail = (self._tail + count) & _WRAP
        self._words[self._sq_tail] = self._tail
        done = 0
        while done < count or (self._words[self._cq_tail] - self._head) & _WRAP < count:
            try:
                done += self._call(_IO_URING_ENTER, self._descriptor, count - done, count, _ENTER_GETEVENTS, 0, 0)
            except InterruptedError:
                continue
            except OSError:
                break
        self._tail = (self._tail - count + done) & _WRAP
        self._words[self._sq_tail] = self._tail
        return done

    def _collect(self, count: int) -> list[int]:
        """What became of the first entries, in their order."""
        completions = len(self._names) // 2
        first = self._head % completions
        last = first + count
        self._head = (self._head + count) & _WRAP
        sent = self._results[4 * first + 2 : 4 * last : 4].tolist()
        names = self._names[2 * first : 2 * last : 2].tolist()
        if last > completions:
            sent += self._results[2 : 4 * (last - completions) : 4].tolist()
            names += self._names[: 2 * (last - completions) : 2].tolist()
        self._words[self._cq_head] = self._head
        return by_name(names, sent)

    def _call(self, *arguments: int) -> int:
        answer: int = self._syscall(*arguments)
        if answer < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return answer


def by_name(names: list[int], results: list[int]) -> list[int]:
    """The results in the order of their names, in which they nearly always are: the kernel does not promise it."""
    if names == sorted(names):
        return results
    return [result for _name, result in sorted(zip(names, results, strict=True))]


def _address_of(data: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def _is_sound(ring: SendRing) -> bool:
    """Whether it sends what it is given, and refuses at once what a full socket cannot take."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        try:
            if ring.send([([ours.fileno()], b"sound")]) != [[5]] or theirs.recv(16) != b"sound":
                return False
            taken = 1
            while taken > 0:
                ((taken,),) = ring.send([([ours.fileno()], bytes(65536))])
        except OSError:
            return False
        return taken == 0
