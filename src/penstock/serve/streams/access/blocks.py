"""Who is not let in for a while, by address or by subject, as an operator said."""

from penstock.access.rules import ip_of
from penstock.control import live


class Blocks:
    """The whole list as it was last told, with addresses in their one spelling. Times are in seconds since 1970."""

    def __init__(self, told: live.Blocks | None = None) -> None:
        # Not looked at one by one: to read 10,000 addresses would hold up the loop for 90 ms.
        self._addresses = {} if told is None else told.addresses
        self._subjects = {} if told is None else told.subjects

    @property
    def has_addresses(self) -> bool:
        """Whether any address is blocked, or was."""
        return bool(self._addresses)

    def has_address(self, ip: str, now: float) -> bool:
        """Whether this address is blocked now."""
        return now < self._addresses.get(str(ip_of(ip)), 0.0)

    def has_subject(self, subject: str | None, now: float) -> bool:
        """Whether this subject is blocked now."""
        return subject is not None and now < self._subjects.get(subject, 0.0)
