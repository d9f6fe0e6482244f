"""Figures of workers, added up: counters never go back, whatever becomes of a worker."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from penstock.control.figures import ROUND_BOUNDS_S, Figures, FiguresSum

NO_ROUNDS = (0,) * (len(ROUND_BOUNDS_S) + 1)


def rounds(*counts: int) -> tuple[int, ...]:
    return (*counts, *NO_ROUNDS[len(counts) :])


def test_figures_come_out_of_a_message_as_they_went_in() -> None:
    figures = Figures(
        connections=3, busy_share=0.25, limits_hit={"connections": 2}, round_counts=rounds(1, 2), facts_written=7
    )
    carried = msgspec.msgpack.decode(msgspec.msgpack.encode(figures.to_plain()))
    assert Figures.of_plain(carried) == figures


def test_what_is_not_told_is_at_rest() -> None:
    assert Figures.of_plain({}) == Figures()


def test_without_workers_everything_is_at_rest() -> None:
    assert FiguresSum().total() == Figures()


def test_workers_are_added_up() -> None:
    total = FiguresSum()
    first = Figures(
        connections=3,
        sent_bytes=100,
        limits_hit={"a": 1, "b": 2},
        round_counts=rounds(1, 2),
        round_sum_s=0.5,
        flush_grid_s=0.05,
        busy_share=0.5,
    )
    second = Figures(
        connections=4,
        sent_bytes=50,
        limits_hit={"b": 3},
        round_counts=rounds(0, 5),
        round_sum_s=0.25,
        flush_grid_s=0.02,
        busy_share=0.75,
    )
    total.told(2, "b2", second)
    total.told(1, "b1", first)
    assert total.total() == Figures(
        connections=7,
        sent_bytes=150,
        limits_hit={"a": 1, "b": 5},
        round_counts=rounds(1, 7),
        round_sum_s=0.75,
        flush_grid_s=0.05,
        busy_share=0.75,
    )
    assert list(total.workers.items()) == [(1, first), (2, second)]


def test_what_a_worker_tells_replaces_what_it_told_before() -> None:
    total = FiguresSum()
    total.told(1, "b1", Figures(sent_bytes=10, connections=1))
    total.told(1, "b1", Figures(sent_bytes=30, connections=0))
    assert total.total() == Figures(sent_bytes=30)


def test_a_lost_worker_leaves_its_counters_and_nothing_else() -> None:
    total = FiguresSum()
    total.told(
        1,
        "b1",
        Figures(
            sent_bytes=10,
            connections=1,
            log_bytes=9,
            busy_share=0.5,
            flush_grid_s=0.1,
            round_counts=rounds(4),
            facts_pending_bytes=5,
            facts_written=6,
        ),
    )
    total.lost(1)
    assert total.total() == Figures(sent_bytes=10, round_counts=rounds(4), facts_written=6)
    assert total.workers == {}
    total.lost(1)
    assert total.total().sent_bytes == 10


def test_another_boot_in_the_place_of_a_worker_begins_on_top_of_it() -> None:
    total = FiguresSum()
    total.told(1, "b1", Figures(sent_bytes=10, viewers=5))
    total.told(1, "b2", Figures(sent_bytes=1, viewers=2))
    assert total.total() == Figures(sent_bytes=11, viewers=2)


def test_who_begins_later_goes_on_from_the_past_of_another() -> None:
    before, after = FiguresSum(), FiguresSum()
    before.told(1, "b1", Figures(sent_bytes=10, viewers=5, limits_hit={"a": 1}, follower_resumes=2))
    before.told(2, "b2", Figures(sent_bytes=7))
    before.lost(1)
    assert before.past == Figures(sent_bytes=10, limits_hit={"a": 1}, follower_resumes=2)
    after.past = before.past
    for worker, figures in before.workers.items():
        after.told(worker, "b2", figures)
    assert after.total() == before.total()
    after.lost(2)
    after.told(2, "b3", Figures(sent_bytes=1))
    assert after.total() == Figures(sent_bytes=18, limits_hit={"a": 1}, follower_resumes=2)


def test_a_part_that_runs_in_no_worker_has_no_figures() -> None:
    total = FiguresSum()
    total.told(1, "b1", Figures())
    total.told(2, "b2", Figures(recorder_backlog_bytes=0))
    assert (total.total().recorder_backlog_bytes, total.total().facts_written) == (0, None)


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from(["tells", "is lost", "begins anew"]), st.integers(0, 1000)),
        max_size=40,
    )
)
def test_a_total_never_goes_back(steps: list[tuple[int, str, int]]) -> None:
    total = FiguresSum()
    boots = dict.fromkeys((1, 2, 3), 0)
    counts = dict.fromkeys((1, 2, 3), 0)
    seen = 0
    counted = 0
    for worker, step, more in steps:
        if step == "is lost":
            total.lost(worker)
        if step != "tells":
            boots[worker] += 1
            counts[worker] = 0
        if step != "is lost":
            counts[worker] += more
            counted += more
            total.told(worker, f"b{worker}-{boots[worker]}", Figures(sent_bytes=counts[worker]))
        assert total.total().sent_bytes >= seen
        seen = total.total().sent_bytes
    assert seen == counted


def test_the_load_beside_a_worker_is_that_of_all_others_added_up() -> None:
    everything = FiguresSum()
    for worker, share in ((1, 0.25), (2, 0.5), (3, 0.75)):
        everything.told(worker, "b", Figures(busy_share=1.0, foreground_share=share))
    assert [everything.foreground_share_beside(worker) for worker in (1, 2, 3)] == [1.25, 1.0, 0.75]
    everything.lost(3)
    assert [everything.foreground_share_beside(worker) for worker in (1, 2)] == [0.5, 0.25]


def test_beside_a_worker_that_is_alone_there_is_no_load() -> None:
    alone = FiguresSum()
    alone.told(1, "b", Figures(foreground_share=0.75))
    assert alone.foreground_share_beside(1) == 0.0
