"""Certificates of RTMPS and HTTPS: from two PEM files to what connections need, and anew while the server runs.

Owns which versions of TLS are spoken and what is checked of the files before the first connection needs them: that
they are there, readable, PEM, made for each other and valid today. Refuses the rest by ConfigError, one line that names
the key of the configuration and the file. Of X.509 (RFC 5280, section 4.1) it reads the two dates and nothing else.
"""

import re
import ssl
from datetime import UTC, datetime
from pathlib import Path

from penstock.errors import ConfigError
from penstock.logs import get_logger

_FIRST_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
# The last one is OpenSSL's word for a key of another kind, such as RSA beside a certificate for an elliptic curve.
_MISMATCHES = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
_SOON_DAYS = 14

_EXPLICIT_VERSION, _UTC_TIME = 0xA0, 0x17


def load_tls(cert: Path, key: Path, section: str = "tls") -> ssl.SSLContext:
    """What a server needs to speak TLS with the chain of certificates in one file and the private key in another.

    `section`: of the configuration, which names them.
    """
    return _load(cert, key, section)[0]


def _load(cert: Path, key: Path, section: str) -> tuple[ssl.SSLContext, datetime]:
    valid_until = _check_certificate(cert, section)
    if not _PRIVATE_KEY.search(_read_text(f"{section}.key", key)):
        raise ConfigError(f"{section}.key: {key} holds no private key in PEM")

    def no_password() -> bytes:
        raise ConfigError(f"{section}.key: {key} is encrypted, and there is nobody to ask for its password")

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A second handshake on an open connection would be done on the loop. OpenSSL 3 refuses it by default, 1.1.1 not.
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(cert, key, no_password)
    except ssl.SSLError as error:
        if error.reason in _MISMATCHES:
            raise ConfigError(f"{section}.key: {key} does not belong to the certificate in {cert}") from error
        reason = (error.reason or "not readable").replace("_", " ").lower()
        raise ConfigError(f"{section}.key: {key} and {cert} cannot be used: {reason}") from error
    return context, valid_until


def _check_certificate(cert: Path, section: str) -> datetime:
    """Until when the server's own certificate is valid; those of its issuers are the peers' matter."""
    found = _FIRST_CERTIFICATE.search(_read_text(f"{section}.cert", cert))
    if found is None:
        raise ConfigError(f"{section}.cert: {cert} holds no certificate in PEM")
    try:
        valid_from, valid_until = _read_validity(ssl.PEM_cert_to_DER_cert(found[0]))
    except ValueError as error:
        raise ConfigError(f"{section}.cert: {cert} holds no readable certificate") from error
    now = datetime.now(UTC)
    if now >= valid_until:
        raise ConfigError(f"{section}.cert: {cert} has expired: it was valid until {valid_until:%Y-%m-%d %H:%M} UTC")
    if now < valid_from:
        raise ConfigError(f"{section}.cert: {cert} is not valid yet: not before {valid_from:%Y-%m-%d %H:%M} UTC")
    return valid_until


def _read_text(name: str, path: Path) -> str:
    try:
        # PEM is ASCII between its marks; what stands around them is free text.
        return path.read_text(encoding="latin-1")
    except OSError as error:
        raise ConfigError(f"{name}: {path} cannot be read: {error.strerror}") from error


def _read_validity(der: bytes) -> tuple[datetime, datetime]:
    """From when until when a certificate is valid. Bytes that are none raise ValueError."""
    _, certificate, _ = _read_element(der)
    _, signed_part, _ = _read_element(certificate)
    tag, _, rest = _read_element(signed_part)
    # The version, if it is there, then serial number, algorithm and issuer.
    for _ in range(3 if tag == _EXPLICIT_VERSION else 2):
        _, _, rest = _read_element(rest)
    _, validity, _ = _read_element(rest)
    first_tag, valid_from, rest = _read_element(validity)
    second_tag, valid_until, _ = _read_element(rest)
    return _read_time(first_tag, valid_from), _read_time(second_tag, valid_until)


def _read_element(data: bytes) -> tuple[int, bytes, bytes]:
    """Tag and content of the first element, and what follows it."""
    if len(data) < 2:
        raise ValueError(f"certificate: {len(data)} bytes where an element should begin")
    tag, size, start = data[0], data[1], 2
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(data[2:start], "big")
    end = start + size
    if end > len(data):
        raise ValueError(f"certificate: an element of {end} bytes in {len(data)}")
    return tag, data[start:end], data[end:]


def _read_time(tag: int, text: bytes) -> datetime:
    # strptime would take years from 69 on for those of the last century, where RFC 5280 begins with 50.
    digits = text.decode("ascii")
    if tag == _UTC_TIME:
        digits = ("20" if digits[:2] < "50" else "19") + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


class ReloadableTls:
    """The certificate in force."""

    def __init__(self, cert: Path, key: Path, section: str = "tls") -> None:
        """Files that cannot be used raise ConfigError, which names their keys in this section."""
        self._cert = cert
        self._key = key
        self._section = section
        self._log = get_logger(cert=str(cert))
        self.context, valid_until = _load(cert, key, section)
        """For the next connection; a reload puts another in its place, and connections keep the one they began with."""
        self._tell("certificate loaded", valid_until)

    def reload(self) -> bool:
        """Read the files anew, for connections to come. If they are wrong, what is in force stays."""
        try:
            self.context, valid_until = _load(self._cert, self._key, self._section)
        except ConfigError as error:
            self._log.error("certificate not reloaded", reason=str(error))
            return False
        self._tell("certificate reloaded", valid_until)
        return True

    def _tell(self, what: str, valid_until: datetime) -> None:
        days_left = (valid_until - datetime.now(UTC)).days
        tell = self._log.info if days_left >= _SOON_DAYS else self._log.warning
        tell(what, valid_until=valid_until.isoformat(), days_left=days_left)
