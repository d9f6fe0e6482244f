"""A worker's link to web: over real socket pairs, with web gone and back."""

import socket
from collections.abc import Iterator

import msgspec
import pytest

from penstock.control.live import AccessAnswer, AccessQuestion, Kick, WorkerToWeb
from penstock.serve.links.link import Link
from penstock.serve.links.web_link import WebLink
from penstock.serve.reactor import Reactor

QUESTION = AccessQuestion(
    request=1,
    action="publish",
    app="live",
    stream="a",
    protocol="rtmp",
    peer_addr="192.0.2.1:4000",
    app_query="",
    stream_query="",
    user=None,
    is_held=False,
)
ANSWER = AccessAnswer(1, is_allowed=True, has_credentials=True, rule="jwt")


class Stage:
    """A worker's end, and a web process that can be killed."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.reactor = Reactor(self.errors.append)
        self.web_link = WebLink(self.reactor)
        self.heard_by_web: list[WorkerToWeb] = []

    def start_web(self) -> Link[WorkerToWeb]:
        near, far = socket.socketpair()
        decoder: msgspec.msgpack.Decoder[WorkerToWeb] = msgspec.msgpack.Decoder(WorkerToWeb)
        web: Link[WorkerToWeb] = Link(
            self.reactor, far, decoder, lambda message, _: self.heard_by_web.append(message), lambda: None
        )
        self.web_link.take(near)
        return web

    def run(self) -> None:
        self.reactor.call_later(0.05, self.reactor.stop)
        self.reactor.run()
        assert not self.errors


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.web_link.close()
    stage.reactor.close()


def test_a_question_reaches_web_and_the_answer_whoever_asked(stage: Stage) -> None:
    answers: list[AccessAnswer] = []
    stage.web_link.handle(AccessAnswer, answers.append)
    web = stage.start_web()
    assert stage.web_link.send(QUESTION)
    web.send(ANSWER)
    web.send(Kick(conn_id="c1", view_id=None))
    stage.run()
    assert stage.heard_by_web == [QUESTION]
    assert answers == [ANSWER]
    web.close()


def test_without_web_nothing_is_sent_and_everything_should_wait(stage: Stage) -> None:
    assert not stage.web_link.send(QUESTION)
    assert stage.web_link.is_congested
    web = stage.start_web()
    assert not stage.web_link.is_congested
    web.close()
    stage.run()
    assert not stage.web_link.is_open
    assert not stage.web_link.send(QUESTION)


def test_each_new_web_process_is_told_of_to_who_wants_to_know(stage: Stage) -> None:
    def ask_again() -> None:
        stage.web_link.send(QUESTION)

    stage.web_link.on_linked.append(ask_again)
    first = stage.start_web()
    stage.run()
    first.close()
    second = stage.start_web()
    stage.run()
    assert stage.heard_by_web == [QUESTION, QUESTION]
    second.close()
