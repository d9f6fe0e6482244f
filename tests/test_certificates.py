"""Certificates: files that are wrong in every way are one readable line, and new ones hold without a restart."""

import io
import json
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from penstock import certificates
from penstock.certificates import ReloadableTls, load_tls
from penstock.errors import ConfigError
from penstock.logs import configure_logs
from tests.support.tls import Files, connect, trusting


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files.made_in(tmp_path)


def test_only_versions_that_are_still_safe_are_spoken(files: Files) -> None:
    assert load_tls(files.cert, files.key).minimum_version is ssl.TLSVersion.TLSv1_2


def test_nobody_may_ask_for_another_handshake_on_an_open_connection(files: Files) -> None:
    assert load_tls(files.cert, files.key).options & ssl.OP_NO_RENEGOTIATION


WRONG_FILES: dict[str, tuple[Callable[[Files], object], str]] = {
    "no certificate": (lambda files: files.cert.unlink(), "tls.cert: {cert} cannot be read: No such file or directory"),
    "no key": (lambda files: files.key.unlink(), "tls.key: {key} cannot be read: No such file or directory"),
    "text for a certificate": (
        lambda files: files.cert.write_text("hello"),
        "tls.cert: {cert} holds no certificate in PEM",
    ),
    "bytes for a key": (
        lambda files: files.key.write_bytes(bytes(range(256))),
        "tls.key: {key} holds no private key in PEM",
    ),
    "the certificate as its key": (
        lambda files: files.key.write_bytes(files.cert.read_bytes()),
        "tls.key: {key} holds no private key in PEM",
    ),
    "half a certificate": (
        lambda files: files.cert.write_text(
            "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIU\n-----END CERTIFICATE-----\n"
        ),
        "tls.cert: {cert} holds no readable certificate",
    ),
    "no base64 in a certificate": (
        lambda files: files.cert.write_text("-----BEGIN CERTIFICATE-----\nüüü\n-----END CERTIFICATE-----\n"),
        "tls.cert: {cert} holds no readable certificate",
    ),
    "half a key": (
        lambda files: files.key.write_text("-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----\n"),
        "tls.key: {key} and {cert} cannot be used: not readable",
    ),
    "another key": (
        lambda files: files.issue() and files.key.write_bytes(trustme.CA().issue_cert("x").private_key_pem.bytes()),
        "tls.key: {key} does not belong to the certificate in {cert}",
    ),
    "a key of another kind": (
        lambda files: files.key.write_bytes(
            trustme.CA().issue_cert("x", key_type=trustme.KeyType.RSA).private_key_pem.bytes()
        ),
        "tls.key: {key} does not belong to the certificate in {cert}",
    ),
}


@pytest.mark.parametrize("what", WRONG_FILES)
def test_files_that_are_wrong_are_one_readable_line(files: Files, what: str) -> None:
    spoil, line = WRONG_FILES[what]
    spoil(files)
    with pytest.raises(ConfigError) as caught:
        load_tls(files.cert, files.key)
    assert str(caught.value) == line.format(cert=files.cert, key=files.key)


def test_a_certificate_that_has_expired_says_when(files: Files) -> None:
    files.issue(days=-0.5)
    with pytest.raises(
        ConfigError, match=r"^tls.cert: .* has expired: it was valid until \d{4}-\d\d-\d\d \d\d:\d\d UTC$"
    ):
        load_tls(files.cert, files.key)


def test_a_certificate_of_tomorrow_says_from_when(files: Files) -> None:
    files.issue(from_days=1)
    with pytest.raises(ConfigError, match=r"^tls.cert: .* is not valid yet: not before \d{4}-\d\d-\d\d \d\d:\d\d UTC$"):
        load_tls(files.cert, files.key)


