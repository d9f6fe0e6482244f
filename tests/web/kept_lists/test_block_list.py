"""Who is kept out, on a clock of the test."""

import stat
from pathlib import Path

import pytest

from penstock.control.live import Blocks
from penstock.web.kept_lists.block_list import FILE_NAME, Block, BlockList


class Desk:
    def __init__(self, folder: Path) -> None:
        self.time = 100.0
        self.told: list[Blocks] = []
        self.blocks = BlockList(folder, lambda: self.time, self.told.append)


def test_workers_are_told_the_whole_list_whenever_it_changes(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.blocks.add("192.0.2.1", None, 60.0)
    desk.blocks.add(None, "studio", 30.0)
    assert desk.told == [Blocks({"192.0.2.1": 160.0}, {}), Blocks({"192.0.2.1": 160.0}, {"studio": 130.0})]
    assert desk.blocks.lift("address:192.0.2.1")
    assert desk.told[-1] == Blocks({}, {"studio": 130.0})


def test_a_block_ends_in_time(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.blocks.add("192.0.2.1", None, 60.0)
    desk.time = 159.9
    assert desk.blocks.blocks() == [Block("192.0.2.1", None, 160.0)]
    desk.time = 160.0
    assert (desk.blocks.blocks(), desk.blocks.message()) == ([], Blocks({}, {}))


def test_an_address_is_kept_as_sockets_tell_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.blocks.add("::ffff:192.0.2.1", None, 1.0).id == "address:192.0.2.1"
    assert desk.blocks.add("2001:DB8:0::1", None, 1.0).id == "address:2001:db8::1"
    assert desk.blocks.add("fe80::1%eth0", None, 1.0).id == "address:fe80::1"
    with pytest.raises(ValueError, match="IPv4 or IPv6"):
        desk.blocks.add("192.0.2.0/24", None, 1.0)


def test_the_list_outlives_the_process_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.blocks.add(None, "studio:1", 60.0)
    desk.blocks.save()
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    assert Desk(tmp_path).blocks.blocks() == [Block(None, "studio:1", 160.0)]
    assert Desk(tmp_path).blocks.lift("subject:studio:1")


def test_addresses_that_somebody_wrote_into_the_file_are_told_in_their_one_spelling(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b'{"addresses": {"2001:DB8:0::1": 200, "::ffff:192.0.2.1": 200}}')
    assert Desk(tmp_path).blocks.message() == Blocks({"2001:db8::1": 200.0, "192.0.2.1": 200.0}, {})


@pytest.mark.parametrize("text", [b"", b"[]", b'{"addresses": 1}', b'{"addresses": {"nobody": 200}}'])
def test_a_file_that_is_none_keeps_nobody_out(tmp_path: Path, text: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(text)
    assert Desk(tmp_path).blocks.blocks() == []


def test_nobody_is_let_in_who_was_not_kept_out(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert [desk.blocks.lift(each) for each in ("address:192.0.2.1", "subject:x", "x", "")] == [False] * 4
    assert desk.told == []
