"""Messages on disk."""

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from penstock.web.hooks.store import FILE_NAME, Message, Store, Waiting


def message(number: int, hook: str = "h", lane: str = "live/a") -> Message:
    return Message(hook, f"msg_{number}", lane, "publish_started", b"{%d}" % number, 100.0 + number)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_what_was_added_waits_in_order_also_for_the_next_process(store: Store, tmp_path: Path) -> None:
    store.add([message(1), message(2, "other"), message(3)])
    # Not closed before, as by a kill.
    again = Store(tmp_path)
    assert again.waiting("h") == [Waiting(1, "live/a", 101.0), Waiting(3, "live/a", 103.0)]
    assert again.attempted(3) == ("msg_3", b"{3}", 103.0, 0)


def test_a_message_that_is_there_is_not_added_again(store: Store) -> None:
    assert [waiting.number for _, waiting in store.add([message(1), message(1)])] == [1]
    assert store.add([message(1)]) == []


def test_a_taken_message_is_gone(store: Store) -> None:
    store.add([message(1)])
    store.taken(1)
    assert (store.waiting("h"), store.attempted(1)) == ([], None)


def test_attempts_and_the_time_of_the_next_are_kept(store: Store, tmp_path: Path) -> None:
    store.add([message(1)])
    store.failed(1, "status 500", 160.0)
    store.failed(1, "status 500", 200.0)
    again = Store(tmp_path)
    assert again.waiting("h") == [Waiting(1, "live/a", 200.0)]
    assert again.attempted(1) == ("msg_1", b"{1}", 101.0, 2)


def test_what_was_given_up_is_a_dead_letter_with_its_reason(store: Store) -> None:
    store.add([message(1), message(2), message(3)])
    store.failed(1, "no answer in 10 s", 160.0)
    store.given_up(1, "status 500", 300.0)
    store.given_up(3, "status 410", 301.0)
    assert [waiting.number for waiting in store.waiting("h")] == [2]
    newest, oldest = store.dead_letters(None, 10)
    assert (newest.id, newest.reason, newest.attempts) == ("msg_3", "status 410", 1)
    assert (oldest.id, oldest.reason, oldest.attempts, oldest.dead_at) == ("msg_1", "status 500", 2, 300.0)
    assert store.dead_letters(3, 10) == [oldest]
    assert store.dead_letters(None, 1) == [newest]


def test_replayed_letters_go_behind_all_that_wait_with_the_ids_they_had(store: Store) -> None:
    store.add([message(1), message(2), message(3)])
    store.given_up(1, "status 500", 300.0)
    store.given_up(2, "status 500", 300.0)
    assert store.replay(None, {"h"}, 500.0) == [("h", Waiting(4, "live/a", 500.0)), ("h", Waiting(5, "live/a", 500.0))]
    assert [waiting.number for waiting in store.waiting("h")] == [3, 4, 5]
    assert store.attempted(4) == ("msg_1", b"{1}", 500.0, 0)
    assert [waiting.number for _, waiting in store.add([message(6)])] == [6]


def test_letters_are_replayed_by_id_and_those_of_unknown_hooks_stay(store: Store) -> None:
    store.add([message(1), message(2), message(3, "gone")])
    for number in (1, 2, 3):
        store.given_up(number, "status 500", 300.0)
    assert len(store.replay({"msg_2", "msg_3", "msg_9"}, {"h"}, 500.0)) == 1
    assert [letter.id for letter in store.dead_letters(None, 10)] == ["msg_3", "msg_1"]


def test_the_oldest_make_room_but_for_those_under_way(store: Store) -> None:
    store.add([message(number) for number in range(1, 6)])
    assert store.displace("h", 2, {1}, "too many", 300.0) == [2, 3]
    assert [waiting.number for waiting in store.waiting("h")] == [1, 4, 5]
    assert {letter.reason for letter in store.dead_letters(None, 10)} == {"too many"}


def test_messages_of_hooks_that_are_no_more_become_dead_letters(store: Store) -> None:
    store.add([message(1), message(2, "gone"), message(3, "gone")])
    assert store.orphan({"h", "new"}, "the hook is not configured", 300.0) == 2
    assert [waiting.number for waiting in store.waiting("h")] == [1]
    assert store.orphan(set(), "the hook is not configured", 300.0) == 1


def test_old_dead_letters_and_too_many_of_them_are_forgotten(store: Store) -> None:
    store.add([message(number) for number in range(1, 6)])
    for number in range(1, 5):
        store.given_up(number, "status 500", 300.0 + number)
    assert store.forget(dead_before=302.5, most=1) == 3
    assert [letter.id for letter in store.dead_letters(None, 10)] == ["msg_4"]
    assert [waiting.number for waiting in store.waiting("h")] == [5]


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Store(tmp_path).add([message(1)])
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {FILE_NAME: 0o600, FILE_NAME + "-wal": 0o600, FILE_NAME + "-shm": 0o600}


def test_a_file_that_is_no_database_is_moved_aside(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"torn" * 4096)
    store = Store(tmp_path)
    assert store.moved_to == tmp_path / "hooks.broken"
    assert store.add([message(1)]) != []


def test_a_layout_of_a_newer_version_is_left_alone(store: Store, tmp_path: Path) -> None:
    store.close()
    newer = sqlite3.connect(tmp_path / FILE_NAME)
    newer.execute("pragma user_version = 9")
    newer.close()
    with pytest.raises(sqlite3.OperationalError, match=r"hooks\.sqlite is of layout 9, and this version knows 1"):
        Store(tmp_path)
