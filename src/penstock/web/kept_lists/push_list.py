"""Targets of pushes that were added through the API.

Owns the list and its file, DATA/pushes.json, which only the server's user may read: there are keys in it. A new web
process, and the server after a restart, go on with it. Workers are told the whole list whenever it changes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from penstock.control.live import NewPush, Pushes
from penstock.errors import MalformedInput
from penstock.logs import get_logger
from penstock.pushes.address import PushAddress, read_push_address
from penstock.web.kept_lists.private_file import put_aside, replace_private_file

FILE_NAME: Final = "pushes.json"
MAX_ADDED: Final = 64


class AddedPush(msgspec.Struct, frozen=True):
    """A target. What is not shown of it is its url and its key."""

    name: str
    streams: list[str]
    url: str
    key: str | None = None

    @property
    def address(self) -> PushAddress:
        """The url, split. MalformedInput says what is wrong with it, without the url."""
        return read_push_address(self.url, has_key=self.key is not None)


class PushList:
    """All of them."""

    def __init__(self, data_dir: Path, tell: Callable[[Pushes], None]) -> None:
        """`tell` has workers hear of the list."""
        self._path = data_dir / FILE_NAME
        self._tell = tell
        self._pushes = _read(self._path)

    @property
    def pushes(self) -> list[AddedPush]:
        """Those that were added, in their order."""
        return list(self._pushes.values())

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another."""
        return len(self._pushes) >= MAX_ADDED

    def message(self) -> Pushes:
        """The list as workers are told it."""
        return Pushes([NewPush(each.name, each.streams, each.url, each.key) for each in self._pushes.values()])

    def __contains__(self, name: str) -> bool:
        return name in self._pushes

    def add(self, push: AddedPush) -> None:
        """Send streams there from now on."""
        self._pushes[push.name] = push
        self._tell(self.message())

    def remove(self, name: str) -> bool:
        """Send nothing there any more. False: there is none of that name."""
        if self._pushes.pop(name, None) is None:
            return False
        self._tell(self.message())
        return True

    def save(self) -> None:
        """Write the list to its file, in the place of the one before. May be called from another thread."""
        replace_private_file(self._path, msgspec.json.encode(self.pushes))


def _read(path: Path) -> dict[str, AddedPush]:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=list[AddedPush])
        for each in found:
            each.address  # noqa: B018 - somebody may have written it by hand
    except FileNotFoundError:
        return {}
    except (OSError, MalformedInput, msgspec.MsgspecError) as error:
        # What msgspec says names fields and types, and no value.
        get_logger().error("pushes cannot be read", path=str(path), reason=str(error), moved_to=str(put_aside(path)))
        return {}
    return {each.name: each for each in found}
