"""PROXY headers, byte for byte as the specification spells them and as HAProxy 2.6 sends them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ProtocolViolation
from penstock.protocol.proxy_header import MAX_HEADER_BYTES, ProxyHeader, read_proxy_header

SIGNATURE = b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a"
FULL_IPV6 = b"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"

# Section 2.1 of proxy-protocol.txt: its example, and the longest line of each kind.
SPECIFIED = {
    "example": (b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n", "192.168.0.1:56324"),
    "longest TCP4": (b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255:65535"),
    "longest TCP6": (b"PROXY TCP6 %b %b 65535 65535\r\n" % (FULL_IPV6, FULL_IPV6), f"[{FULL_IPV6.decode()}]:65535"),
    "shortest unknown": (b"PROXY UNKNOWN\r\n", None),
    "longest unknown": (b"PROXY UNKNOWN %b %b 65535 65535\r\n" % (FULL_IPV6, FULL_IPV6), None),
}
# What HAProxy 2.6.12 sent: send-proxy, send-proxy-v2, the latter with unique-id, crc32c and ssl, and its health check.
SENT_BY_HAPROXY = {
    "haproxy v1 IPv4": (b"PROXY TCP4 127.0.0.1 127.0.0.1 55660 26001\r\n", "127.0.0.1:55660"),
    "haproxy v1 IPv6": (b"PROXY TCP6 ::1 ::1 54120 26004\r\n", "[::1]:54120"),
    "haproxy v2 IPv4": (
        b"\r\n\r\n\x00\r\nQUIT\n!\x11\x00\x0c\x7f\x00\x00\x01\x7f\x00\x00\x01\xa9\x8ce\x92",
        "127.0.0.1:43404",
    ),
    "haproxy v2 IPv6": (
        (
            b"\r\n\r\n\x00\r\nQUIT\n!!\x00$\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"
            b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\xd42e\x95"
        ),
        "[::1]:54322",
    ),
    "haproxy v2 with more": (
        (
            b"\r\n\r\n\x00\r\nQUIT\n!\x11\x00B\x7f\x00\x00\x01\x7f\x00\x00\x01\xc4&e\x93\x03\x00\x04zD\xbd\xb0"
            b"\x05\x00$107aa852-b3f6-4223-be5b-086ed5e86cc7 \x00\x05\x00\x00\x00\x00\x00"
        ),
        "127.0.0.1:50214",
    ),
    "haproxy health check": (b"\r\n\r\n\x00\r\nQUIT\n \x00\x00\x00", None),
}
# By section 2.2: the byte of version and command, that of family and transport, the length, then the addresses.
OTHERS = {
    "unspecified": (SIGNATURE + b"\x21\x00\x00\x00", None),
    "unspecified with more": (SIGNATURE + b"\x21\x00\x00\x03abc", None),
    "UDP": (SIGNATURE + b"\x21\x12\x00\x0c" + bytes(12), None),
    "Unix": (SIGNATURE + b"\x21\x31\x00\xd8" + bytes(216), None),
    "local with addresses": (SIGNATURE + b"\x20\x11\x00\x0c" + bytes(12), None),
    "IPv4 in IPv6": (
        SIGNATURE + b"\x21\x21\x00\x24" + bytes(10) + b"\xff\xff\xc0\x00\x02\x07" + bytes(16) + b"\x04\xd2\x07\x8f",
        "192.0.2.7:1234",
    ),
    "longest": (
        SIGNATURE + b"\x21\x11\x10\x00\xc0\x00\x02\x07\xc0\x00\x02\x01\x04\xd2\x07\x8f" + bytes(4084),
        "192.0.2.7:1234",
    ),
    "port 0": (b"PROXY TCP4 192.0.2.7 192.0.2.1 0 0\r\n", "192.0.2.7:0"),
}
HEADERS = {**SPECIFIED, **SENT_BY_HAPROXY, **OTHERS}


@pytest.mark.parametrize(("header", "address"), HEADERS.values(), ids=HEADERS)
@pytest.mark.parametrize("behind", [b"", b"\x03", b"\x16\x03\x01\x02\x00" * 1000, b"PROXY UNKNOWN\r\n"])
def test_a_header_ends_where_it_ends_whatever_is_behind_it(header: bytes, address: str | None, behind: bytes) -> None:
    assert read_proxy_header(header + behind) == ProxyHeader(address, len(header))


@pytest.mark.parametrize(("header", "address"), HEADERS.values(), ids=HEADERS)
def test_of_every_beginning_of_a_header_the_rest_is_waited_for(header: bytes, address: str | None) -> None:
    del address
    assert [read_proxy_header(header[:size]) for size in range(len(header))] == [None] * len(header)


HOSTILE = {
    "RTMP": b"\x03",
    "TLS": b"\x16\x03\x01",
    "HTTP": b"POST /open/1 HTTP/1.1\r\n",
    "small letters": b"proxy TCP4 192.0.2.7 192.0.2.1 1 2\r\n",
    "no space": b"PROXY\r\n",
    "line feed alone": b"PROXY TCP4 192.0.2.7 192.0.2.1 1 2\n" + b"x" * 107,
    "no end": b"PROXY " + b"x" * 101,
    "end too late": b"PROXY UNKNOWN " + b"x" * 92 + b"\r\n",
    "no family": b"PROXY \r\n",
    "other family": b"PROXY UDP4 192.0.2.7 192.0.2.1 1 2\r\n",
    "IPv6 in TCP4": b"PROXY TCP4 ::1 ::1 1 2\r\n",
    "IPv4 in TCP6": b"PROXY TCP6 192.0.2.7 192.0.2.1 1 2\r\n",
    "zone": b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
    "leading zero": b"PROXY TCP4 192.0.2.07 192.0.2.1 1 2\r\n",
    "no address": b"PROXY TCP4 example.org 192.0.2.1 1 2\r\n",
    "no text": b"PROXY TCP4 \xff\xfe 192.0.2.1 1 2\r\n",
    "bad destination": b"PROXY TCP4 192.0.2.7 x 1 2\r\n",
    "two spaces": b"PROXY TCP4  192.0.2.7 192.0.2.1 1 2\r\n",
    "too few": b"PROXY TCP4 192.0.2.7 192.0.2.1 1\r\n",
    "too many": b"PROXY TCP4 192.0.2.7 192.0.2.1 1 2 3\r\n",
    "large port": b"PROXY TCP4 192.0.2.7 192.0.2.1 65536 2\r\n",
    "long port": b"PROXY TCP4 192.0.2.7 192.0.2.1 00001 2\r\n",
    "negative port": b"PROXY TCP4 192.0.2.7 192.0.2.1 -1 2\r\n",
    "odd digit": "PROXY TCP4 192.0.2.7 192.0.2.1 ² 2\r\n".encode(),
    "empty port": b"PROXY TCP4 192.0.2.7 192.0.2.1  2\r\n",
    "version 1 in version 2": SIGNATURE + b"\x11\x11\x00\x0c" + bytes(12),
    "version 3": SIGNATURE + b"\x31\x11\x00\x0c",
    "other command": SIGNATURE + b"\x22\x11\x00\x0c",
    "other v2 family": SIGNATURE + b"\x21\x41\x00\x0c",
    "other transport": SIGNATURE + b"\x21\x13\x00\x0c",
    "no room for addresses": SIGNATURE + b"\x21\x11\x00\x0b",
    "no room for IPv6": SIGNATURE + b"\x21\x21\x00\x23",
    "too long": SIGNATURE + b"\x21\x11\x10\x01",
    "far too long": SIGNATURE + b"\x20\x00\xff\xff",
    "almost the signature": SIGNATURE[:-1] + b"\x0b",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_anything_else_is_refused_as_soon_as_it_is_seen(data: bytes) -> None:
    with pytest.raises(ProtocolViolation, match=r"^proxy: "):
        read_proxy_header(data)


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=200).map(lambda rest: SIGNATURE + rest)))
def test_no_bytes_do_anything_but_pass_wait_or_be_refused(data: bytes) -> None:
    try:
        header = read_proxy_header(data)
    except ProtocolViolation:
        return
    assert header is None or 0 < header.size <= len(data)


def test_nothing_is_waited_for_beyond_the_longest_header() -> None:
    assert MAX_HEADER_BYTES == len(OTHERS["longest"][0]) == 4112
