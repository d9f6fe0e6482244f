"""How often recordings may begin."""

from penstock.serve.recording.file_allowance import FileAllowance

OF_STREAM = "the stream began more than 6 recordings in 60 s"
IN_ALL = "more than 600 recordings began in a short time"


def test_a_stream_may_begin_six_recordings_and_one_more_every_ten_seconds() -> None:
    allowance = FileAllowance()
    assert [allowance.refusal("live/a", 100.0) for _ in range(8)] == [None] * 6 + [OF_STREAM] * 2
    assert allowance.refusal("live/a", 109.9) == OF_STREAM
    assert [allowance.refusal("live/a", 110.0) for _ in range(2)] == [None, OF_STREAM]
    assert [allowance.refusal("live/a", 1000.0) for _ in range(7)] == [None] * 6 + [OF_STREAM]


def test_one_stream_costs_another_nothing() -> None:
    allowance = FileAllowance()
    for _ in range(100):
        allowance.refusal("live/a", 100.0)
    assert allowance.refusal("live/b", 100.0) is None


def test_all_streams_may_begin_600_recordings_and_two_more_a_second() -> None:
    allowance = FileAllowance()
    assert [allowance.refusal(f"live/{number}", 100.0) for number in range(602)] == [None] * 600 + [IN_ALL] * 2
    assert [allowance.refusal(f"live/{number}", 101.0) for number in range(3)] == [None, None, IN_ALL]


def test_streams_are_forgotten_when_their_allowance_is_whole_again() -> None:
    allowance = FileAllowance()
    for number in range(100_000):
        allowance.refusal(f"live/{number}", number * 0.5)
    assert len(allowance._stream_whole_at) <= 1001


def test_each_of_several_workers_has_its_share() -> None:
    allowance = FileAllowance(workers=3)
    of_stream = "the stream began more than 2 recordings in 60 s"
    assert [allowance.refusal("live/a", 100.0) for _ in range(3)] == [None, None, of_stream]
    assert [allowance.refusal("live/a", at) for at in (129.9, 130.0)] == [of_stream, None]
    in_all = "more than 200 recordings began in a short time"
    assert [allowance.refusal(f"live/{number}", 1000.0) for number in range(201)] == [None] * 200 + [in_all]


def test_a_publisher_may_come_back_once_however_many_workers_there_are() -> None:
    allowance = FileAllowance(workers=64)
    assert [allowance.refusal("live/a", 100.0) for _ in range(2)] == [None, None]
