"""Refusals in words that hold no key."""

import time

import pytest

from penstock.serve.outgoing.words import Failure, refusal, without_secrets


@pytest.mark.parametrize(
    ("text", "secrets", "shown"),
    [
        ("stream abc-123 is taken", ("abc-123",), "stream *** is taken"),
        ("stream a%2fb is taken", ("a/b",), "stream *** is taken"),
        ("stream a/b is taken", ("a%2Fb",), "stream *** is taken"),
        ("stream %61/%62 is taken", ("a/b",), "stream *** is taken"),
        ("stream A%2b is taken", ("a+",), "stream *** is taken"),
        ("key and keys", ("key", "keys"), "*** and ***"),
        ("bell\x07", (), "bell\\x07"),
        ("nothing", ("",), "nothing"),
    ],
)
def test_secrets_are_not_shown(text: str, secrets: tuple[str, ...], shown: str) -> None:
    assert without_secrets(text, secrets) == shown


def test_a_long_text_is_cut() -> None:
    assert without_secrets("x" * 1000, ()) == "x" * 300 + "…"


def test_a_text_as_long_as_a_message_may_be_costs_no_more_than_a_short_one() -> None:
    text = "\u202e" * 5_000_000
    began_s = time.process_time()
    assert len(without_secrets(text, ("abc-123", "a/b"))) == 301
    # All of it would take seconds, in which nobody is served.
    assert time.process_time() - began_s < 0.5


def test_a_refusal_says_what_was_refused_and_why() -> None:
    failure = refusal("publish", "NetStream.Publish.BadName", "key is taken", ("key",))
    assert failure == Failure(
        "it refused publish: NetStream.Publish.BadName (*** is taken)",
        is_refusal=True,
        code="NetStream.Publish.BadName",
    )


def test_a_refusal_without_a_reason_says_so() -> None:
    assert refusal("connect", "", "", ()).reason == "it refused connect: it gave no reason"
