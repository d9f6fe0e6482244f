"""Targets that were added through the API: told, kept, and read by nobody else."""

import stat
from pathlib import Path

from penstock.control.live import NewPush, Pushes
from penstock.web.kept_lists.push_list import AddedPush, PushList

YOUTUBE = AddedPush("yt", ["live/*"], "rtmps://a.example/live2", "k-1")


def test_workers_are_told_the_whole_list(tmp_path: Path) -> None:
    told = list[Pushes]()
    pushes = PushList(tmp_path, told.append)
    pushes.add(YOUTUBE)
    assert pushes.remove("yt")
    assert not pushes.remove("yt")
    assert told == [Pushes([NewPush("yt", ["live/*"], "rtmps://a.example/live2", "k-1")]), Pushes([])]


def test_it_outlives_the_process_in_a_file_for_its_user_alone(tmp_path: Path) -> None:
    pushes = PushList(tmp_path, lambda _: None)
    pushes.add(YOUTUBE)
    pushes.save()
    assert PushList(tmp_path, lambda _: None).pushes == [YOUTUBE]
    assert stat.S_IMODE((tmp_path / "pushes.json").stat().st_mode) == 0o600


def test_a_file_that_is_no_list_is_put_aside(tmp_path: Path) -> None:
    written = '[{"name": "a", "streams": ["*/*"], "url": "http://hunter2"}]'
    (tmp_path / "pushes.json").write_text(written)
    pushes = PushList(tmp_path, lambda _: None)
    assert pushes.pushes == []
    pushes.add(YOUTUBE)
    pushes.save()
    assert (tmp_path / "pushes.unreadable").read_text() == written
