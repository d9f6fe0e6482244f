"""Signed links, against signatures that OpenSSL made."""

import pytest

from penstock.access.request import SignedPart
from penstock.access.rules import ip_of
from penstock.access.signing import expiry_of_signed, sign_url, signature

SECRET = b"topsecret"
NOW = 1_800_000_000.0
EXP = "1800000600"
# printf 'penstock1\nplay\nlive/a b\n1800000600\n' | openssl dgst -sha256 -hmac topsecret -binary | basenc --base64url
PLAY = "5vKH3xpyiZ9bIW_5VJJXOUs-Or_EfeAwd4BCv56lC0o"
# printf 'penstock1\nplay\nlive/a b\n1800000600\n192.0.2.1' | openssl dgst … as above
PLAY_IP = "M96xretyCWlZxqL97Lfi8HNs-DDkNOV9EAHojh0s0h0"


def expiry(
    part: SignedPart, *, secrets: tuple[bytes, ...] = (SECRET,), path: str = "live/a b", ip: str | None = "192.0.2.1"
) -> float | None:
    return expiry_of_signed(part, secrets, action="play", path=path, peer=ip_of(ip), now=NOW)


def test_the_signature_is_the_one_that_openssl_makes() -> None:
    assert signature(SECRET, "play", "live/a b", EXP, "") == PLAY
    assert signature(SECRET, "play", "live/a b", EXP, "192.0.2.1") == PLAY_IP


def test_a_signed_link_lets_in_until_it_expires() -> None:
    assert expiry(SignedPart(EXP, "", PLAY)) == 1_800_000_600.0
    late = expiry_of_signed(
        SignedPart(EXP, "", PLAY), [SECRET], action="play", path="live/a b", peer=None, now=1_800_000_600.0
    )
    assert late is None


def test_names_count_decoded_however_they_were_sent() -> None:
    assert expiry(SignedPart(EXP, "", PLAY), path="live/a%20b") is not None


@pytest.mark.parametrize("path", ["live/%61%20b", "liv%65/a%20b", "live%2Fa%20b", "live%2fa%20b", "live/a%2520b"])
def test_a_link_is_for_one_stream_and_not_for_every_spelling_of_it(path: str) -> None:
    assert expiry(SignedPart(EXP, "", PLAY), path=path) is None


def test_any_of_the_secrets_verifies() -> None:
    assert expiry(SignedPart(EXP, "", PLAY), secrets=(b"new", SECRET)) is not None
    assert expiry(SignedPart(EXP, "", PLAY), secrets=(b"new",)) is None
    assert expiry(SignedPart(EXP, "", PLAY), secrets=()) is None


def test_a_link_for_an_address_is_for_that_address() -> None:
    part = SignedPart(EXP, "192.0.2.1", PLAY_IP)
    assert expiry(part) is not None
    assert expiry(part, ip="::ffff:192.0.2.1") is not None
    assert expiry(part, ip="192.0.2.2") is None
    assert expiry(part, ip=None) is None


@pytest.mark.parametrize(
    "part",
    [
        SignedPart("1800000601", "", PLAY),
        SignedPart(EXP, "192.0.2.1", PLAY),
        SignedPart(EXP, "", PLAY_IP),
        SignedPart(EXP, "", PLAY + "="),
        SignedPart(EXP, "", ""),
        SignedPart(EXP, "", "\udcff"),
        SignedPart("", "", PLAY),
    ],
)
def test_what_was_changed_does_not_let_in(part: SignedPart) -> None:
    assert expiry(part) is None


def test_a_play_link_never_publishes_and_is_for_one_stream() -> None:
    part = SignedPart(EXP, "", PLAY)
    assert expiry_of_signed(part, [SECRET], action="publish", path="live/a b", peer=None, now=NOW) is None
    assert expiry(part, path="live/other") is None


@pytest.mark.parametrize("exp", ["18e8", "-1", "1 800 000 600", "\uff11" * 10, "9" * 13, "inf", ""])
def test_a_time_that_is_no_whole_number_does_not_let_in(exp: str) -> None:
    assert expiry(SignedPart(exp, "", signature(SECRET, "play", "live/a b", exp, ""))) is None


def test_a_url_is_signed_in_its_query() -> None:
    assert sign_url("rtmp://h/live/a%20b", SECRET, "play", 1_800_000_600) == (
        f"rtmp://h/live/a%20b?exp=1800000600&sig={PLAY}"
    )
    assert sign_url("rtmps://h:1936/live/a%20b?x=1&sig=old&exp=5", SECRET, "play", 1_800_000_600, "192.0.2.1") == (
        f"rtmps://h:1936/live/a%20b?x=1&exp=1800000600&ip=192.0.2.1&sig={PLAY_IP}"
    )


def test_no_colon_of_an_address_is_left_for_ffmpeg_to_trip_over() -> None:
    assert "ip=2001%3Adb8%3A%3A1&" in sign_url("rtmp://h/live/x", SECRET, "play", 1_800_000_600, "2001:db8::1")


@pytest.mark.parametrize("url", ["", "live/x", "rtmp://h", "rtmp://h/live", "rtmp:///live/x", "http://h/live/x.flv"])
def test_what_names_no_stream_is_not_signed(url: str) -> None:
    with pytest.raises(ValueError, match="should be rtmp://HOST/APP/STREAM"):
        sign_url(url, SECRET, "play", 1_800_000_600)


def test_a_name_that_would_not_be_let_in_is_not_signed() -> None:
    with pytest.raises(ValueError, match="should encode no letters"):
        sign_url("rtmp://h/live/%6dain", SECRET, "play", 1_800_000_600)
