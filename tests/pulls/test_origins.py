"""Where a stream is pulled from: what is filled in, what is shown, and what a name cannot do."""

import pytest

from penstock.pulls.origins import PullRule, covers, origin_of
from penstock.rtmp_address import StreamAddress, read_address


def rule(url: str, *streams: str, key: str | None = None) -> PullRule:
    return PullRule(streams or ("live/*",), read_address(url), idle_s=5.0, key=key)


def test_app_and_stream_are_filled_in() -> None:
    origin = origin_of([rule("rtmp://origin/{app}/{stream}")], "live/cam", "live")
    assert origin is not None
    assert origin.address == StreamAddress("origin", 1935, "live", "cam")
    assert (origin.shown, origin.idle_s, origin.secrets) == ("rtmp://origin:1935/live/cam", 5.0, ())


def test_a_stream_may_have_another_name_there() -> None:
    origin = origin_of([rule("rtmps://origin:444/edge-{app}/x_{stream}_hd", "a/*")], "a/b/c", "a")
    assert origin is not None
    assert origin.address == StreamAddress("origin", 444, "edge-a", "x_b/c_hd", is_tls=True)


def test_the_first_rule_with_a_pattern_of_the_stream_counts() -> None:
    rules = [rule("rtmp://one/live/{stream}", "live/a*"), rule("rtmp://two/live/{stream}", "live/*")]
    found = [origin_of(rules, key, key.partition("/")[0]) for key in ("live/ab", "live/b", "other/a")]
    assert [None if each is None else each.address.host for each in found] == ["one", "two", None]
    assert [covers(rules, key) for key in ("live/ab", "live/b", "other/a")] == [True, True, False]


@pytest.mark.parametrize(
    ("url", "stream"),
    [
        ("rtmp://origin/{app}/{stream}", "cam?key=hunter2"),
        ("rtmp://origin/{app}/{stream}?a=b", "cam?a=b&key=hunter2"),
        ("rtmp://origin/{app}/{stream}?token={key}", "cam?token=hunter2"),
    ],
)
def test_a_key_goes_along_and_is_not_shown(url: str, stream: str) -> None:
    origin = origin_of([rule(url, key="hunter2")], "live/cam", "live")
    assert origin is not None
    assert origin.address.stream == stream
    assert origin.shown == "rtmp://origin:1935/live/cam"
    assert "hunter2" in origin.secrets


def test_what_stands_in_the_query_of_the_url_is_not_shown_either() -> None:
    origin = origin_of([rule("rtmp://origin/live/{stream}?sig=abc")], "live/cam", "live")
    assert origin is not None
    # A server that refuses likes to repeat the value alone.
    assert (origin.shown, origin.secrets) == ("rtmp://origin:1935/live/cam", ("abc", "sig=abc"))


@pytest.mark.parametrize("name", ["{key}", "{app}", "../../{stream}", "//evil.example/x", "a@evil.example:1/b"])
def test_a_name_leads_nowhere_but_to_a_stream_of_that_name(name: str) -> None:
    origin = origin_of([rule("rtmp://origin/{app}/{stream}", key="hunter2")], f"live/{name}", "live")
    assert origin is not None
    assert (origin.address.host, origin.address.port, origin.address.app) == ("origin", 1935, "live")
    assert origin.address.stream == f"{name}?key=hunter2"
    assert "hunter2" not in origin.shown


def test_bytes_that_are_no_text_are_passed_on_and_shown_printably() -> None:
    origin = origin_of([rule("rtmp://origin/{app}/{stream}")], "live/\udcff\n", "live")
    assert origin is not None
    assert origin.address.stream == "\udcff\n"
    assert origin.shown.isprintable()
