"""One life of a worker, as those parts know it that leave files behind.

Owns which files of others are its own to finish: each is finished by one worker, and never while its writer lives.
"""

import secrets
from dataclasses import dataclass
from typing import Final, Self

EVERY_LIFE_BEFORE: Final = "*"


@dataclass(frozen=True, slots=True)
class Boot:
    """One life of a worker."""

    boot_id: str
    """Begins with the life_id."""
    life_id: str
    """One life of the whole server: of its supervisor."""
    worker: int = 1
    workers: int = 1
    recovers: tuple[str, ...] = (EVERY_LIFE_BEFORE,)
    """Boots that were lost and whose files are this one's to finish; "*": all but those of this life."""

    @classmethod
    def alone(cls) -> Self:
        """The only worker of a new life."""
        life_id = secrets.token_hex(4)
        return cls(life_id + secrets.token_hex(2), life_id)

    @property
    def is_housekeeper(self) -> bool:
        """Whether it tidies up for all workers."""
        return self.worker == 1

    def may_finish(self, boot_id: str | None) -> bool:
        """Whether what a boot left is this one's to finish. None: left by a server that did not tell."""
        if boot_id in self.recovers:
            return True
        return EVERY_LIFE_BEFORE in self.recovers and not (boot_id or "").startswith(self.life_id)
