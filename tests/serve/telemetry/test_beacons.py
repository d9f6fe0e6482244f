"""What players tell of their views becomes facts; which view it is only a token says."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock import facts
from penstock.control.live import ViewBeacon
from penstock.serve.streams.viewer import Viewer
from penstock.serve.telemetry.beacons import AFTER_END_S, MAX_ENDED, Beacons
from penstock.serve.telemetry.facts_observer import FactsObserver
from penstock.serve.telemetry.facts_writer import FactsWriter
from penstock.serve.telemetry.told_sessions import LetIn
from tests.serve.live_server import key_frame, settings_without_grace, wait_until
from tests.serve.telemetry.telling_server import telling
from tests.support.rtmp_driver import rtmp_client

SECOND = 1_000_000


class Stage:
    """Beacons beside facts that name views; the clock stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.names: dict[Viewer, str] = {}
        self.told: list[facts.ViewBeacon] = []
        writer = SimpleNamespace(emit=self.told.append, clock=SimpleNamespace(mono_us=lambda: round(self.now * SECOND)))
        self.beacons = Beacons(3, cast("FactsObserver", self), cast("FactsWriter", writer), lambda: self.now)

    def view_id_of(self, viewer: Viewer) -> str | None:
        return self.names.get(viewer)

    def let_in(self, viewer: Viewer) -> LetIn | None:
        return LetIn(1000 * SECOND) if viewer in self.names else None

    def view(self, name: str | None) -> Viewer:
        connection = SimpleNamespace(app="live")
        viewer = cast("Viewer", _Viewer(connection=connection, key="live/cup/final"))
        if name is not None:
            self.names[viewer] = name
        return viewer

    def end(self, viewer: Viewer) -> None:
        self.beacons.play_stopped(viewer, "left")
        self.names.pop(viewer, None)

    @property
    def counted(self) -> tuple[int, int, int]:
        return self.beacons.told, self.beacons.unknown, self.beacons.limited


class _Viewer(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


def test_a_beacon_becomes_a_fact_about_the_view_of_its_token() -> None:
    on = Stage()
    token = on.beacons.token_of(on.view("edge-b-7"))
    on.now += 12.5
    on.beacons.take(ViewBeacon(token, 312, 10_000, 1, 840, None, 3))
    assert on.told == [
        facts.ViewBeacon(
            view_id="edge-b-7",
            app="live",
            stream="cup/final",
            watched_us=12_500_000,
            startup_ms=312,
            played_ms=10_000,
            stalls=1,
            stalled_ms=840,
            latency_ms=None,
            dropped_frames=3,
        )
    ]
    assert on.counted == (1, 0, 0)


def test_a_token_names_its_worker_and_is_drawn_by_chance() -> None:
    on = Stage()
    viewer = on.view("v")
    tokens = {on.beacons.token_of(viewer), on.beacons.token_of(viewer), on.beacons.token_of(on.view("w"))}
    assert len(tokens) == 2
    assert {(token.partition(".")[0], len(token)) for token in tokens} == {("3", 24)}


def test_a_token_may_be_told_before_there_is_a_viewer() -> None:
    on = Stage()
    token = on.beacons.draw()
    on.beacons.take(ViewBeacon(token))
    assert on.counted == (0, 1, 0)
    viewer = on.view("v")
    on.beacons.bind(token, viewer)
    assert on.beacons.token_of(viewer) == token
    on.beacons.take(ViewBeacon(token))
    assert on.counted == (1, 1, 0)


def test_a_token_that_nobody_was_told_is_counted() -> None:
    on = Stage()
    on.beacons.token_of(on.view("v"))
    on.beacons.take(ViewBeacon("3.AAAAAAAAAAAAAAAAAAAAAA"))
    assert (on.told, on.counted) == ([], (0, 1, 0))


def test_a_view_that_facts_do_not_tell_of_has_no_beacons() -> None:
    on = Stage()
    viewer = on.view(None)
    token = on.beacons.token_of(viewer)
    on.beacons.take(ViewBeacon(token))
    on.end(viewer)
    on.beacons.take(ViewBeacon(token))
    assert (on.told, on.counted) == ([], (0, 2, 0))


def test_one_view_may_tell_so_often() -> None:
    on = Stage()
    often, other = (on.beacons.token_of(on.view(name)) for name in ("a", "b"))
    for _ in range(10):
        on.beacons.take(ViewBeacon(often))
    on.beacons.take(ViewBeacon(other))
    assert on.counted == (4, 0, 7)
    on.now += 5
    on.beacons.take(ViewBeacon(often))
    assert on.counted == (5, 0, 7)


def test_the_last_beacon_may_come_after_the_end_but_not_long_after() -> None:
    on = Stage()
    viewer = on.view("v")
    token = on.beacons.token_of(viewer)
    on.end(viewer)
    on.now += AFTER_END_S - 1
    on.beacons.take(ViewBeacon(token))
    assert [fact.view_id for fact in on.told] == ["v"]
    on.now += 1
    on.beacons.take(ViewBeacon(token))
    assert on.counted == (1, 1, 0)


def test_views_that_are_over_are_forgotten_in_time_and_beyond_a_bound() -> None:
    on = Stage()
    tokens = []
    for each in range(MAX_ENDED + 1):
        viewer = on.view(f"v{each}")
        tokens.append(on.beacons.token_of(viewer))
        on.end(viewer)
    on.beacons.take(ViewBeacon(tokens[0]))
    on.beacons.take(ViewBeacon(tokens[1]))
    assert on.counted == (1, 1, 0)
    on.now += AFTER_END_S
    on.beacons.second_passed(0.0)
    assert (on.beacons._by_token, on.beacons._ended, on.beacons._tokens) == ({}, {}, {})


def test_the_end_of_a_view_without_a_token_costs_nothing() -> None:
    on = Stage()
    on.end(on.view("v"))
    assert on.beacons._ended == {}


@pytest.mark.parametrize("when", ["while it lasts", "after its end"])
def test_on_a_server_it_is_named_as_in_its_other_facts(when: str) -> None:
    with telling(settings_without_grace()) as told:
        with rtmp_client(told.port) as publisher, rtmp_client(told.port) as client:
            publisher.publish("test")
            client.play("test")
            publisher.send([key_frame(0)])
            told.wait_for("play_first_keyframe")
            (viewer,) = told.observer._views
            token = told.beacons.token_of(viewer)
            if when == "while it lasts":
                told.beacons.take(ViewBeacon(token, startup_ms=50))
        told.wait_for("play_stopped")
        wait_until(lambda: token in told.beacons._ended)
        if when == "after its end":
            told.beacons.take(ViewBeacon(token, startup_ms=50))
        (beacon,), (played,) = told.of("view_beacon"), told.of("play_started")
    expected: dict[str, Any] = {"view_id": played["event_id"], "app": "live", "stream": "test", "startup_ms": 50}
    assert {name: beacon[name] for name in expected} == expected
    assert beacon["stalls"] is None
    assert beacon["watched_us"] > 0
