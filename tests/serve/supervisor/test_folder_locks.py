"""One server to a folder, for as long as any process of it holds the lock."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.serve.supervisor.folder_locks import lock_data, lock_recordings, try_lock


def test_a_folder_is_locked_until_its_descriptor_is_closed(tmp_path: Path) -> None:
    held = try_lock(tmp_path)
    assert held is not None
    assert try_lock(tmp_path) is None
    os.close(held)
    again = try_lock(tmp_path)
    assert again is not None
    os.close(again)


def test_a_second_who_would_record_into_a_folder_is_refused(tmp_path: Path) -> None:
    held = lock_recordings(tmp_path, 0o640)
    assert (tmp_path / ".lock").stat().st_mode & 0o777 == 0o640
    with pytest.raises(ConfigError, match=f"recording: another server records in {tmp_path}"):
        lock_recordings(tmp_path, 0o640)
    os.close(held)


def test_a_folder_that_cannot_be_locked_is_said_in_one_line(tmp_path: Path) -> None:
    # Permissions do not hold for root, who may run this: a link to itself can be opened by nobody.
    (tmp_path / ".lock").symlink_to(".lock")
    (tmp_path / "data").symlink_to("data")
    with pytest.raises(
        ConfigError, match=f"recording.folder: cannot use {tmp_path}: Too many levels of symbolic links"
    ):
        lock_recordings(tmp_path, 0o640)
    with pytest.raises(ConfigError, match=f"server.data_dir: cannot use {tmp_path}/data: Too many levels"):
        lock_data(tmp_path / "data", 0.0, pytest.fail)


def test_whoever_a_lost_server_left_behind_is_waited_for(tmp_path: Path) -> None:
    held = lock_data(tmp_path, 0.0, pytest.fail)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            os.close(held)

    told: list[str] = []
    os.close(lock_data(tmp_path, 1.0, lambda: told.append("waits"), sleep))
    assert (waits, told) == ([0.1, 0.1, 0.1], ["waits"])


def test_one_who_does_not_end_is_another_server(tmp_path: Path) -> None:
    held = lock_data(tmp_path, 0.0, pytest.fail)
    with pytest.raises(ConfigError, match=r"server\.data_dir: another server uses"):
        lock_data(tmp_path, 0.5, lambda: None, lambda _seconds: None)
    os.close(held)


def test_a_child_that_inherited_the_lock_holds_it_on(tmp_path: Path) -> None:
    held = lock_data(tmp_path, 0.0, pytest.fail)
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=(held,)
    ) as child:
        os.close(held)
        assert try_lock(tmp_path) is None
        child.communicate(b"\n")
    again = try_lock(tmp_path)
    assert again is not None
    os.close(again)
