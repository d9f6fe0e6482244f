"""Which worker decodes, how often, and who waits: two workers in memory, and a decoder that waits."""

from http import HTTPStatus
from typing import cast

import pytest

from penstock.control.thumbnails import MAX_KEY_FRAME_BYTES
from penstock.serve.thumbnails.decoder import Decoder, Done, Read
from penstock.serve.thumbnails.key_frames import NO_KEY_FRAME, NO_VIDEO, KeyFrame
from penstock.serve.thumbnails.thumbnails import FRESH_S, KEPT_S, MAX_KEPT, SOON_S, Thumbnail, Thumbnails
from tests.serve.fake_peer import FakePeer, audio, video
from tests.serve.streams.two_workers import TwoWorkers
from tests.support.hostile_clients import VIDEO, message

SETUP = message(VIDEO, b"\x17\x00\x00\x00\x00" + b"avcC", csid=6, stream_id=1, time_ms=0)


class FakeDecoder:
    """Decodes when the test says so: the bytes of the frame are the picture."""

    def __init__(self) -> None:
        self.asked: list[tuple[Read, Done]] = []
        self.frames: list[KeyFrame | str] = []

    def ask(self, read: Read, done: Done) -> None:
        self.asked.append((read, done))

    def work(self, complaint: str = "") -> None:
        asked, self.asked = self.asked, []
        for read, done in asked:
            frame = read()
            self.frames.append(frame)
            if isinstance(frame, str):
                done({}, frame)
            else:
                done({} if complaint else dict.fromkeys((160, 320, 640), frame.body), complaint)


class Stage:
    """Two workers with thumbnails of each."""

    def __init__(self) -> None:
        self.both = TwoWorkers()
        self.loop = self.both.loop
        self.decoders = {number: FakeDecoder() for number in (1, 2)}
        self.thumbnails = {number: self._thumbnails(number) for number in (1, 2)}
        self.told: list[Thumbnail] = []

    def _thumbnails(self, number: int, *, has_decoder: bool = True) -> Thumbnails:
        broker = self.both.workers[number].broker
        return Thumbnails(
            self.loop,
            broker.streams,
            broker.registry,
            broker.peers.pictures,
            decoder=cast("Decoder", self.decoders[number]) if has_decoder else None,
            chunk_size=broker.settings.connection.chunk_size,
        )

    def ask(self, worker: int = 1, key: str = "live/a") -> Thumbnail | None:
        made = self.thumbnails[worker].ask(key, self.told.append)
        self.loop.settle()
        return made

    def work(self, worker: int = 1, complaint: str = "") -> None:
        self.decoders[worker].work(complaint)
        self.loop.settle()

    def publish(self, *messages: bytes) -> FakePeer:
        publisher = self.both.publisher(1)
        publisher.say(SETUP, *messages)
        self.loop.advance(1)
        return publisher

    @property
    def decoded(self) -> int:
        return sum(len(each.frames) for each in self.decoders.values())


KEY = video(0, b"first", is_key=True)


def test_the_newest_key_frame_is_decoded_with_its_configuration() -> None:
    on = Stage()
    on.publish(KEY, video(40, b"inter"), video(1000, b"second", is_key=True), video(1040, b"inter"))
    assert on.ask() is None
    on.work()
    (frame,) = on.decoders[1].frames
    assert isinstance(frame, KeyFrame)
    assert (frame.codec.name, frame.setup, frame.body) == ("AVC", b"avcC", b"second")
    (made,) = on.told
    assert (made.status, made.jpegs[640]) == (HTTPStatus.OK, b"second")


def test_all_who_ask_meanwhile_get_the_same_picture() -> None:
    on = Stage()
    on.publish(KEY)
    for _ in range(5):
        assert on.ask() is None
    on.work()
    assert on.decoded == 1
    assert len(on.told) == 5
    assert all(each is on.told[0] for each in on.told)


def test_a_picture_is_new_enough_for_some_seconds_and_the_same_frame_for_longer() -> None:
    on = Stage()
    publisher = on.publish(KEY)
    on.ask()
    on.work()
    publisher.say(video(2000, b"second", is_key=True))
    on.loop.advance(FRESH_S - 0.5)
    assert on.ask() is on.told[0]
    on.loop.advance(0.5)
    assert on.ask() is None
    on.work()
    assert [each.jpegs[160] for each in on.told] == [b"first", b"second"]
    on.loop.advance(FRESH_S)
    assert on.ask() is None
    assert on.decoded == 2
    assert (on.told[2].jpegs, on.told[2].etag) == (on.told[1].jpegs, on.told[1].etag)
    assert on.told[2].at > on.told[1].at


