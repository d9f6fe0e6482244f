"""What is said over HTTP about pictures, without a decoder."""

from http import HTTPStatus

import pytest

from penstock.media_paths import MediaKind, MediaPath
from penstock.serve.http.site import Answer, MediaRequest, Wait
from penstock.serve.thumbnails.key_frames import NO_KEY_FRAME, NO_VIDEO
from penstock.serve.thumbnails.site import ThumbnailSite
from penstock.serve.thumbnails.thumbnails import Done, Thumbnail
from tests.serve.fakes import FakeLoop

JPEGS = {160: b"small", 320: b"middle", 640: b"large"}
MADE = Thumbnail(0.0, HTTPStatus.OK, "", JPEGS, "e7a9")


class Pictures:
    """Has the pictures that the test gives it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Done]] = []
        self.at_hand: Thumbnail | None = None
        self.calls_at_once = False

    def ask(self, key: str, done: Done) -> Thumbnail | None:
        self.asked.append((key, done))
        if self.calls_at_once and self.at_hand is not None:
            done(self.at_hand)
            return None
        return self.at_hand


class Rules:
    def __init__(self) -> None:
        self.is_open = True


class Stage:
    def __init__(self) -> None:
        self.pictures, self.rules, self.loop = Pictures(), Rules(), FakeLoop()
        self.site = ThumbnailSite(self.pictures, self.loop, self.rules)

    def ask(self, cors: bytes = b"", **parameters: str) -> Answer | Wait:
        path = MediaPath("live", "cam", MediaKind.PICTURE)
        return self.site.answer(
            MediaRequest(
                path=path,
                stream="cam",
                parameters=parameters,
                credentials="",
                query="",
                headers={},
                address="192.0.2.1:5",
                is_encrypted=False,
                is_head=False,
                grant=None,
                cors=cors,
            )
        )


def said(answer: Answer | Wait | None) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body."""
    if isinstance(answer, Wait):
        answer = answer.answer
    assert answer is not None
    head, _, body = answer.flush.data.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return int(status.split(" ")[1]), dict(line.split(": ", 1) for line in lines), body


@pytest.mark.parametrize(("asked", "body"), [({}, b"large"), ({"w": "640"}, b"large"), ({"w": "160"}, b"small")])
def test_a_picture_at_hand_is_answered_at_once(asked: dict[str, str], body: bytes) -> None:
    on = Stage()
    on.pictures.at_hand = MADE
    status, headers, sent = said(on.ask(b"Access-Control-Allow-Origin: *\r\n", **asked))
    assert (status, sent) == (200, body)
    assert headers["Content-Type"] == "image/jpeg"
    assert headers["Content-Length"] == str(len(body))
    assert headers["Cache-Control"] == "public, max-age=5"
    assert headers["ETag"] == f'"e7a9-{asked.get("w", "640")}"'
    assert headers["Access-Control-Allow-Origin"] == "*"


def test_where_not_everybody_may_no_cache_may_keep_it_for_others() -> None:
    on = Stage()
    on.rules.is_open = False
    on.pictures.at_hand = MADE
    assert said(on.ask())[1]["Cache-Control"] == "private, max-age=5"


def test_who_asks_for_the_same_picture_waits_for_the_same_answer() -> None:
    on = Stage()
    large, large_too, small = on.ask(), on.ask(w="640"), on.ask(w="160")
    assert large is large_too
    assert isinstance(large, Wait)
    assert isinstance(small, Wait)
    assert (large.answer, small.answer) == (None, None)
    for key, done in on.pictures.asked:
        assert key == "live/cam"
        done(MADE)
    assert (said(large)[2], said(small)[2]) == (b"large", b"small")
    assert len(on.pictures.asked) == 2
    assert on.ask() is not large


def test_a_picture_that_comes_before_the_question_is_over_is_answered() -> None:
    on = Stage()
    on.pictures.at_hand, on.pictures.calls_at_once = MADE, True
    assert said(on.ask())[2] == b"large"


def test_an_answer_is_laid_out_once() -> None:
    on = Stage()
    on.pictures.at_hand = MADE
    first, second = on.ask(), on.ask()
    assert isinstance(first, Wait)
    assert isinstance(second, Wait)
    assert first.answer is second.answer


@pytest.mark.parametrize("width", ["", "0", "161", "640 ", "-160", "١٦٠"])
def test_other_widths_are_refused(width: str) -> None:
    status, _, body = said(Stage().ask(w=width))
    assert (status, body) == (400, b"w is one of 160, 320, 640.\n")


@pytest.mark.parametrize(
    ("made", "retry"),
    [
        (Thumbnail(0.0, HTTPStatus.NOT_FOUND, "There is no such stream now."), "1"),
        (Thumbnail(0.0, HTTPStatus.NOT_FOUND, NO_KEY_FRAME), "1"),
        (Thumbnail(0.0, HTTPStatus.NOT_FOUND, NO_VIDEO), None),
        (Thumbnail(0.0, HTTPStatus.SERVICE_UNAVAILABLE, "The key frame could not be decoded."), "5"),
        (Thumbnail(0.0, HTTPStatus.NOT_IMPLEMENTED, "Thumbnails need packages."), None),
    ],
    ids=lambda each: getattr(each, "complaint", each),
)
def test_where_there_is_no_picture_it_says_why(made: Thumbnail, retry: str | None) -> None:
    on = Stage()
    on.pictures.at_hand = made
    status, headers, body = said(on.ask(b"Access-Control-Allow-Origin: *\r\n"))
    assert (status, body.decode()) == (made.status, f"{made.complaint}\n")
    assert headers["Cache-Control"] == "no-store"
    assert (headers.get("Retry-After"), headers["Access-Control-Allow-Origin"]) == (retry, "*")


def test_access_is_asked_for_every_picture() -> None:
    assert not Stage().site.is_free(MediaPath("live", "cam", MediaKind.PICTURE))
