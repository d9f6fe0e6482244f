"""The rules in force in words, and who is here by which."""

from pathlib import Path

from penstock.access.keys import key_line
from penstock.config import Config
from tests.web.api.calling import Caller, stream, view

KEY = "6xygj3cykoilmjp4zqtyw27yfwcid6ro"
RULES = {
    "live": {
        "publish": ["key"],
        "play": ["open", ["ip:10.0.0.0/8", "key"]],
        "keys": [key_line("studio", KEY, "c2FsdHNhbHQx")],
        "aliases": {"studio": "main"},
    },
    "*": {"play": ["deny"]},
}


def test_without_rules_everybody_may(tmp_path: Path) -> None:
    assert Caller(tmp_path).json("/access") == {"is_open": True, "apps": [], "let_in": []}


def test_rules_are_told_in_words_and_without_secrets(tmp_path: Path) -> None:
    caller = Caller(tmp_path, config=Config.model_validate({"access": RULES}))
    answer = caller.ask("/api/v1/access")
    assert "sha256" not in answer.text
    assert "adobe" not in answer.text
    found = answer.json()
    assert (found["is_open"], [each["app"] for each in found["apps"]]) == (False, ["*", "live"])
    assert found["apps"][0] == {
        "app": "*",
        "publish": [],
        "play": [{"rule": "deny", "words": "nobody"}],
        "keys": [],
        "aliases": [],
    }
    assert found["apps"][1] == {
        "app": "live",
        "publish": [{"rule": "key", "words": "whoever shows one of the app's keys"}],
        "play": [
            {"rule": "open", "words": "everybody"},
            {
                "rule": "ip:10.0.0.0/8+key",
                "words": "whoever comes from 10.0.0.0/8, and shows one of the app's keys",
            },
        ],
        "keys": ["studio"],
        "aliases": [{"key": "studio", "stream": "main"}],
    }


def test_who_is_here_is_told_by_rule(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    views = [
        view("v1", rule="key", auth_subject="ann"),
        view("v2", rule="key", auth_subject="bob"),
        view("v3", rule="key", auth_subject="ann"),
        view("v4", rule="server"),
        view("v5", app="studio", rule="open"),
    ]
    caller.tell(streams=[stream("a"), stream("b", is_waiting=True)], views=views)
    assert caller.json("/access")["let_in"] == [
        {
            "action": "play",
            "app": "live",
            "rule": "key",
            "count": 3,
            "subjects": [{"subject": "ann", "count": 2}, {"subject": "bob", "count": 1}],
        },
        {"action": "play", "app": "live", "rule": "server", "count": 1, "subjects": [{"subject": None, "count": 1}]},
        {"action": "play", "app": "studio", "rule": "open", "count": 1, "subjects": [{"subject": None, "count": 1}]},
        {
            "action": "publish",
            "app": "live",
            "rule": "key",
            "count": 1,
            "subjects": [{"subject": "studio", "count": 1}],
        },
    ]
