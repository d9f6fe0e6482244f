"""One attempt over HTTP, against receivers of the worst kind."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.web.hooks.receivers import TAKEN, Outcome, Receivers


@contextmanager
def answering(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A receiver that reads one request, says this and closes."""
    requests: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            request = b""
            while not request.endswith(b"{}") and (data := connection.recv(65536)):
                request += data
            requests.append(request)
            connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/hook?token=hidden", requests
    finally:
        thread.join(10)
        listener.close()


def post(url: str, timeout_s: float = 5.0) -> Outcome:
    async def run() -> Outcome:
        receivers = Receivers()
        try:
            return await receivers.post(url, {"webhook-id": "msg_1"}, b"{}", timeout_s)
        finally:
            await receivers.close()

    return asyncio.run(run())


def test_a_message_is_posted_as_json_with_its_headers() -> None:
    with answering(b"HTTP/1.1 204 No Content\r\n\r\n") as (url, requests):
        assert post(url) == TAKEN
    head = requests[0].lower()
    assert head.startswith(b"post /hook?token=hidden http/1.1\r\n")
    assert b"\r\ncontent-type: application/json\r\n" in head
    assert b"\r\nwebhook-id: msg_1\r\n" in head
    assert b"\r\ncontent-length: 2\r\n" in head


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", Outcome(False, "status 500")),
        (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", Outcome(False, "status 404")),
        (b"HTTP/1.1 410 No\r\nContent-Length: 0\r\n\r\n", Outcome(False, "status 410", is_final=True)),
        (
            b"HTTP/1.1 429 No\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n",
            Outcome(False, "status 429", asked_s=30.0),
        ),
        (
            b"HTTP/1.1 503 No\r\nRetry-After: Wed, 18 Nov 2026 15:00:00 GMT\r\nContent-Length: 0\r\n\r\n",
            Outcome(False, "status 503"),
        ),
        (
            b"HTTP/1.1 307 No\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
            Outcome(False, "status 307"),
        ),
        (b"", Outcome(False, "Server disconnected without sending a response.")),
    ],
)
def test_what_is_no_success_is_told_and_redirects_are_none(answer: bytes, outcome: Outcome) -> None:
    with answering(answer) as (url, _):
        assert post(url) == outcome


def test_an_answer_without_end_is_not_read_to_it() -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n" + bytes(200_000)) as (url, _):
        assert post(url) == TAKEN


def test_a_receiver_that_hangs_is_given_up_in_time() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        assert post(url, timeout_s=0.2) == Outcome(False, "no answer in 0.2 s")


def test_one_that_is_not_there_is_told_without_its_url() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    outcome = post(f"http://127.0.0.1:{port}/hook?token=hidden")
    assert (outcome.is_taken, "hidden" in outcome.reason) == (False, False)
    assert outcome.reason == "All connection attempts failed"


def test_no_url_gets_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"), answering(b"HTTP/1.1 204 No Content\r\n\r\n") as (url, _):
        assert post(url) == TAKEN
    assert "hidden" not in caplog.text
