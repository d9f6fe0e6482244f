"""URLs of streams: split as FFmpeg splits them, and nothing else taken for one."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client import StreamAddress, read_address
from penstock.errors import MalformedInput
from penstock.rtmp_address import moved_to


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("rtmp://127.0.0.1/live/test", StreamAddress("127.0.0.1", 1935, "live", "test")),
        ("rtmp://example.org:1936/live/test", StreamAddress("example.org", 1936, "live", "test")),
        ("rtmps://example.org/live/test", StreamAddress("example.org", 443, "live", "test", is_tls=True)),
        ("rtmp://[::1]:1935/live/test", StreamAddress("::1", 1935, "live", "test")),
        ("rtmp://h/live/test?user=a&key=b", StreamAddress("h", 1935, "live", "test?user=a&key=b")),
        ("rtmp://h/live/test?path=/a/b", StreamAddress("h", 1935, "live", "test?path=/a/b")),
        ("rtmp://h/live/test#1", StreamAddress("h", 1935, "live", "test#1")),
        ("rtmp://h/live/a%20b", StreamAddress("h", 1935, "live", "a%20b")),
        ("rtmp://h/a/b/c", StreamAddress("h", 1935, "a/b", "c")),
        ("rtmp://h/a/b/c/d", StreamAddress("h", 1935, "a/b", "c/d")),
        ("rtmp://h/vod/mp4:folder/file.mp4", StreamAddress("h", 1935, "vod", "mp4:folder/file.mp4")),
    ],
)
def test_a_url_is_split_as_ffmpeg_does(url: str, address: StreamAddress) -> None:
    assert read_address(url) == address


@pytest.mark.parametrize(
    ("url", "app", "stream", "expected"),
    [
        ("rtmp://h/a/b/c", "a", None, ("a", "b/c")),
        ("rtmp://h/a/b/c", "a/b", None, ("a/b", "c")),
        ("rtmp://h/streams/x", "stream", None, ("stream", "streams/x")),
        ("rtmp://h/x?key=1", "live", None, ("live", "x?key=1")),
        ("rtmp://h/a/b/c/", None, "x", ("a/b/c", "x")),
        ("rtmp://h/ignored", "live", "x", ("live", "x")),
    ],
)
def test_app_and_stream_can_be_said_outright(
    url: str, app: str | None, stream: str | None, expected: tuple[str, str]
) -> None:
    address = read_address(url, app=app, stream=stream)
    assert (address.app, address.stream) == expected


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("http://h/live/test", "none of rtmp:// and rtmps://"),
        ("live/test", "none of rtmp:// and rtmps://"),
        ("rtmp:///live/test", "no host"),
        ("rtmp://h", "no app"),
        ("rtmp://h/live", "no stream name"),
        ("rtmp://h/live/", "no stream name"),
        ("rtmp://h//test", "no app"),
        ("rtmp://h:port/live/test", "Port could not be cast"),
        ("rtmp://h:99999/live/test", "Port out of range"),
        ("rtmp://[::1/live/test", "Invalid IPv6"),
        ("rtmp://me:secret@h/live/test", "put credentials into the query"),
    ],
)
def test_what_names_no_stream_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(MalformedInput, match=complaint):
        read_address(url)


def test_a_refusal_does_not_repeat_the_password() -> None:
    with pytest.raises(MalformedInput) as refusal:
        read_address("rtmp://me:secret@h/live/test")
    assert "secret" not in str(refusal.value)


@given(st.text())
def test_any_text_is_an_address_or_malformed(text: str) -> None:
    for url in (text, f"rtmp://{text}", f"rtmp://h/{text}"):
        with contextlib.suppress(MalformedInput):
            assert read_address(url).app


def test_the_address_of_the_app_is_what_connect_tells() -> None:
    assert read_address("rtmp://h/live/test?key=1").tc_url == "rtmp://h:1935/live"
    assert read_address("rtmps://[::1]/live/test").tc_url == "rtmps://[::1]:443/live"


@pytest.mark.parametrize(
    ("tc_url", "expected"),
    [
        (None, ("h", 1935, "live")),
        ("rtmp://other:1936/app/", ("other", 1936, "app")),
        ("/app", ("h", 1935, "app")),
        ("app", ("h", 1935, "app")),
        ("//other/app", ("other", 1935, "app")),
        ("rtmp://other", ("h", 1935, "live")),
        ("http://other/app", ("h", 1935, "live")),
        ("rtmp://other:x/app", ("h", 1935, "live")),
    ],
)
def test_a_server_can_send_its_clients_elsewhere(tc_url: str | None, expected: tuple[str, int, str]) -> None:
    moved = moved_to(read_address("rtmp://h/live/test?key=1"), tc_url)
    assert (moved.host, moved.port, moved.app) == expected
    assert moved.stream == "test?key=1"


def test_a_server_cannot_send_its_clients_out_of_tls() -> None:
    address = read_address("rtmps://h/live/test")
    assert moved_to(address, "rtmp://other/live") == address
    assert moved_to(address, "rtmps://other/live").host == "other"
    assert moved_to(address, "/app").is_tls


def test_what_is_longer_than_addresses_are_sends_nobody_anywhere_and_costs_nothing() -> None:
    address = read_address("rtmp://h/live/test")
    began_s = time.process_time()
    assert moved_to(address, "../" * 5_000_000 + "app") == address
    # To resolve it would take seconds, in which nobody is served.
    assert time.process_time() - began_s < 0.5
