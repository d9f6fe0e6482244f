import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.names import NameAndQuery, cut_name, size_of, split_app, split_query, unquoted


@pytest.mark.parametrize(
    ("text", "name", "query"),
    [
        ("", "", None),
        ("test", "test", None),
        ("test?", "test", ""),
        ("test?token=x", "test", "token=x"),
        ("test?a=b?c=d&e=f", "test", "a=b?c=d&e=f"),
        ("?token=x", "", "token=x"),
        ("a/b/?x", "a/b/", "x"),
    ],
)
def test_a_stream_name_ends_at_the_first_question_mark(text: str, name: str, query: str | None) -> None:
    assert split_query(text) == NameAndQuery(name, query)


@pytest.mark.parametrize(
    ("text", "name", "query"),
    [
        ("", "", None),
        ("/", "", None),
        ("live", "live", None),
        ("live/", "live", None),
        ("/live//", "live", None),
        ("a/b", "a/b", None),
        ("/a/b/?token=x", "a/b", "token=x"),
        ("live?path=/a/b/", "live", "path=/a/b/"),
        ("live/?", "live", ""),
    ],
)
def test_an_app_loses_the_slashes_at_its_ends_and_nothing_else(text: str, name: str, query: str | None) -> None:
    assert split_app(text) == NameAndQuery(name, query)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("", ""),
        ("rtmp://host/live", "rtmp://host/live"),
        ('"rtmp://host/live"', "rtmp://host/live"),
        ("'rtmp://host/live'", "rtmp://host/live"),
        (' "rtmp://host/live"\n', "rtmp://host/live"),
        ('"rtmp://host/it\'s"', "rtmp://host/it's"),
    ],
)
def test_an_address_loses_the_quotes_around_it(text: str, plain: str) -> None:
    assert unquoted(text) == plain


@given(st.text(st.sampled_from("ab/?=&\"' "), max_size=12))
def test_no_byte_of_a_name_or_query_is_lost(text: str) -> None:
    name, query = split_query(text)
    assert text == (name if query is None else f"{name}?{query}")
    assert "?" not in name


def test_a_name_is_cut_at_its_bytes() -> None:
    assert cut_name("a" * 1025) == "a" * 1024
    assert cut_name("short") == "short"
    # Half of a character stays a byte that is written as it is.
    assert cut_name("x" + "é" * 600).encode("utf-8", "surrogateescape") == ("x" + "é" * 600).encode()[:1024]


def test_a_size_is_that_on_the_wire() -> None:
    assert [size_of(text) for text in ("abc", "é", "\udcff", "😀")] == [3, 2, 1, 4]
