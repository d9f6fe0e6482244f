"""What origins did not have a moment ago: for how long it is remembered, and how much of it."""

from penstock.control.misses import MAX_MISSES, MISS_S, Misses


def test_a_miss_is_remembered_for_a_while() -> None:
    misses = Misses()
    misses.add(b"live/a", 100.0)
    assert misses.has(b"live/a", 100.0)
    assert misses.has(b"live/a", 100.0 + MISS_S - 0.1)
    assert not misses.has(b"live/a", 100.0 + MISS_S)
    assert not misses.has(b"live/b", 100.0)


def test_a_second_miss_counts_from_its_own_time() -> None:
    misses = Misses()
    misses.add(b"live/a", 100.0)
    misses.add(b"live/b", 101.0)
    misses.add(b"live/a", 102.0)
    misses.forget_old(100.0 + MISS_S)
    assert misses.has(b"live/a", 100.0 + MISS_S)
    misses.forget_old(101.0 + MISS_S)
    assert (misses.has(b"live/b", 101.0 + MISS_S), len(misses)) == (False, 1)


def test_names_of_strangers_fill_no_memory() -> None:
    misses = Misses()
    for number in range(MAX_MISSES + 1):
        misses.add(b"live/%d" % number, 100.0)
    assert len(misses) == MAX_MISSES
    assert not misses.has(b"live/0", 100.0)
    assert misses.has(b"live/1", 100.0)
