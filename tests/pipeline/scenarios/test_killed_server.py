"""What the tables say of a boot that could not say good-bye, and of the one after it."""

from datetime import UTC, datetime, timedelta

from penstock.pipeline.lake.tables import SERVER_LOST
from tests.pipeline.scenarios.night import LOST_AT_MOST_S, LOST_OF_VIEW_AT_MOST_S, STREAM, VIEWERS, Night
from tests.pipeline.scenarios.stage import facts_of, hidden, rows
from tests.support.raw_media import numbers
from tests.support.raw_rtmp import DATA, RawMessage
from tests.support.samples import flv_samples


def test_what_a_crash_left_has_landed(night: Night) -> None:
    assert hidden(night.data) == []


def test_views_of_a_lost_server_end_with_their_last_sample(night: Night) -> None:
    last_told_us: dict[str, int] = {}
    for fact in facts_of(night.data, "viewer_sample"):
        last_told_us[fact["view_id"]] = max(fact["at_us"], last_told_us.get(fact["view_id"], 0))
    views = night.of_boot(1, "silver.views")
    assert len(views) == VIEWERS
    for view in views:
        assert (view["is_open"], view["end_reason"], view["is_estimated"]) == (False, SERVER_LOST, True)
        assert view["ended_at"] == datetime.fromtimestamp(0, UTC) + timedelta(
            microseconds=last_told_us[view["view_id"]]
        )


def test_a_view_of_a_lost_server_has_at_least_what_the_viewer_had_got_before_its_last_sample(night: Night) -> None:
    for view, viewer in night.cut_off_views():
        certain = viewer.received_bytes_by(night.killed_at - LOST_OF_VIEW_AT_MOST_S)
        assert 0 < certain <= view["bytes_sent"] <= viewer.received_bytes


def test_a_lost_server_received_at_least_what_was_sent_before_its_last_flush(night: Night) -> None:
    (publication,) = night.of_boot(1, "silver.publications")
    assert (publication["end_reason"], publication["is_estimated"]) == (SERVER_LOST, True)
    certain = night.broadcast.sent_bytes_by(night.killed_at - LOST_AT_MOST_S)
    assert 0 < certain <= publication["received_bytes"] <= night.broadcast.sent_bytes_by(night.killed_at)


def test_the_boot_after_is_counted_to_the_end(night: Night) -> None:
    (view,) = night.of_boot(2, "silver.views")
    assert (view["is_open"], view["is_estimated"]) == (False, False)
    assert view["bytes_sent"] == night.after.received_bytes


def test_usage_is_the_sum_of_both_and_marked_as_an_estimate(night: Night) -> None:
    usage, publications = (
        [row for row in rows(night.data, table) if row["stream"] == STREAM]
        for table in ("gold.usage", "silver.publications")
    )
    assert sum(row["ingress_bytes"] for row in usage) == sum(row["received_bytes"] for row in publications)
    assert any(row["is_estimated"] for row in usage)


def test_usage_of_a_lost_server_is_short_by_one_flush_and_one_sample_of_the_stream_at_most(night: Night) -> None:
    usage = [row for row in rows(night.data, "gold.usage") if row["stream"] == STREAM]
    (after,) = night.of_boot(2, "silver.views")
    sent_bytes = sum(row["egress_bytes"] for row in usage) - after["bytes_sent"]
    certain_until = night.killed_at - LOST_AT_MOST_S
    certain_bytes = sum(viewer.received_bytes_by(certain_until) for viewer in night.cut_off)
    assert certain_bytes <= sent_bytes <= sum(viewer.received_bytes for viewer in night.cut_off)
    watched_s = (sum(row["watched_us"] for row in usage) - after["watched_us"]) / 1e6
    certain_s = sum(certain_until - (viewer.first_key_at or certain_until) for viewer in night.cut_off)
    assert certain_s <= watched_s <= sum(night.killed_at - viewer.asked_at for viewer in night.cut_off)


def test_the_recording_that_was_cut_off_is_repaired_and_whole(night: Night) -> None:
    segments = sorted(rows(night.data, "gold.recordings"), key=lambda row: row["started_at"])
    assert [row["status"] for row in segments] == ["repaired", "closed"]
    recorded = [each for each in flv_samples(night.data / "recordings" / segments[0]["path"]) if each.type_id != DATA]
    assert numbers([RawMessage(each.type_id, 0, 0, each.payload) for each in recorded])[0] == 0
    assert segments[0]["duration_ms"] == recorded[-1].timestamp_ms
