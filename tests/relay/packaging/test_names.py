"""Names of segments: bound to one publication by a secret, and read strictly."""

import pytest

from penstock.relay.packaging.names import Name, NameKind, Names, read_name

TOKEN = "cde5bc6a70ef5dcd5dd3eb8f02d5e1bd"
NAMES = Names(b"secret", "live/a", 1795015685)


def test_a_name_has_a_token_that_is_the_same_in_all_workers() -> None:
    assert NAMES.token == Names(b"secret", "live/a", 1795015685).token
    assert len(NAMES.token) == 32


@pytest.mark.parametrize(
    "other",
    [
        Names(b"other", "live/a", 1795015685),
        Names(b"secret", "live/b", 1795015685),
        Names(b"secret", "live/a", 1795015686),
    ],
    ids=["secret", "stream", "publication"],
)
def test_and_another_for_each(other: Names) -> None:
    assert other.token != NAMES.token


@pytest.mark.parametrize(
    ("text", "kind", "number", "init"),
    [
        (NAMES.segment(1795015685), NameKind.SEGMENT, 1795015685, ""),
        (NAMES.part(35_900_313_700), NameKind.PART, 35_900_313_700, ""),
        (NAMES.init("0123456789abcdef"), NameKind.INIT, 0, "0123456789abcdef"),
    ],
)
def test_what_is_spelled_is_read(text: str, kind: NameKind, number: int, init: str) -> None:
    assert read_name(text) == Name(NAMES.token, kind, number, init)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s1.m4s",
        f"{TOKEN}/s1.m4s?x",
        f"{TOKEN}/s01.m4s",
        f"{TOKEN}/s0.m4s",
        f"{TOKEN}/s-1.m4s",
        f"{TOKEN}/p{'9' * 19}.m4s",
        f"{TOKEN}/p\uff11.m4s",
        f"{TOKEN}/x1.m4s",
        f"{TOKEN}/s1.mp4",
        f"{TOKEN.upper()}/s1.m4s",
        f"{TOKEN}/../s1.m4s",
        f"{TOKEN}/s1.m4s\n",
        f"{TOKEN}/0123456789abcde.mp4",
    ],
)
def test_nothing_else_is_a_name(text: str) -> None:
    assert read_name(text) is None


def test_a_stream_name_of_any_bytes_has_a_token() -> None:
    assert len(Names(b"secret", "live/\udcff", 1).token) == 32
