"""From the parameter of a URL that a real server was asked for to the tables that are broken down by it."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.pipeline.lake.dimensions import Dimensions
from tests.pipeline.landing_place import NOON_US, SECOND_US, Place
from tests.pipeline.scenarios_lake.runs import DataFolder
from tests.serve.live_server import AVC_SETUP, key_frame, settings_without_grace
from tests.serve.telemetry.telling_server import telling
from tests.support.mmdb_writer import write_database
from tests.support.rtmp_driver import rtmp_client

CAMPAIGNS = ["spring", "spring", "fall", "winter"]


def facts_of_a_server() -> list[dict[str, Any]]:
    """One publishes, and one after the other watches who was sent by a campaign, and one who was not."""
    settings = replace(settings_without_grace(), dimension_parameters=("campaign",))
    with telling(settings, sample_s=0.1) as told:
        with rtmp_client(told.port) as publisher:
            publisher.publish("test?campaign=studio&key=s3cret")
            publisher.send([AVC_SETUP, key_frame(0)])
            for number, query in enumerate([*(f"?campaign={each}&token=s3cret" for each in CAMPAIGNS), ""], start=1):
                with rtmp_client(told.port) as viewer:
                    viewer.play(f"test{query}")
                    told.wait_for("play_first_keyframe", number)
                told.wait_for("play_stopped", number)
            told.wait_for("stream_sample", 3)
        told.wait_for("publish_stopped")
        facts = told.all()
    # At noon, since what happens over the end of an hour has rows in both.
    later_us = facts[0]["at_us"] - NOON_US
    return [fact | {"at_us": fact["at_us"] - later_us} for fact in facts]


def sums(rows: list[dict[str, Any]], key: str, *amounts: str) -> dict[Any, Counter[str]]:
    found: dict[Any, Counter[str]] = {}
    for row in rows:
        found.setdefault(row[key], Counter()).update({name: row[name] for name in amounts})
    return found


def test_parameters_of_urls_and_places_of_addresses_are_in_views_audience_quality_and_usage(
    tmp_path: Path, spark: SparkSession
) -> None:
    place, data = Place(tmp_path, spark), DataFolder(tmp_path, spark)
    country_db = write_database(tmp_path / "country.mmdb", {"127.0.0.0/8": {"country": {"iso_code": "XX"}}})
    data.settings = replace(
        data.settings, dimensions=Dimensions(("campaign",), country_db=str(country_db), max_values=2)
    )
    facts = facts_of_a_server()
    now_us = NOON_US + 60 * SECOND_US
    middle = len(facts) // 2
    for number, lines in enumerate((facts[:middle], facts[middle:]), start=1):
        path = place.land(f"edge-1-b0a7-{number}.jsonl", *lines, at_us=now_us)
        data.cycles(now_us + number * SECOND_US).run_cycle()
        assert b"s3cret" not in path.read_bytes()

    views = data.rows("silver.views")
    told = ['{"campaign":"fall"}', *['{"campaign":"spring"}'] * 2, '{"campaign":"winter"}', None]
    assert sorted((row["dimensions"] for row in views), key=lambda each: each or "~") == told
    assert {(row["country"], row["asn"]) for row in views} == {("XX", None)}
    (publication,) = data.rows("silver.publications")
    assert (publication["dimensions"], publication["country"]) == ('{"campaign":"studio"}', "XX")

    # By how many began; fall comes first by name of those with one.
    quality = [row for row in data.rows("gold.view_quality") if row["dimension"] in ("campaign", "country")]
    begun = Counter({(row["dimension"], row["value"]): row["views"] for row in quality})
    assert begun == {("campaign", "spring"): 2, ("campaign", "fall"): 1, ("campaign", "other"): 2, ("country", "XX"): 5}

    amounts = ("joins", "leaves", "watched_us", "egress_bytes")
    by_minute = data.rows("gold.audience_dimensions")
    (audience,) = sums([row | {"all": 1} for row in data.rows("gold.audience")], "all", *amounts).values()
    assert audience["joins"] == audience["leaves"] == 5
    named = ("campaign", "country", "auth_subject")
    assert sums(by_minute, "dimension", *amounts) == dict.fromkeys(named, audience)
    assert sums(by_minute, "value", "joins")["spring"] == {"joins": 2}

    used = ("ingress_bytes", "egress_bytes", "watched_us")
    by_day = data.rows("gold.usage_dimensions")
    (usage,) = sums([row | {"all": 1} for row in data.rows("gold.usage")], "all", *used).values()
    assert sums(by_day, "dimension", *used) == dict.fromkeys(named, usage)
    assert usage["ingress_bytes"] == 1000 + len(AVC_SETUP.payload)
