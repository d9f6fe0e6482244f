"""What an exec hook is told, as plain values."""

from dataclasses import dataclass

from penstock.web.hooks.matching import Wanted


@dataclass(frozen=True, slots=True)
class ProgramSettings:
    """A program, and when it runs."""

    arguments: tuple[str, ...]
    wanted: Wanted
    timeout_s: float
    """Of a run for an event."""

    @property
    def name(self) -> str:
        """What people see. Arguments may hold secrets."""
        return self.arguments[0]
