"""Files by path or by address: there whole or not at all."""

from pathlib import Path

import pytest

from penstock.pipeline.lake.storage import Storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "lake")


def test_a_file_that_is_put_is_found_and_read(storage: Storage) -> None:
    storage.put("gold/a", b"one")
    storage.put("gold/a", b"three")
    (file,) = storage.find("")
    assert (file.path, file.size) == ("gold/a", 5)
    assert file.modified_at_us > 0
    assert (storage.read("gold/a"), storage.exists("gold/a"), storage.exists("gold/b")) == (b"three", True, False)


def test_files_are_found_in_the_order_of_their_names_and_below_a_folder_only_if_asked(storage: Storage) -> None:
    for path in ("a/2", "a/1", "a/b/3", "c/4"):
        storage.put(path, b"")
    assert [file.path for file in storage.find("a")] == ["a/1", "a/2", "a/b/3"]
    assert [file.path for file in storage.find("a", recursive=False)] == ["a/1", "a/2"]
    assert storage.find("nowhere") == []


def test_what_is_moved_is_gone_from_where_it_was(storage: Storage) -> None:
    storage.put("staging/x", b"1")
    storage.move_all([("staging/x", "silver/views/y")])
    assert [file.path for file in storage.find("")] == ["silver/views/y"]


def test_what_is_deleted_may_be_gone_already(storage: Storage) -> None:
    storage.put("a/1", b"")
    for _ in range(2):
        storage.delete("a/1")
        storage.delete_folder("a")
    assert not storage.exists("a")


def test_a_missing_file_is_told_as_such(storage: Storage) -> None:
    with pytest.raises(FileNotFoundError):
        storage.read("nothing")
    with pytest.raises(FileNotFoundError):
        storage.sync("nothing")


def test_a_folder_called_like_a_glob_is_no_glob_to_spark(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "a[1]{b}*")
    assert storage.pattern("c?") == f"{tmp_path}/a\\[1\\]\\{{b\\}}\\*/c\\?"
    assert storage.address("c?") == f"{tmp_path}/a[1]{{b}}*/c?"


def test_a_relative_path_stays_where_it_was_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = Storage("lake")
    monkeypatch.chdir("/")
    assert storage.below("gold").address("a") == f"{tmp_path}/lake/gold/a"
    assert storage.options is None


def test_an_address_of_a_local_file_is_a_local_folder(tmp_path: Path) -> None:
    storage = Storage(f"file://{tmp_path}/lake/")
    storage.put("a", b"1")
    assert storage.is_local
    assert (tmp_path / "lake/a").read_bytes() == b"1"
    assert storage.address("a") == f"file://{tmp_path}/lake/a"
