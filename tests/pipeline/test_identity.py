"""Who is behind a fact: literal addresses and names in, keys out."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.pipeline import identity
from penstock.pipeline.identity import hashed_key

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
    (None, None, None),
]


def test_an_address_loses_its_port_and_gives_its_network(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(peer,) for peer, _, _ in ADDRESSES], "peer_addr string")
    ip = identity.ip_of(F.col("peer_addr"))
    found = rows.select("peer_addr", ip, identity.network_of(ip)).collect()
    assert [tuple(row) for row in found] == ADDRESSES


NOVEMBER_US = 1_794_700_800_000_000
DECEMBER_US = NOVEMBER_US + 31 * 86_400_000_000
SALTS = {"2026-11": "n", "2026-12": "d"}


def test_a_viewer_is_named_by_the_first_that_is_known(spark: SparkSession) -> None:
    cases = [
        (("alice", "tv", "203.0.113.7:1", "vlc", NOVEMBER_US), "a:alice"),
        ((None, "tv", "203.0.113.7:1", "vlc", NOVEMBER_US), "v:tv"),
        ((None, None, "203.0.113.7:1", "vlc", NOVEMBER_US), hashed_key("n", "203.0.113.7", "vlc")),
        ((None, None, "203.0.113.7:2", "vlc", NOVEMBER_US), hashed_key("n", "203.0.113.7", "vlc")),
        ((None, None, "203.0.113.7:1", "obs", NOVEMBER_US), hashed_key("n", "203.0.113.7", "obs")),
        ((None, None, "203.0.113.7:1", None, NOVEMBER_US), hashed_key("n", "203.0.113.7", None)),
        ((None, None, "203.0.113.7:1", "vlc", DECEMBER_US), hashed_key("d", "203.0.113.7", "vlc")),
        ((None, None, None, "vlc", NOVEMBER_US), None),
    ]
    schema = "auth_subject string, viewer string, peer_addr string, client string, at_us bigint"
    fact = {name: F.col(name) for name in ("auth_subject", "viewer", "peer_addr", "client", "at_us")}
    rows = spark.createDataFrame([case for case, _ in cases], schema).coalesce(1)
    found = [row[0] for row in rows.select(identity.viewer_key(fact, SALTS)).collect()]
    assert found == [key for _, key in cases]


@pytest.mark.parametrize("other", [("o", "203.0.113.7", "vlc"), ("n", "203.0.113.8", "vlc"), ("n", "203.0.113.7", "")])
def test_salt_address_and_client_each_change_the_hash(other: tuple[str, str, str]) -> None:
    assert hashed_key("n", "203.0.113.7", "vlc") != hashed_key(*other)


def test_a_view_is_numbered_by_its_play_started(spark: SparkSession) -> None:
    cases = [
        ("play_started", 7, None, 7),
        ("viewer_sample", 9, "edge-1-b00t-7", 7),
        ("play_stopped", 9, None, None),
        ("play_stopped", 9, "edge-1-b00t-x", None),
        ("play_stopped", 9, "", None),
    ]
    rows = spark.createDataFrame(cases, "kind string, seq bigint, view_id string, expected bigint")
    found = rows.select(identity.view_seq(F.col("kind"), F.col("seq"), F.col("view_id")), "expected").collect()
    assert [row[0] for row in found] == [row[1] for row in found]


def test_boots_of_two_servers_differ_however_their_names_are_joined(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a-b", "c"), ("a", "b-c")], "server_id string, boot_id string")
    keys = {row[0] for row in rows.select(identity.boot_key(F.col("server_id"), F.col("boot_id"))).collect()}
    assert len(keys) == 2
