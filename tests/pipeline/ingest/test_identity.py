"""Who is behind a fact: literal addresses and names in, keys out."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.pipeline.ingest import identity
from penstock.pipeline.ingest.identity import boot_key, hashed_key

ADDRESSES = [
    ("203.0.113.77:50123", "203.0.113.77", "203.0.113.0/24"),
    ("127.0.0.1:1", "127.0.0.1", "loopback"),
    ("127.9.9.9:1", "127.9.9.9", "loopback"),
    ("10.1.2.3:1", "10.1.2.3", "private"),
    ("172.15.0.1:1", "172.15.0.1", "172.15.0.0/24"),
    ("172.16.0.1:1", "172.16.0.1", "private"),
    ("172.31.255.1:1", "172.31.255.1", "private"),
    ("172.32.0.1:1", "172.32.0.1", "172.32.0.0/24"),
    ("192.168.1.1:1", "192.168.1.1", "private"),
    ("169.254.1.1:1", "169.254.1.1", "private"),
    ("::1:50123", "::1", "loopback"),
    ("::ffff:203.0.113.77:50123", "203.0.113.77", "203.0.113.0/24"),
    ("2001:db8:1:2:3:4:5:6:50123", "2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
    ("2001:db8:1::7:50123", "2001:db8:1::7", "2001:db8:1::/48"),
    ("2001:db8::7:50123", "2001:db8::7", "2001:db8::/48"),
    ("2001::7:50123", "2001::7", "2001::/48"),
    ("2001::1:2:3:4:5:6:50123", "2001::1:2:3:4:5:6", "2001:0:1::/48"),
    ("fd00:1:2::3:50123", "fd00:1:2::3", "private"),
    ("fe80::1%eth0:50123", "fe80::1", "private"),
    ("junk", "junk", None),
]


@pytest.mark.parametrize(("peer_addr", "ip", "network"), ADDRESSES)
def test_an_address_loses_its_port_and_gives_its_network(peer_addr: str, ip: str, network: str | None) -> None:
    assert (identity.ip_of(peer_addr), identity.network_of(ip)) == (ip, network)


@pytest.mark.parametrize(
    ("known", "key"),
    [
        (("alice", "tv", "203.0.113.7", "vlc"), "a:alice"),
        ((None, "tv", "203.0.113.7", "vlc"), "v:tv"),
        ((None, None, "203.0.113.7", "vlc"), hashed_key("n", "203.0.113.7", "vlc")),
        ((None, None, "203.0.113.7", "obs"), hashed_key("n", "203.0.113.7", "obs")),
        ((None, None, "203.0.113.7", None), hashed_key("n", "203.0.113.7", None)),
        ((None, None, None, "vlc"), None),
    ],
)
def test_a_viewer_is_named_by_the_first_that_is_known(
    known: tuple[str | None, str | None, str | None, str | None], key: str | None
) -> None:
    assert identity.viewer_key(*known, "n") == key


@pytest.mark.parametrize("other", [("o", "203.0.113.7", "vlc"), ("n", "203.0.113.8", "vlc"), ("n", "203.0.113.7", "")])
def test_salt_address_and_client_each_change_the_hash(other: tuple[str, str, str]) -> None:
    assert hashed_key("n", "203.0.113.7", "vlc") != hashed_key(*other)


def test_boots_of_two_servers_differ_however_their_names_are_joined() -> None:
    assert boot_key("a-b", "c") != boot_key("a", "b-c")


@pytest.mark.parametrize("length", [0, 1, 3, 4, 7, 8, 12, 15, 31, 32, 33, 47, 64, 100])
def test_a_boot_has_the_number_that_spark_gives_it(length: int, spark: SparkSession) -> None:
    server_id, boot_id = ("schön-ist-anders/" * 8)[:length], "0123456789abcdef"[: length % 17]
    row = spark.range(1).select(F.xxhash64(F.lit(server_id), F.lit(boot_id))).first()
    assert row is not None
    assert boot_key(server_id, boot_id) == row[0]
