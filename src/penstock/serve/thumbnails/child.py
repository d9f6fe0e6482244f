"""The process that decodes: `python -m penstock.serve.thumbnails.child DESCRIPTOR PARENT`, started by the supervisor.

Owns what it may do, which is next to nothing: no file is opened or written, no other program run; memory and time are
bounded. A picture on which it takes too long, by the clock or by the processor, ends the process by a signal of the
kernel, whatever the decoder is doing; it also ends with its parent and with the worker at the other end of its socket.
Knows nothing of streams. Who asks has seen to it that pictures are not too many and not too large.
"""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import sys
from typing import Final

import msgspec

from penstock.control.parcels import Parcel, ParcelReader, write_parcel
from penstock.control.thumbnails import Decode, Decoded
from penstock.serve.thumbnails.jpegs import jpegs_of, prepare

PICTURE_S: Final = 3.0
"""By the clock: a tenth of it is much, so the machine may be busy."""
_PICTURE_CPU_S: Final = 3
_MAX_MEMORY_BYTES: Final = 1024 * 1024 * 1024
"""Of addresses: libraries take 200 MB of it, the frames of a decoder for 4K as much again."""
_NICE: Final = 10
_RECEIVE_BYTES: Final = 256 * 1024
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38


def confine(parent: int) -> bool:
    """Give up what is not needed. False: the parent is gone already."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.nice(_NICE)
    for limit, value in (
        (resource.RLIMIT_AS, _MAX_MEMORY_BYTES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        # What is open stays so; nothing new is opened any more.
        (resource.RLIMIT_NOFILE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    # Those of Python, which would only set a flag.
    for number in (signal.SIGALRM, signal.SIGXCPU, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    return os.getppid() == parent


def _allow_one_picture() -> None:
    signal.setitimer(signal.ITIMER_REAL, PICTURE_S)
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + _PICTURE_CPU_S, hard))


def answer(message: Decode) -> Decoded:
    """A picture, or why there is none. An exception costs this one alone."""
    _allow_one_picture()
    try:
        return Decoded(message.request, jpegs_of(message.codec, message.setup, message.key_frame))
    except (Exception, MemoryError) as error:
        return Decoded(message.request, {}, f"{type(error).__name__}: {error}"[:200])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def serve(connection: socket.socket) -> None:
    """Answer until the other side is gone."""
    reader = ParcelReader()
    decode = msgspec.msgpack.Decoder(Decode).decode
    encode = msgspec.msgpack.Encoder().encode
    while data := connection.recv(_RECEIVE_BYTES):
        reader.feed(data)
        while (parcel := reader.next_parcel()) is not None:
            connection.sendall(write_parcel(Parcel(encode(answer(decode(parcel.body))))))


def main() -> int:
    """The descriptor of the link, and the process that is to outlive this one."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.setblocking(True)
    prepare()
    if confine(int(sys.argv[2])):
        with contextlib.suppress(OSError):  # the worker is gone
            serve(connection)
    return 0


if __name__ == "__main__":
    sys.exit(main())