@pytest.mark.parametrize("watched", [False, True])
def test_the_worker_that_has_the_stream_decodes_it_for_the_others(watched: bool) -> None:
    on = Stage()
    on.publish(KEY)
    if watched:
        on.both.viewer(2)
    assert on.ask(2) is None
    assert on.ask(1) is None
    on.work()
    assert [len(on.decoders[worker].frames) for worker in (1, 2)] == [1, 0]
    here, there = sorted(on.told, key=lambda each: each.frame is None)
    assert (here.jpegs, here.etag, here.at) == (there.jpegs, there.etag, there.at)
    # It is kept in both, and no seat was taken for it.
    assert (on.ask(1), on.ask(2)) == (here, there)
    assert on.both.names.names._streams[b"live/a"].viewers_in_all == (1 if watched else 0)


def test_a_stream_that_is_not_there_is_asked_for_again_soon() -> None:
    on = Stage()
    for worker in (1, 2):
        assert on.ask(worker) is None
    assert [(each.status, each.complaint) for each in on.told] == [(404, "There is no such stream now.")] * 2
    assert on.ask() is on.told[0]
    on.publish(KEY)
    on.loop.advance(SOON_S)
    on.ask()
    on.work()
    assert on.told[-1].status is HTTPStatus.OK


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [((), NO_KEY_FRAME), ((video(0, b"inter"),), NO_KEY_FRAME), ((audio(0), audio(20)), NO_VIDEO)],
    ids=["nothing", "no key frame", "sound"],
)
def test_a_stream_without_a_key_frame_says_so_in_both_workers(messages: tuple[bytes, ...], complaint: str) -> None:
    on = Stage()
    publisher = on.both.publisher(1)
    if messages:
        publisher.say(*messages)
    on.loop.advance(2)
    for worker in (1, 2):
        assert on.ask(worker) is None
    assert [(each.status, each.complaint) for each in on.told] == [(404, complaint)] * 2
    assert on.decoded == 0


def test_a_frame_that_cannot_be_decoded_is_tried_once() -> None:
    on = Stage()
    on.publish(KEY)
    for worker in (1, 2):
        on.ask(worker)
    on.work(complaint="InvalidDataError: at 0x7f3a")
    assert [(each.status, each.complaint) for each in on.told] == [(503, "The key frame could not be decoded.")] * 2
    on.loop.advance(FRESH_S)
    on.ask()
    assert on.decoded == 1
    assert on.told[-1].status is HTTPStatus.SERVICE_UNAVAILABLE


def test_without_a_decoder_it_says_what_to_install() -> None:
    on = Stage()
    on.publish(KEY)
    on.thumbnails[1] = on._thumbnails(1, has_decoder=False)
    made = on.ask()
    assert made is not None
    assert (made.status, "penstock[web]" in made.complaint) == (501, True)


def test_a_worker_that_is_lost_meanwhile_is_not_waited_for() -> None:
    on = Stage()
    on.publish(KEY)
    assert on.ask(2) is None
    on.both.kill(1)
    assert [(each.status, each.complaint) for each in on.told] == [(503, "The worker that has the stream is gone.")]


def test_a_stream_that_was_dropped_while_it_waited_for_its_turn_costs_nothing() -> None:
    on = Stage()
    publisher = on.publish(KEY)
    on.ask()
    publisher.close_stream()
    publisher.reset()
    on.loop.advance(60)
    on.work()
    assert on.told[0].status is HTTPStatus.SERVICE_UNAVAILABLE
    assert on.decoders[1].frames == [NO_KEY_FRAME]


def test_what_nobody_asks_for_any_more_is_forgotten() -> None:
    on = Stage()
    on.publish(KEY)
    on.ask()
    on.work()
    assert on.thumbnails[1]._kept
    on.loop.advance(2 * KEPT_S)
    assert on.thumbnails[1]._kept == {}
    for each in range(MAX_KEPT + 20):
        on.ask(1, f"live/{each}")
    assert len(on.thumbnails[1]._kept) == MAX_KEPT
    on.loop.advance(2 * KEPT_S)
    assert on.thumbnails[1]._kept == {}


def test_a_frame_of_absurd_size_is_not_decoded() -> None:
    on = Stage()
    on.publish(video(0, bytes(MAX_KEY_FRAME_BYTES + 100), is_key=True))
    on.ask()
    on.work()
    assert on.decoders[1].frames == [f"The key frame has {MAX_KEY_FRAME_BYTES + 105} bytes, which is too much."]


def test_a_large_frame_comes_out_as_it_went_in() -> None:
    on = Stage()
    body = bytes(range(256)) * 200
    on.publish(video(0, body, is_key=True))
    on.ask()
    on.work()
    assert on.told[0].jpegs[160] == body
