"""Times as the API writes them."""

import pytest

from penstock.web.api.answers import rfc3339


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_789_999_990_250_999, "2026-09-21T14:13:10.250Z"),
        (1_790_000_000_000_000, "2026-09-21T14:13:20.000Z"),
        (999, "1970-01-01T00:00:00.000Z"),
    ],
)
def test_a_time_is_in_utc_to_the_millisecond(microseconds: int, text: str) -> None:
    assert rfc3339(microseconds) == text
