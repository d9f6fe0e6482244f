"""What the command line says of servers that run already."""

import argparse

import pytest
from bench.peers import Peer, read_peer

PID = 1
"""Of a process that is there; it is part of the names of tests, which are the same in all processes of a run."""


def test_a_server_is_named_with_its_process_and_its_ports() -> None:
    assert read_peer(f"srs={PID},1935,8080") == Peer("srs", PID, 1935, 8080)


def test_one_that_is_watched_as_hls_has_a_playlist() -> None:
    text = f"mediamtx={PID},1936,8888,/live/bench0/main_stream.m3u8?a=b,c"
    assert read_peer(text) == Peer("mediamtx", PID, 1936, 8888, "/live/bench0/main_stream.m3u8?a=b,c")


@pytest.mark.parametrize("text", ["", "srs", "srs=", "=1,2,3", f"srs={PID},1935", f"srs={PID},1935,http", "srs=x,1,2"])
def test_anything_else_is_told(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not NAME=PID"):
        read_peer(text)


def test_a_process_that_is_not_there_is_told() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="there is no process 4194305"):
        read_peer("srs=4194305,1935,8080")
