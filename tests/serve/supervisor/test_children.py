"""How soon a child is started again."""

from penstock.serve.supervisor.children import Backoff


def test_one_that_lived_for_long_is_back_at_once() -> None:
    backoff = Backoff()
    assert [backoff.delay_s(3600.0), backoff.delay_s(1.0), backoff.delay_s(5.0)] == [0.0, 0.0, 0.0]


def test_one_that_keeps_dying_within_seconds_is_waited_for_ever_longer() -> None:
    backoff = Backoff()
    assert [backoff.delay_s(0.1) for _ in range(8)] == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert [backoff.delay_s(60.0), backoff.delay_s(0.1), backoff.delay_s(0.1)] == [0.0, 0.0, 0.5]
    for _ in range(2000):
        assert backoff.delay_s(0.1) <= 10.0
