"""The arithmetic of what requests cost viewers."""

from typing import Any

from bench.api import Figures, faults_of, ratio

PLAYED: dict[str, Any] = {"corrupt_messages": 0, "protocol_errors": 0, "dropped": 0}


def turn(p99_ms: float, *, with_requests: bool = False) -> Figures:
    return Figures(
        with_requests=with_requests,
        p50_ms=1.0,
        p99_ms=p99_ms,
        delivered=1.0,
        server_share=0.5,
        web_share=0.1,
        web_pss_mb=50.0,
        others_share=0.0,
    )


def test_a_ratio_is_taken_within_each_round() -> None:
    rounds = [(turn(10.0), turn(11.0)), (turn(40.0), turn(40.0)), (turn(20.0), turn(60.0))]
    assert ratio(rounds) == 1.1


def test_a_failed_request_or_a_wrong_byte_makes_figures_worthless() -> None:
    assert faults_of(PLAYED, 0) == ()
    assert faults_of({**PLAYED, "corrupt_messages": 1}, 0) == ("1 corrupt messages",)
    assert faults_of({**PLAYED, "dropped": 2}, 3) == ("2 dropped", "3 requests failed")
