"""Where addresses are, by databases that MaxMind's own reader finds well-formed."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import maxminddb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.errors import PipelineError
from penstock.pipeline.ingest.places import places_of
from penstock.pipeline.lake.dimensions import Dimensions
from tests.pipeline.landing_place import Place, fact
from tests.support.mmdb_writer import write_database

COUNTRIES: dict[str, dict[str, Any]] = {
    "203.0.113.0/24": {"country": {"iso_code": "DE", "names": {"en": "Germany"}}, "continent": {"code": "EU"}},
    "198.51.100.0/25": {"registered_country": {"iso_code": "FR"}},
    "198.51.100.128/25": {"country": {"geoname_id": 1}},
    "2001:db8:1::/48": {"country": {"iso_code": "NL"}},
}
SYSTEMS: dict[str, dict[str, Any]] = {
    "203.0.113.0/24": {"autonomous_system_number": 64_500, "autonomous_system_organization": "x" * 40},
    "2001:db8::/32": {"autonomous_system_number": 4_200_000_000},
}


@pytest.fixture
def dimensions(tmp_path: Path) -> Dimensions:
    country_db = write_database(tmp_path / "country.mmdb", COUNTRIES)
    asn_db = write_database(tmp_path / "asn.mmdb", SYSTEMS)
    return Dimensions(country_db=str(country_db), asn_db=str(asn_db))


@pytest.mark.parametrize("mode", [maxminddb.MODE_AUTO, maxminddb.MODE_MMAP])
@pytest.mark.parametrize("networks", [COUNTRIES, SYSTEMS])
def test_what_is_written_is_what_the_reader_of_maxmind_reads(
    networks: dict[str, dict[str, Any]], mode: int, tmp_path: Path
) -> None:
    path = write_database(tmp_path / "any.mmdb", networks, "GeoLite2-Any")
    with maxminddb.open_database(path, mode) as reader:
        assert reader.metadata().database_type == "GeoLite2-Any"
        assert sorted(repr(record) for _, record in reader) == sorted(map(repr, networks.values()))
        for network, record in networks.items():
            found, length = reader.get_with_prefix_len(network.partition("/")[0])
            assert (found, f"/{length}") == (record, network[-3:])
        assert reader.get("192.0.2.1") is None


def found(ips: Sequence[str | None], dimensions: Dimensions) -> list[tuple[str | None, int | None]]:
    places = places_of(pa.array(ips, pa.string()), dimensions).to_pylist()
    return [(place["country"], place["asn"]) for place in places]


def test_addresses_are_found_by_both_databases_and_others_are_null(dimensions: Dimensions) -> None:
    wanted = {
        "203.0.113.7": ("DE", 64_500),
        "198.51.100.7": ("FR", None),
        "198.51.100.200": (None, None),
        "2001:db8:1::9": ("NL", 4_200_000_000),
        "2001:db8:2::9": (None, 4_200_000_000),
        "192.0.2.1": (None, None),
        "no address": (None, None),
        None: (None, None),
    }
    assert found(list(wanted), dimensions) == list(wanted.values())


def test_a_database_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "country.mmdb"
    seen = []
    for code in ("DE", "FR"):
        new = write_database(tmp_path / "new", {"203.0.113.0/24": {"country": {"iso_code": code}}})
        os.replace(new, path)
        seen += found(["203.0.113.7"], Dimensions(country_db=str(path)))
    assert seen == [("DE", None), ("FR", None)]


@pytest.mark.parametrize(("data", "reason"), [(None, "No such file"), (b"no database", "MaxMind's format")])
def test_a_file_that_is_no_database_is_said_in_one_line(data: bytes | None, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "asn.mmdb"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(PipelineError, match=reason) as caught:
        places_of(pa.array(["203.0.113.7"]), Dimensions(asn_db=str(path)))
    assert str(caught.value).startswith(f"pipeline.dimensions.asn_db: {path} cannot be read: ")


def test_a_database_that_is_damaged_somewhere_is_said_in_one_line(tmp_path: Path) -> None:
    path = write_database(tmp_path / "asn.mmdb", SYSTEMS)
    whole = path.read_bytes()
    # The first node leads nowhere.
    path.write_bytes(b"\xff" * 6 + whole[6:])
    with pytest.raises(PipelineError, match=r"asn\.mmdb cannot be read: no database in MaxMind's format"):
        found(["203.0.113.7"], Dimensions(asn_db=str(path)))


def test_a_number_that_no_system_has_is_none(tmp_path: Path) -> None:
    numbers = {"203.0.113.0/24": {"autonomous_system_number": 2**63}}
    path = write_database(tmp_path / "asn.mmdb", numbers)
    assert found(["203.0.113.7"], Dimensions(asn_db=str(path))) == [(None, None)]


def test_facts_of_viewers_and_publishers_are_placed_when_they_are_taken_in(
    spark: SparkSession, dimensions: Dimensions, tmp_path: Path
) -> None:
    place = Place(tmp_path / "data", spark)
    place.land(
        "edge-1-b1-1.jsonl",
        fact(1, "play_started", dimensions='{"campaign":"spring"}'),
        fact(2, "play_stopped", view_id=None, peer_addr="2001:db8:1::9:5000"),
        fact(3, "connection_closed"),
    )
    assert place.ingest(dimensions=dimensions).quarantined == 0
    columns = ("country", "asn", "dimensions")
    assert place.rows("play_started", *columns) == [("DE", 64_500, '{"campaign":"spring"}')]
    assert place.rows("play_stopped", *columns) == [("NL", 4_200_000_000, None)]
    assert place.rows("connection_closed", "country", "asn") == [(None, None)]
