"""Facts of a server that is asked for too much: what is left out, and how that is told."""

import socket
import time
from pathlib import Path

from penstock.protocol.events import StreamCreated, StreamRefused
from penstock.serve.settings import FileModes
from penstock.serve.telemetry.address_quota import AddressQuota, QuotaLimits
from penstock.serve.telemetry.facts_folder import FactsFolder
from tests.serve.live_server import key_frame, settings_without_grace, wait_until
from tests.serve.telemetry.telling_server import Told, telling
from tests.support.rtmp_driver import LOOPBACK, RtmpClient, rtmp_client


def test_landed_files_that_were_given_up_are_told_once(tmp_path: Path) -> None:
    with telling() as told:
        (old := tmp_path / "date=2026-11-15" / "hour=12").mkdir(parents=True)
        for number in range(3):
            (old / f"edge-1-b1-{number}.jsonl").write_bytes(bytes(1000))
        folder = FactsFolder(tmp_path, FileModes(), max_total_bytes=1500)
        told.writer._folder = folder
        folder.tidy_up()
        for _ in range(2):
            told.live.ask(lambda: told.observer.second_passed(time.monotonic()))
        (hit,) = told.of("limit_hit")
    assert (hit["limit"], hit["hits"]) == ("landed facts", 2)
    assert hit["detail"] == "2000 bytes deleted since the start, the oldest first"


def begin_anew(client: RtmpClient) -> None:
    client.end()
    client.session.create_stream()
    client.stream_id = client.wait_for(StreamCreated).stream_id


def held_back(told: Told) -> int:
    told.live.ask(lambda: told.observer.second_passed(time.monotonic()))
    return sum(fact["hits"] for fact in told.of("limit_hit") if fact["limit"] == "facts per address")


def names(told: Told, kind: str, name: str = "event_id") -> list[str]:
    return [fact[name] for fact in told.of(kind)]


def test_one_address_has_so_many_facts_and_what_was_told_to_begin_is_told_to_its_end() -> None:
    quota = AddressQuota(QuotaLimits(per_s=0.0, burst=10.0, exempts_loopback=False))
    with telling(settings_without_grace(), quota=quota) as told:
        with rtmp_client(told.port) as publisher:
            publisher.publish("test")
            publisher.send([key_frame(0)])
            with rtmp_client(told.port) as first_viewer, rtmp_client(told.port) as late_viewer:
                first_viewer.play("test")
                told.wait_for("play_first_keyframe")
                for number in range(20):
                    with rtmp_client(told.port) as passer_by:
                        passer_by.publish(f"other {number}")
                late_viewer.play("test")
                begin_anew(late_viewer)
                begin_anew(first_viewer)
            begin_anew(publisher)
        wait_until(lambda: told.live.ask(lambda: not told.live.server.broker.connections))
        # Before the passers-by there are five beginnings; with them, and with one view after them, 46.
        wait_until(lambda: held_back(told) == 46 - 10)
        opened, closed = (names(told, kind, "conn_id") for kind in ("connection_opened", "connection_closed"))
        assert (len(opened), sorted(opened)) == (6, sorted(closed))
        publications = names(told, "publish_started")
        assert (len(publications), set(publications)) == (3, set(names(told, "publish_stopped", "publication_id")))
        assert len(names(told, "play_started")) == 1
        assert names(told, "play_started") == names(told, "play_stopped", "view_id")


def test_a_view_that_is_not_told_of_has_no_samples_and_counts_in_those_of_its_stream() -> None:
    quota = AddressQuota(QuotaLimits(per_s=0.0, burst=3.0, exempts_loopback=False))
    with telling(settings_without_grace(), quota=quota, sample_s=0.2) as told:
        with rtmp_client(told.port) as publisher:
            publisher.publish("test")
            publisher.send([key_frame(0, 50_000)])
            with rtmp_client(told.port) as viewer:
                viewer.play("test")
                wait_until(lambda: told.of("stream_sample") and told.of("stream_sample")[-1]["viewers_sent_bytes"])
                sample = told.of("stream_sample")[-1]
                (connection,) = told.of("connection_opened")[1:]
            closed, *_ = told.wait_for("connection_closed")
        assert {fact["kind"] for fact in told.all() if "view_id" in fact} == set()
    assert (sample["viewers"], sample["viewers_sent_bytes"] > 50_000, sample["viewers_watched_us"] > 0) == (
        1,
        True,
        True,
    )
    assert closed["conn_id"] == connection["conn_id"]
    assert closed["sent_bytes"] > 50_000


def test_of_those_who_wait_in_vain_so_many_are_told() -> None:
    quota = AddressQuota(QuotaLimits(per_s=0.0, burst=4.0, exempts_loopback=False))
    with telling(settings_without_grace(), quota=quota) as told, rtmp_client(told.port) as viewer:
        for _ in range(10):
            viewer.session.play(viewer.stream_id, "nothing")
            viewer.wait_for(StreamRefused)
        wait_until(lambda: held_back(told) == 7)
        assert names(told, "play_stopped", "view_id") == [None] * 3


def test_a_violation_is_told_of_connections_that_are_told_of() -> None:
    quota = AddressQuota(QuotaLimits(per_s=0.0, burst=1.0, exempts_loopback=False))
    with telling(quota=quota) as told:
        for _ in range(3):
            with socket.create_connection((LOOPBACK, told.port)) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\n\r\n".ljust(1537, b"\0"))
                assert connection.recv(1) == b""
        wait_until(lambda: held_back(told) == 2)
        kinds = [fact["kind"] for fact in told.all()]
    assert [kind for kind in kinds if kind != "limit_hit"] == [
        "connection_opened",
        "protocol_violation",
        "connection_closed",
    ]