def test_a_key_with_a_password_is_refused_and_nobody_is_asked(files: Files) -> None:
    from cryptography.hazmat.primitives import serialization

    plain = serialization.load_pem_private_key(files.key.read_bytes(), None)
    files.key.write_bytes(
        plain.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(ConfigError, match=r"^tls.key: .* is encrypted, and there is nobody to ask for its password$"):
        load_tls(files.cert, files.key)


# The part of a certificate up to its dates, with empty names: version, serial number, algorithm, issuer, validity.
VERSION = "a003 020102"
BEFORE_DATES = "020101 3000 3000"
UNTIL_2049 = "301e 170d 3530303130313030303030305a 170d 3439313233313233353935395a"
UNTIL_2050 = "3022 180f 31393530303130313030303030305a 180f 32303530303130313030303030305a"


NO_CERTIFICATE = r"^certificate: |'ascii' codec can't decode|time data .* does not match|unconverted data"


def certificate_of(*parts: str) -> bytes:
    signed_part = bytes.fromhex(" ".join(parts))
    inner = b"\x30\x81" + bytes([len(signed_part)]) + signed_part
    return b"\x30\x82" + len(inner).to_bytes(2, "big") + inner


@pytest.mark.parametrize(
    ("der", "until"),
    [
        (certificate_of(VERSION, BEFORE_DATES, UNTIL_2049), datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (certificate_of(BEFORE_DATES, UNTIL_2049), datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (certificate_of(VERSION, BEFORE_DATES, UNTIL_2050), datetime(2050, 1, 1, tzinfo=UTC)),
    ],
    ids=["short dates", "without a version", "long dates"],
)
def test_dates_are_read_in_both_forms(der: bytes, until: datetime) -> None:
    assert certificates._read_validity(der) == (datetime(1950, 1, 1, tzinfo=UTC), until)
    for size in range(len(der)):
        with pytest.raises(ValueError, match="certificate: "):
            certificates._read_validity(der[:size])


@given(st.binary(max_size=80))
def test_bytes_that_are_no_certificate_are_refused(noise: bytes) -> None:
    with pytest.raises(ValueError, match=NO_CERTIFICATE):
        certificates._read_validity(noise)


@given(st.binary(max_size=40))
def test_a_certificate_whose_dates_are_none_is_refused(noise: bytes) -> None:
    with pytest.raises(ValueError, match=NO_CERTIFICATE):
        certificates._read_validity(certificate_of(VERSION, BEFORE_DATES, f"30{len(noise):02x}", noise.hex()))


def seen_by_client(tls: ReloadableTls, theirs: ssl.SSLContext) -> bytes | None:
    ends = connect((tls.context, theirs))
    ends.close()
    return ends.client.tls.getpeercert(binary_form=True)


def first_der(leaf: trustme.LeafCert) -> bytes:
    return ssl.PEM_cert_to_DER_cert(leaf.cert_chain_pems[0].bytes().decode())


@pytest.fixture
def log() -> Iterator[Callable[[], list[dict[str, object]]]]:
    """The lines that were logged."""
    stream = io.StringIO()
    writer = configure_logs("info", "json", stream)

    def lines() -> list[dict[str, object]]:
        assert writer.flush(5.0)
        return [json.loads(line) for line in stream.getvalue().splitlines()]

    yield lines
    writer.close()


def test_new_files_hold_for_new_connections_and_old_ones_go_on(files: Files) -> None:
    tls = ReloadableTls(files.cert, files.key)
    theirs = trusting(files.authority)
    ends = connect((tls.context, theirs))
    leaf = files.issue()
    assert seen_by_client(tls, theirs) != first_der(leaf)
    assert tls.reload()
    assert seen_by_client(tls, theirs) == first_der(leaf)
    ends.transport.send(b"still here")
    ends.client.take()
    assert ends.client.heard() == b"still here"
    ends.close()


def test_files_that_are_wrong_change_nothing_and_are_told(
    files: Files, log: Callable[[], list[dict[str, object]]]
) -> None:
    first = files.issue()
    tls = ReloadableTls(files.cert, files.key)
    files.cert.write_text("half written")
    assert not tls.reload()
    assert seen_by_client(tls, trusting(files.authority)) == first_der(first)
    told = log()[-1]
    assert (told["level"], told["msg"]) == ("ERROR", "certificate not reloaded")
    assert told["reason"] == f"tls.cert: {files.cert} holds no certificate in PEM"


@pytest.mark.parametrize(("days", "level"), [(90, "INFO"), (13, "WARNING")])
def test_a_certificate_that_ends_soon_is_a_warning(
    files: Files, log: Callable[[], list[dict[str, object]]], days: int, level: str
) -> None:
    files.issue(days=days + 0.5)
    tls = ReloadableTls(files.cert, files.key)
    tls.reload()
    assert [(line["level"], line["msg"], line["days_left"]) for line in log()] == [
        (level, "certificate loaded", days),
        (level, "certificate reloaded", days),
    ]


def test_a_server_does_not_start_with_files_that_are_wrong(files: Files) -> None:
    files.key.unlink()
    with pytest.raises(ConfigError):
        ReloadableTls(files.cert, files.key)


def test_what_is_wrong_is_told_by_the_section_that_names_the_files(files: Files) -> None:
    files.key.write_text("no key")
    with pytest.raises(ConfigError, match=r"^http\.key: .* holds no private key in PEM$"):
        ReloadableTls(files.cert, files.key, "http")
    files.cert.unlink()
    with pytest.raises(ConfigError, match=r"^http\.cert: .* cannot be read"):
        ReloadableTls(files.cert, files.key, "http")
