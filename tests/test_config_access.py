"""The settings of access and hooks: what is read, what is refused, and what is never repeated."""

from typing import Any

import pytest
from pydantic import ValidationError

from penstock.config import Config
from penstock.config_access import may_hold_secret, shown


def key_line(name: str) -> str:
    return f"{name}:sha256:{'0a' * 32}"


@pytest.mark.parametrize(
    ("values", "publish"),
    [
        ({}, ()),
        ({"publish": []}, ()),
        ({"publish": ["open"]}, ("open",)),
        ({"publish": ["key", ["ip:10.0.0.0/8", "key"]]}, ("key", ("ip:10.0.0.0/8", "key"))),
        ({"publish": ["ip:192.0.2.1", "ip:2001:DB8::/32"]}, ("ip:192.0.2.1/32", "ip:2001:db8::/32")),
    ],
)
def test_rules_of_an_app_are_read(values: dict[str, Any], publish: object) -> None:
    assert Config.model_validate({"access": {"live": values}}).access["live"].publish == publish


@pytest.mark.parametrize(
    "values",
    [
        {"publish": "key"},
        {"publish": ["keys"]},
        {"publish": [[]]},
        {"publish": [["key", ["open"]]]},
        {"publish": ["ip:10.0.0.1/8"]},
        {"publish": [5]},
        {"publish": ["open"] * 65},
        {"keys": ["studio"]},
        {"keys": ["studio:sha256:0a"]},
        {"keys": [f"stu dio:sha256:{'0a' * 32}"]},
        {"keys": [f"{key_line('studio')}:adobe:short:x"]},
        {"aliases": {"studio": ""}},
        {"aliases": {"studio": "a?b"}},
        {"aliases": {"a b": "main"}},
        {"aliases": []},
        {"watch": ["open"]},
    ],
)
def test_other_rules_keys_and_aliases_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Config.model_validate({"access": {"live": values}})


@pytest.mark.parametrize(
    ("rule", "auth"),
    [
        ("signed", {"signing": ["env:A"]}),
        ("jwt", {"jwt": "env:A"}),
        ("callback", {"callback": "http://127.0.0.1:9000/"}),
    ],
)
def test_a_rule_needs_what_it_verifies_by(rule: str, auth: dict[str, Any]) -> None:
    access = {"live": {"play": [["ip:10.0.0.0/8", rule]]}}
    with pytest.raises(ValidationError, match=rf"access\.live\.play has {rule}, which needs auth\."):
        Config.model_validate({"access": access})
    Config.model_validate({"access": access, "auth": auth})


def test_a_rule_for_keys_stands_without_any_so_that_the_last_one_can_be_removed() -> None:
    access = {"live": {"publish": ["key"], "aliases": {"studio": "main"}}}
    assert Config.model_validate({"access": access}).access["live"].keys == ()


KEY_LINE = f"studio:sha256:{'ab' * 32}"
WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.parametrize(
    "values",
    [
        {"url": "https://a.example/hook"},
        {"url": "https://a.example/hook", "secret": WHSEC, "events": ["publish_*"], "streams": ["live/*"]},
        {"url": "https://a.example/hook", "secret": "env:HOOK", "timeout_s": "5s"},
        {"exec": ["ffmpeg", "{app}/{stream}"], "events": ["publish_started"]},
        {"exec": ["ffmpeg", "{app}/{stream}"], "while": "publishing"},
    ],
)
def test_a_hook_is_an_address_or_a_program(values: dict[str, Any]) -> None:
    (hook,) = Config.model_validate({"hooks": [values]}).hooks
    assert (hook.url or hook.exec) == (values.get("url") or tuple(values["exec"]))
    assert hook.while_ == values.get("while")
    assert hook.streams == (("live/*",) if "streams" in values else ("*/*",))


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"url": "https://a.example", "exec": ["true"]},
        {"url": "https://a.example", "while": "publishing"},
        {"url": "https://a.example", "secret": "hunter2"},
        {"url": "https://a.example", "secret": "whsec_!"},
        {"url": "https://a.example", "secret": "whsec_c2hvcnQ="},
        {"exec": ["true"], "secret": WHSEC},
        {"exec": ["true"], "while": "watching"},
        {"exec": ["true"], "while": "publishing", "events": ["publish_started"]},
        {"exec": []},
        {"exec": ["a\0b"]},
        {"exec": "true"},
        {"url": "https://a.example", "events": ["Publish"]},
        {"url": "https://a.example", "timeout_s": 0},
    ],
)
def test_other_hooks_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Config.model_validate({"hooks": [values]})


def test_an_error_of_validation_repeats_no_value() -> None:
    with pytest.raises(ValidationError) as caught:
        Config.model_validate({"auth": {"signing": ["hunter2"]}, "hooks": [{"url": "https://a", "secret": "hunter2"}]})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("live/*", "live/*"),
        ("env:HOOK", "env:HOOK"),
        (WHSEC, "whsec_…"),
        (f"obs:sha256:{'0' * 64}", f"obs:sha256:{'0' * 64}"),
        ("http://127.0.0.1:9000/auth", "http://127.0.0.1:9000/auth"),
        ("http://u:p@127.0.0.1:9000/auth?t=1", "http://…@127.0.0.1:9000/auth?…"),
        ("jwks:https://u:p@b.example/keys", "jwks:https://…@b.example/keys"),
        ("spark.hadoop.fs.s3a.secret.key=x", "spark.hadoop.fs.s3a.secret.key=…"),
        (f"{KEY_LINE}:adobe:saltsalt:MTIzNDU2Nzg5MDEyMzQ1Ng==", f"{KEY_LINE}:adobe:saltsalt:…"),
        (KEY_LINE, KEY_LINE),
        ("rtmp://u:p@b.example/{app}/{stream}?key=x", "rtmp://…@b.example/{app}/{stream}?…"),
        ("[f=flv]rtmp://a/b?key=x|[f=flv]rtmps://c/d?key=y", "[f=flv]rtmp://a/b?…|[f=flv]rtmps://c/d?…"),
        ("spark.executor.memory=4g", "spark.executor.memory=4g"),
    ],
)
def test_what_only_the_server_is_to_know_is_not_shown(text: str, seen: str) -> None:
    assert shown(text) == seen


def test_keys_that_may_hold_secrets_are_known() -> None:
    assert may_hold_secret(("auth", "signing"))
    assert may_hold_secret(("access", "live", "keys"))
    assert may_hold_secret(("hooks", "0", "secret"))
    assert not may_hold_secret(("access", "live", "publish"))
    assert not may_hold_secret(("limits", "max_connections"))
