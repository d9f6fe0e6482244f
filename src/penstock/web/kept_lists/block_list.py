"""Who is kept out for a while, by address or subject.

Owns the list and its file, DATA/blocks.json, so that a restart lets nobody in. Workers are told the whole list whenever
it changes, and each forgets by itself what is over.
"""

import ipaddress
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from penstock.control.live import Blocks
from penstock.logs import get_logger
from penstock.web.kept_lists.private_file import put_aside, replace_private_file

FILE_NAME: Final = "blocks.json"
MAX_BLOCKS: Final = 10_000


class Block(NamedTuple):
    """Somebody who is kept out: one of the two is given."""

    address: str | None
    subject: str | None
    ends_at: float
    """In seconds since 1970."""

    @property
    def id(self) -> str:
        """As the API names it."""
        return f"address:{self.address}" if self.subject is None else f"subject:{self.subject}"


class _Saved(msgspec.Struct):
    addresses: dict[str, float] = {}
    subjects: dict[str, float] = {}


def normal_address(text: str) -> str:
    """An address as sockets tell it, without a zone. Anything else raises ValueError."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        raise ValueError("should be an address of IPv4 or IPv6") from None
    return str(getattr(address, "ipv4_mapped", None) or address)


class BlockList:
    """All of them."""

    def __init__(self, data_dir: Path, now: Callable[[], float], tell: Callable[[Blocks], None]) -> None:
        """`tell` has workers hear of the list."""
        self._path = data_dir / FILE_NAME
        self._now = now
        self._tell = tell
        self._saved = _read(self._path)

    def blocks(self) -> list[Block]:
        """Those that hold now."""
        self._forget_ended()
        addresses = [Block(address, None, ends_at) for address, ends_at in self._saved.addresses.items()]
        return addresses + [Block(None, subject, ends_at) for subject, ends_at in self._saved.subjects.items()]

    def message(self) -> Blocks:
        """The list as workers are told it."""
        self._forget_ended()
        return Blocks(dict(self._saved.addresses), dict(self._saved.subjects))

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another."""
        return len(self.blocks()) >= MAX_BLOCKS

    def add(self, address: str | None, subject: str | None, for_s: float) -> Block:
        """Keep somebody out from now on. An address that is none raises ValueError."""
        block = Block(None if address is None else normal_address(address), subject, self._now() + for_s)
        if block.address is not None:
            self._saved.addresses[block.address] = block.ends_at
        elif block.subject is not None:
            self._saved.subjects[block.subject] = block.ends_at
        self._tell(self.message())
        return block

    def lift(self, block_id: str) -> bool:
        """Let somebody in again. False: nobody of that name is kept out."""
        kind, _, name = block_id.partition(":")
        held = {"address": self._saved.addresses, "subject": self._saved.subjects}.get(kind, {})
        if held.pop(name, None) is None:
            return False
        self._tell(self.message())
        return True

    def save(self) -> None:
        """Write the list to its file, in the place of the one before. May be called from another thread."""
        replace_private_file(self._path, msgspec.json.encode(self._saved))

    def _forget_ended(self) -> None:
        now = self._now()
        for held in (self._saved.addresses, self._saved.subjects):
            for name in [name for name, ends_at in held.items() if ends_at <= now]:
                del held[name]


def _read(path: Path) -> _Saved:
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=_Saved)
        # Somebody may have written it by hand.
        addresses = {normal_address(address): ends_at for address, ends_at in saved.addresses.items()}
        return _Saved(addresses, saved.subjects)
    except FileNotFoundError:
        return _Saved()
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        get_logger().error("blocks cannot be read", path=str(path), reason=str(error), moved_to=str(put_aside(path)))
        return _Saved()
