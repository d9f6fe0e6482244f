"""Targets of the configuration and of the API, joined."""

from collections.abc import Iterable

from penstock.config import Config
from penstock.control.live import NewPush, Pushes
from penstock.serve.pushing.target import PushTarget
from penstock.serve.pushing.targets import Targets

CONFIG = Config.model_validate(
    {"push": [{"name": "yt", "streams": ["live/*"], "url": "rtmps://a.example/live2", "key": "env:YT_KEY"}]}
)


class Told:
    def __init__(self) -> None:
        self.targets: list[PushTarget] = []

    def configure(self, targets: Iterable[PushTarget]) -> None:
        self.targets = list(targets)

    @property
    def shown(self) -> list[str]:
        return [f"{each.name} {each.address.shown} {each.key}" for each in self.targets]


def test_both_are_in_force_and_the_configuration_wins_a_name() -> None:
    told = Told()
    targets = Targets(told.configure)
    targets.set_added(
        Pushes([NewPush("yt", ["*/*"], "rtmp://b/{app}/{stream}", None), NewPush("b", ["*/*"], "rtmp://b/live", "k-2")])
    )
    assert told.shown == ["yt rtmp://b/{app}/{stream} None", "b rtmp://b/live k-2"]
    targets.apply(CONFIG, {"YT_KEY": "k-1"})
    assert told.shown == ["yt rtmps://a.example/live2 k-1", "b rtmp://b/live k-2"]
    targets.set_added(Pushes([]))
    assert told.shown == ["yt rtmps://a.example/live2 k-1"]
    targets.apply(Config(), {})
    assert told.shown == []


def test_a_key_that_cannot_be_read_leaves_things_as_they_were() -> None:
    told = Told()
    targets = Targets(told.configure)
    targets.apply(CONFIG, {"YT_KEY": "k-1"})
    targets.apply(CONFIG, {})
    assert told.shown == ["yt rtmps://a.example/live2 k-1"]


def test_an_address_that_web_should_not_have_taken_is_left_out() -> None:
    told = Told()
    Targets(told.configure).set_added(Pushes([NewPush("b", ["*/*"], "http://b", None)]))
    assert told.shown == []


def test_a_target_shows_its_key_to_no_log() -> None:
    told = Told()
    Targets(told.configure).apply(CONFIG, {"YT_KEY": "hunter2"})
    assert "hunter2" not in repr(told.targets)
