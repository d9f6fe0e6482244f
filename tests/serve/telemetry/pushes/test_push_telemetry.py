"""What is told of pushes: facts that name each other, the values that web shows, figures."""

from collections.abc import Callable
from typing import cast

import msgspec

from penstock.control.live import LivePushes
from penstock.facts import Fact
from penstock.serve.links.web_link import WebLink
from penstock.serve.telemetry.facts_writer import FactClock, FactsWriter
from penstock.serve.telemetry.pushes.push_facts import PushFacts
from penstock.serve.telemetry.pushes.push_feed import PushFeed
from tests.relay.support import key, video_setup
from tests.serve.pushing.push_stage import PushStage, target


class FakeWriter:
    """Keeps facts, and numbers them."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.clock = FactClock()

    def emit(self, fact: Fact) -> str:
        self.facts.append(fact)
        return f"fact-{len(self.facts)}"


class FakeWeb:
    def __init__(self) -> None:
        self.on_linked: list[Callable[[], None]] = []
        self.is_open = True
        self.is_congested = False
        self.told: list[LivePushes] = []

    def send(self, message: LivePushes) -> bool:
        self.told.append(message)
        return True


def test_facts_tell_a_push_from_its_beginning_to_its_end() -> None:
    writer = FakeWriter()
    on = PushStage(target(key="k-1", url="rtmp://b/{app}/{stream}?key={key}"))
    on.listeners.append(PushFacts(cast("FactsWriter", writer)))
    on.publish()
    on.on.send(video_setup(), key(0, b"k0"))
    on.dialled[0].fail("no connection: Connection refused")
    on.loop.advance(2)
    on.dialled[1].take()
    on.pusher.stream_closed(on.on.stream)
    told = [(fact.kind, vars(fact).get("state"), vars(fact).get("attempts")) for fact in writer.facts]
    assert told == [
        ("push_started", None, None),
        ("push_state", "connecting", 1),
        ("push_state", "retrying", 1),
        ("push_state", "connecting", 2),
        ("push_state", "live", 2),
        ("push_stopped", None, 2),
    ]
    assert {vars(fact).get("push_id") for fact in writer.facts[1:]} == {"fact-1"}
    assert vars(writer.facts[0])["address"] == "rtmp://b/{app}/{stream}"
    assert vars(writer.facts[-1])["sent_bytes"] > 0
    assert "k-1" not in str(writer.facts)


def test_web_is_told_soon_and_then_every_two_seconds_while_there_are_some() -> None:
    on, web = PushStage(target()), FakeWeb()
    feed = PushFeed(cast("WebLink", web), on.loop, lambda: 5)
    feed.pushes = lambda: on.pusher.pushes
    on.listeners.append(feed)
    on.publish()
    on.on.send(video_setup(), key(0, b"k0"))
    on.dialled[0].take()
    on.loop.advance(0.06)
    (push,) = web.told[-1].pushes
    assert (push.target, push.app, push.stream, push.state, push.lag_ms) == ("b", "live", "a", "live", 0)
    assert push.started_at_us == 1_000_000_000 + 5
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(web.told[-1]), type=LivePushes) == web.told[-1]
    before = len(web.told)
    on.loop.advance(4)
    assert len(web.told) == before + 2
    on.pusher.stream_closed(on.on.stream)
    on.loop.advance(10)
    assert web.told[-1].pushes == []
    assert len(web.told) == before + 3


def test_a_web_process_that_is_away_is_told_when_it_is_back() -> None:
    on, web = PushStage(target()), FakeWeb()
    feed = PushFeed(cast("WebLink", web), on.loop, lambda: 0)
    feed.pushes = lambda: on.pusher.pushes
    on.listeners.append(feed)
    web.is_open = False
    on.publish()
    on.loop.advance(10)
    assert web.told == []
    web.is_open = True
    web.on_linked[0]()
    on.loop.advance(0.06)
    assert [push.state for push in web.told[0].pushes] == ["connecting"]


def test_figures_count_what_is_live_what_fails_and_what_was_sent() -> None:
    on, web = PushStage(target("one"), target("two")), FakeWeb()
    feed = PushFeed(cast("WebLink", web), on.loop, lambda: 0)
    feed.pushes = lambda: on.pusher.pushes
    on.listeners.append(feed)
    on.publish()
    on.on.send(video_setup(), key(0, b"k0"))
    on.dialled[0].take()
    on.dialled[1].fail("no connection")
    assert (feed.live, feed.failing, feed.failures) == (1, 1, 1)
    sent_bytes = feed.sent_bytes
    on.pusher.stream_closed(on.on.stream)
    assert (feed.live, feed.failing, feed.failures) == (0, 0, 1)
    assert feed.sent_bytes == sent_bytes > 0
