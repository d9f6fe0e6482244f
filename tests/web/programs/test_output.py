"""What programs print."""

from penstock.web.programs.output import Lines


def lines_of(*pieces: bytes, seconds: list[float] | None = None) -> list[tuple[str, int]]:
    told: list[tuple[str, int]] = []
    times = iter(seconds or [0.0] * 1000)
    lines = Lines(lambda text, left_out: told.append((text, left_out)), lambda: next(times))
    for piece in pieces:
        lines.data_received(piece)
    lines.connection_lost(None)
    return told


def test_lines_are_told_however_they_are_cut() -> None:
    assert lines_of(b"one\ntw", b"o\n\nthree") == [("one", 0), ("two", 0), ("three", 0)]


def test_of_a_line_that_is_written_over_the_last_state_is_told() -> None:
    assert lines_of(b"frame=1\rframe=2\r\n") == [("frame=2", 0)]


def test_a_line_without_end_is_cut() -> None:
    assert [len(text) for text, _ in lines_of(b"x" * 2000)] == [1024]


def test_too_many_in_a_second_are_left_out_and_counted() -> None:
    told = lines_of(b"x\n" * 80, b"later\n", seconds=[0.5] * 80 + [1.5])
    assert (len(told), told[49], told[50]) == (51, ("x", 0), ("later", 30))


def test_bytes_that_are_no_text_are_told_as_far_as_they_are() -> None:
    assert lines_of(b"\xff\xfea\n") == [("��a", 0)]
