"""A TCP proxy that records one connection: `record_proxy.py LISTEN_PORT SERVER_PORT PREFIX`.

Takes the first client on 127.0.0.1:LISTEN_PORT, connects it to 127.0.0.1:SERVER_PORT, and writes what the client sends
to PREFIX.client.bin and what the server sends to PREFIX.server.bin, byte for byte, until both sides have closed. It
knows nothing of RTMP, so it cannot improve what it records.
"""

import socket
import sys
import threading
from pathlib import Path

READ_BYTES = 65536


def copy_and_record(source: socket.socket, sink: socket.socket, record_path: Path) -> None:
    """Carry one direction to its end. A sink that has gone is no reason to stop recording the source."""
    with record_path.open("wb") as record:
        sink_is_open = True
        while data := _receive(source):
            record.write(data)
            if sink_is_open:
                sink_is_open = _send(sink, data)
    if sink_is_open:
        _shut_down_sending(sink)


def record_one_connection(listen_port: int, server_port: int, prefix: str) -> None:
    """Return once both directions have ended and both files are whole."""
    with socket.create_server(("127.0.0.1", listen_port)) as listener:
        client, _ = listener.accept()
    with client, socket.create_connection(("127.0.0.1", server_port)) as server:
        upward = threading.Thread(target=copy_and_record, args=(client, server, Path(f"{prefix}.client.bin")))
        upward.start()
        copy_and_record(server, client, Path(f"{prefix}.server.bin"))
        upward.join()


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(READ_BYTES)
    except ConnectionResetError:
        return b""


def _send(sink: socket.socket, data: bytes) -> bool:
    try:
        sink.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def _shut_down_sending(sink: socket.socket) -> None:
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        # The peer has reset the connection in the meantime: it is already shut.
        return


if __name__ == "__main__":
    record_one_connection(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
