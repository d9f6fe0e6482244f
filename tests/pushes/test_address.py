"""Addresses of pushes: places filled in after the URL is split, and nothing shown that may be a key."""

import pytest

from penstock.errors import MalformedInput
from penstock.pushes.address import read_push_address
from penstock.rtmp_address import StreamAddress


@pytest.mark.parametrize(
    ("url", "key", "address", "shown"),
    [
        ("rtmps://host/live2", "k-1", StreamAddress("host", 443, "live2", "k-1", True), "rtmps://host/live2"),
        ("rtmps://host:444/a/b/", "k-1", StreamAddress("host", 444, "a/b", "k-1", True), "rtmps://host:444/a/b"),
        (
            "rtmp://host/live2?backup=1",
            "k-1",
            StreamAddress("host", 1935, "live2", "k-1?backup=1"),
            "rtmp://host/live2",
        ),
        (
            "rtmp://host/{app}/{stream}",
            None,
            StreamAddress("host", 1935, "show", "main"),
            "rtmp://host/{app}/{stream}",
        ),
        (
            "rtmp://host/{app}/{stream}?key={key}",
            "k-1",
            StreamAddress("host", 1935, "show", "main?key=k-1"),
            "rtmp://host/{app}/{stream}",
        ),
        ("rtmp://host/live/fixed", None, StreamAddress("host", 1935, "live", "fixed"), "rtmp://host/live/…"),
        ("rtmp://host/live/{key}", "k-1", StreamAddress("host", 1935, "live", "k-1"), "rtmp://host/live"),
        (
            "rtmp://[::1]:1936/live/{stream}",
            None,
            StreamAddress("::1", 1936, "live", "main"),
            "rtmp://[::1]:1936/live/{stream}",
        ),
    ],
)
def test_a_stream_has_an_address_and_another_is_shown(
    url: str, key: str | None, address: StreamAddress, shown: str
) -> None:
    read = read_push_address(url, has_key=key is not None)
    assert read.address_of("show", "main", key) == address
    assert read.shown == shown
    assert read.takes_many == ("{stream}" in url)


@pytest.mark.parametrize(
    ("url", "key", "secrets"),
    [
        ("rtmps://host/live2", "k-1", ("k-1",)),
        ("rtmp://host/live/fixed?token=t&a=", None, ("fixed", "t", "token=t&a=")),
        ("rtmp://host/{app}/{stream}?a=b+c&sesame", None, ("a=b c&sesame", "a=b+c&sesame", "b c", "b+c", "sesame")),
        ("rtmp://host/{app}/{stream}", None, ()),
        ("rtmp://host/{app}/{stream}?key={key}", "k-1", ("k-1", "key=k-1")),
    ],
)
def test_what_lets_one_in_is_secret(url: str, key: str | None, secrets: tuple[str, ...]) -> None:
    assert read_push_address(url, has_key=key is not None).secrets_of("show", "main", key) == secrets


def test_a_name_with_slashes_stays_a_name() -> None:
    read = read_push_address("rtmp://host/{app}/{stream}", has_key=False)
    assert read.address_of("a/b", "c/d:e", None) == StreamAddress("host", 1935, "a/b", "c/d:e")


@pytest.mark.parametrize(
    ("url", "has_key", "complaint"),
    [
        (
            "rtmp://host/sesame",
            False,
            "push url: should be rtmp://HOST[:PORT]/APP/STREAM, or a key beside it; rtmps:// is under TLS",
        ),
        ("http://host/sesame", True, "push url: should be rtmp://HOST[:PORT]/APP beside a key; rtmps:// is under TLS"),
        (
            "rtmp://host/sesame/{steam}",
            False,
            "push url: has a place for 1 unknown words; there are {app}, {stream}, {key}",
        ),
        (
            "rtmp://host/{app}/{stream}",
            True,
            "push url: names the stream by {stream}, and so needs {key} where the key belongs",
        ),
        ("rtmp://host/live/{key}", False, "push url: has a place for a key, and there is none"),
        ("rtmp://{app}/live/sesame", False, "push url: should have a host that is written out"),
        ("rtmp://host/live/ses ame", False, "push url: has characters that no URL has"),
        (
            "rtmp://user:sesame@host/live/x",
            False,
            "push url: should be rtmp://HOST[:PORT]/APP/STREAM, or a key beside it; rtmps:// is under TLS",
        ),
    ],
)
def test_what_is_no_address_is_refused_without_repeating_it(url: str, has_key: bool, complaint: str) -> None:
    with pytest.raises(MalformedInput) as caught:
        read_push_address(url, has_key=has_key)
    assert str(caught.value) == complaint
