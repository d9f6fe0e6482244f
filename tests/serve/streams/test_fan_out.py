"""The same bytes to many sockets, by one call each: some are full or gone."""

import os
from collections.abc import Iterator

import pytest

from penstock.serve.streams.fan_out import send_to_each
from tests.serve.streams.socket_pairs import Pair, fill, near_ends, socket_pairs

FULL, LOST = 1, 3
"""Of the five pairs, one that is not read and one whose other end is closed."""


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    with socket_pairs(5) as made:
        yield made


def test_each_socket_is_sent_the_same_and_the_answer_tells_who_took_how_much(pairs: list[Pair]) -> None:
    fill(pairs[FULL])
    pairs[LOST][1].close()
    assert send_to_each(os.write, near_ends(pairs), b"hello") == [5, 0, 5, -1, 5]
    for index in (0, 2, 4):
        assert pairs[index][1].recv(100) == b"hello"


@pytest.mark.parametrize("lost", [0, 4])
def test_the_first_and_the_last_may_be_the_ones_that_are_lost(pairs: list[Pair], lost: int) -> None:
    pairs[lost][1].close()
    expected = [-1 if index == lost else 2 for index in range(5)]
    assert send_to_each(os.write, near_ends(pairs), b"ab") == expected


def test_a_file_is_sent_from_an_offset(pairs: list[Pair]) -> None:
    file = os.memfd_create("log")
    try:
        os.write(file, b"0123456789")
        fill(pairs[FULL])
        assert send_to_each(os.sendfile, near_ends(pairs), file, 3, 4) == [4, 0, 4, 4, 4]
        assert pairs[4][1].recv(100) == b"3456"
    finally:
        os.close(file)


def test_nobody_to_send_to_is_no_error() -> None:
    assert send_to_each(os.write, [], b"hello") == []
