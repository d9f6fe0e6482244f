"""The pipeline bench's arithmetic: medians of rounds, ratios of sums, and a table of them."""

from bench.duckdb_peer import Taken
from bench.pipeline_report import Comparison, Timed, comparison_table, summed


def timed(*wall_s: float) -> Timed:
    taken = [Taken(each, 2 * each) for each in wall_s]
    return Timed(taken[0], tuple(taken[1:]))


GAPS = Comparison("gaps", timed(9.0, 4.0, 6.0, 5.0), timed(3.0, 2.0, 2.0, 8.0))
USAGE = Comparison("usage", timed(2.0, 1.0, 1.0, 1.0), timed(1.0, 0.5, 0.5, 0.5))


def test_the_first_round_and_one_that_was_disturbed_do_not_count() -> None:
    assert GAPS.spark.median == Taken(5.0, 10.0)
    assert GAPS.duckdb.median == Taken(2.0, 4.0)


def test_a_sum_is_of_medians_and_its_ratio_is_that_of_the_sums() -> None:
    assert summed([GAPS, USAGE]) == (Taken(6.0, 12.0), Taken(2.5, 5.0))
    lines = comparison_table([GAPS, USAGE]).splitlines()
    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]] == [
        ["gaps", "5.00", "10.00", "2.00", "4.00", "2.50", "2.50", "9.00", "3.00"],
        ["usage", "1.00", "2.00", "0.50", "1.00", "2.00", "2.00", "2.00", "1.00"],
        ["sum", "6.00", "12.00", "2.50", "5.00", "2.40", "2.40", "", ""],
    ]


def test_one_row_has_no_sum() -> None:
    assert len(comparison_table([GAPS]).splitlines()) == 3
