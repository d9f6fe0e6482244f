"""Connections made to cost: TLS handshakes with a large key, and more newcomers than anybody needs."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from tests.scenarios.hostile_stage import ATTACK_S, ATTACKER_ADDRESS, NO_EXEMPTIONS, Stage, hostile_stage
from tests.support.attacks import come_and_go
from tests.support.hostile_clients import HostileClient

pytestmark = pytest.mark.alone

KEY_BITS = 4096
HELLOS_AT_ONCE = 100
HELLOS_PER_S = 500
VISITS_IN_A_ROW = 1_000


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    work_dir = tmp_path_factory.mktemp("attacks")
    cert, key = make_certificate(work_dir)
    options = ["--rtmps", "127.0.0.1:0", "--cert", str(cert), "--key", str(key)]
    with hostile_stage(work_dir, NO_EXEMPTIONS, options) as stage:
        yield stage


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate and its RSA key: the larger the key, the more a handshake costs the server, and only the server."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    cert = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=90))
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = folder / "cert.pem", folder / "key.pem"
    cert_path.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert_path, key_path


def client_hello() -> bytes:
    """The first flight of a client that trusts everybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def rtmps_port(stage: Stage) -> int:
    started = stage.server.wait_for_line("server started")
    return int(str(started["rtmps"]).rpartition(":")[2])


def test_a_hundred_hellos_at_once_hold_up_nobody(stage: Stage) -> None:
    hello, port = client_hello(), rtmps_port(stage)
    with stage.attack(), ExitStack() as stack:
        crowd = [stack.enter_context(HostileClient(port, source=ATTACKER_ADDRESS)) for _ in range(HELLOS_AT_ONCE)]
        for client in crowd:
            client.push(hello)
        answered = sum(is_answered(client) for client in crowd)
    assert answered, "nobody could shake hands"


def is_answered(client: HostileClient) -> bool:
    """Whether the server's first flight has come, or the end."""
    client.socket.settimeout(5.0)
    try:
        return bool(client.socket.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


def test_hellos_of_those_who_leave_at_once_hold_up_nobody(stage: Stage) -> None:
    hello, port = client_hello(), rtmps_port(stage)
    with stage.attack():
        come_and_go(lambda: HostileClient(port, source=ATTACKER_ADDRESS), hello, ATTACK_S, HELLOS_PER_S)


def test_an_address_that_comes_hundreds_of_times_a_second_is_turned_away(stage: Stage) -> None:
    refused = 0
    with stage.attack():
        for _ in range(VISITS_IN_A_ROW):
            # One at a time: there are never many connections of this address.
            with stage.attacker() as client:
                try:
                    client.greeted()
                except ConnectionError:
                    refused += 1
    assert refused
