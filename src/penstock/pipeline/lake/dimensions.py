"""Dimensions: what the operator has views, audience, quality and usage broken down by. Imports no Spark.

Owns the words for values that have no name of their own, and the bounds: of what a fact may tell, and of how many
values have rows of their own in gold.
"""

from dataclasses import dataclass
from typing import Final

ALL: Final = "all"
"""The dimension, and its only value, of everything together."""
UNKNOWN: Final = "unknown"
"""The value of whoever has none."""
OTHER: Final = "other"
"""Values that are too long, and those too many of an hour."""
COUNTRY: Final = "country"
ASN: Final = "asn"
AUTH_SUBJECT: Final = "auth_subject"
MAX_TEXT_BYTES: Final = 4096
"""Of the dimensions of one fact. Queries are as long at most."""
MAX_VALUE_CHARACTERS: Final = 64


@dataclass(frozen=True, slots=True)
class Dimensions:
    """What is named in the configuration, besides what every view has: client, protocol, server and network.

    A quality by subject would be one by viewer: its histograms would have as many rows as there are views.
    """

    parameters: tuple[str, ...] = ()
    """Of URLs."""
    country_db: str | None = None
    """A file in MaxMind's format, on every machine that computes."""
    asn_db: str | None = None
    auth_subject: bool = True
    """Whether audience and usage have it."""
    max_values: int = 100
    """Of a dimension, stream and hour, or day, in gold; the rarer ones become OTHER."""

    @property
    def configured(self) -> tuple[str, ...]:
        """Those that are broken down by wherever there are dimensions."""
        places = ((COUNTRY, self.country_db), (ASN, self.asn_db))
        return (*self.parameters, *(name for name, database in places if database is not None))

    @property
    def named(self) -> tuple[str, ...]:
        """Those of audience and usage."""
        return (*self.configured, AUTH_SUBJECT) if self.auth_subject else self.configured


NO_DIMENSIONS: Final = Dimensions()
"""None are configured."""
