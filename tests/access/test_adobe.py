"""Adobe's challenge, with clients that do what FFmpeg and librtmp do."""

import base64
import hashlib

import pytest

from penstock.access.adobe import FAILED, NEED_AUTH, name_of_proof
from penstock.access.keys import key_line, read_key_line
from penstock.access.policy import AppAccess, ConnectProved, ConnectRejected, Policy
from penstock.access.rules import read_rule_text, rules_of

ENCODER = "FMLE/3.0 (compatible; Lavf60.16.100)"
KEY = "6xygj3cykoilmjp4zqtyw27yfwcid6ro"
NOW = 1_800_000_000.0
PEER = "192.0.2.1"


def policy(*publish: str, adobe: bool = True) -> Policy:
    line = key_line("studio", KEY, "c2FsdHNhbHQx" if adobe else None)
    rules = rules_of(read_rule_text(list(publish or ("key",))))
    return Policy({"live": AppAccess(publish=rules, keys=(read_key_line(line),))})


def md5(text: str) -> str:
    return base64.b64encode(hashlib.md5(text.encode()).digest()).decode()


def answer_to(description: str, password: str = KEY, own: str = "0badcafe") -> str:
    """The query that FFmpeg's rtmpproto.c and OBS's librtmp put behind the app after a challenge."""
    assert "authmod=adobe " in description
    assert "code=403 need auth" not in description
    values = dict(each.split("=", 1) for each in description.partition("?")[2].split("&"))
    response = md5(md5(values["user"] + values["salt"] + password) + values["opaque"] + own)
    return f"authmod=adobe&user={values['user']}&challenge={own}&response={response}&opaque={values['opaque']}"


def connect(query: str | None, *, now: float = NOW, peer: str = PEER) -> ConnectRejected | ConnectProved | None:
    return policy().connect("live", ENCODER, query, peer, now)


def challenge(user: str = "studio") -> str:
    answer = connect(f"authmod=adobe&user={user}")
    assert isinstance(answer, ConnectRejected)
    assert not answer.is_failure
    return answer.description


def test_an_encoder_without_credentials_is_told_that_it_needs_them() -> None:
    assert connect(None) == ConnectRejected(NEED_AUTH, is_failure=False)
    assert "code=403 need auth; authmod=adobe ]" in NEED_AUTH


@pytest.mark.parametrize("own", ["0badcafe", "y/7+rQ=="], ids=["FFmpeg", "librtmp"])
def test_an_encoder_that_knows_the_key_is_let_in_by_any_worker(own: str) -> None:
    # Each time is another connection, perhaps in another process: `connect` makes a policy of its own.
    proved = connect(answer_to(challenge(), own=own))
    assert isinstance(proved, ConnectProved)
    assert name_of_proof(proved.user) == "studio"


def test_a_wrong_password_fails() -> None:
    assert connect(answer_to(challenge(), "wrong")) == ConnectRejected(FAILED, is_failure=True)


def test_a_challenge_counts_for_a_minute_and_for_one_address() -> None:
    answer = answer_to(challenge())
    assert isinstance(connect(answer, now=NOW + 59), ConnectProved)
    assert connect(answer, now=NOW + 60) == ConnectRejected(FAILED, is_failure=True)
    assert connect(answer, now=NOW - 1) == ConnectRejected(FAILED, is_failure=True)
    assert connect(answer, peer="192.0.2.2") == ConnectRejected(FAILED, is_failure=True)


@pytest.mark.parametrize(
    "query",
    [
        "authmod=adobe&user=studio&challenge=x&response=",
        "authmod=adobe&user=studio&challenge=x&response=y&opaque=",
        "authmod=adobe&user=studio&challenge=x&response=y&opaque=zz.0",
        "authmod=adobe&user=studio&challenge=x&response=y&opaque=" + "f" * 5000,
        "authmod=adobe&user=studio&challenge=\udcff&response=\udcff&opaque=\udcff",
        "authmod=adobe&user=a%26b&response=y",
    ],
)
def test_an_answer_to_no_challenge_of_ours_fails(query: str) -> None:
    assert connect(query) == ConnectRejected(FAILED, is_failure=True)


def test_an_unknown_user_is_challenged_like_a_known_one() -> None:
    known, unknown = challenge(), challenge("nobody")
    shape = [len(each.split("=")[-1]) for each in known.split("&")]
    assert [len(each.split("=")[-1]) for each in unknown.split("&")] == [
        len("nobody") if size == len("studio") else size for size in shape
    ]
    assert challenge("nobody").split("salt=")[1][:12] == unknown.split("salt=")[1][:12]
    assert connect(answer_to(unknown)) == ConnectRejected(FAILED, is_failure=True)


@pytest.mark.parametrize("query", ["key=x", "token=x", "exp=5&sig=x"])
def test_an_encoder_that_shows_other_credentials_is_not_challenged(query: str) -> None:
    assert connect(query) is None


def test_players_and_apps_without_such_keys_are_not_challenged() -> None:
    assert policy().connect("live", "LNX 9,0,124,2", None, PEER, NOW) is None
    assert policy().connect("live", None, None, PEER, NOW) is None
    assert policy().connect("other", ENCODER, None, PEER, NOW) is None
    assert policy(adobe=False).connect("live", ENCODER, None, PEER, NOW) is None
    assert policy("deny").connect("live", ENCODER, None, PEER, NOW) is None
    assert Policy().connect("live", ENCODER, "authmod=adobe&user=studio", PEER, NOW) is None


@pytest.mark.parametrize(("rule", "is_challenged"), [("open", False), ("ip:192.0.2.0/24", False), ("ip:::/0", True)])
def test_who_gets_in_by_its_address_is_not_challenged(rule: str, is_challenged: bool) -> None:
    answer = policy("key", rule).connect("live", ENCODER, None, PEER, NOW)
    assert (answer is not None) is is_challenged
