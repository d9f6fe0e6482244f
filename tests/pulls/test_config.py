"""`[[pull]]`: what is read, what is refused, and that no address is repeated."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from penstock.config import Config
from penstock.config_access import may_hold_secret
from penstock.config_secrets import check_secrets
from penstock.config_sources import load_text
from penstock.errors import ConfigError
from penstock.rtmp_address import StreamAddress
from penstock.serve.configured import pull_rules_of

URL = "rtmp://origin/{app}/{stream}"


def pull_of(**values: Any) -> Config:
    return Config.model_validate({"pull": [{"streams": ["live/*"], "url": URL, **values}]})


def test_a_pull_has_streams_and_an_address() -> None:
    (pull,) = pull_of().pull
    assert (pull.streams, pull.idle_s, pull.key) == (("live/*",), 10.0, None)
    assert pull.address == StreamAddress("origin", 1935, "{app}", "{stream}")


def test_a_key_is_read_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hunter2\n", encoding="utf-8")
    config = pull_of(key=f"file:{tmp_path}/key", idle_s="1m")
    (rule,) = pull_rules_of(config, {})
    assert (rule.key, rule.idle_s) == ("hunter2", 60.0)
    assert pull_rules_of(pull_of(key="env:EDGE"), {"EDGE": "k"})[0].key == "k"


@pytest.mark.parametrize("value", ["", "two words", "é"])
def test_a_key_that_is_no_word_is_refused_with_where_it_is(value: str) -> None:
    with pytest.raises(ConfigError, match=r"pull\[1\]\.key: "):
        check_secrets(pull_of(key="env:EDGE"), {"EDGE": value})


def test_one_stream_needs_no_place_for_its_name() -> None:
    Config.model_validate({"pull": [{"streams": ["live/cam"], "url": "rtmp://camera/ch0/main"}]})


@pytest.mark.parametrize(
    "values",
    [
        {"url": "http://origin/{app}/{stream}"},
        {"url": "rtmp://origin/{app}"},
        {"url": "rtmp://{app}/live/{stream}"},
        {"url": "rtmp://origin/live/x?name={stream}"},
        {"url": "rtmp://origin/{app}/{name}{stream}"},
        {"url": "rtmp://origin/live/cam"},
        {"url": "rtmp://origin/live/cam", "streams": ["live/a", "live/b"]},
        {"url": "rtmp://user@origin/{app}/{stream}"},
        {"url": "rtmp://origin/{app}/{stream}?key={key}"},
        {"url": "rtmp://origin/{app}/" + "a" * 3000 + "{stream}"},
        {"url": "rtmp://origin/{app}/{stream} x"},
        {"key": "hunter2"},
        {"idle_s": -1},
        {"name": "x"},
    ],
)
def test_other_pulls_are_refused_without_repeating_them(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refusal:
        pull_of(**values)
    assert "hunter2" not in str(refusal.value)


def test_a_wrong_pull_is_told_in_one_line_without_its_value() -> None:
    with pytest.raises(ConfigError) as refusal:
        load_text(b'[[pull]]\nstreams = ["live/*"]\nurl = "rtmp://o/live/x?key=hunter2"\n', "a.toml")
    assert str(refusal.value) == "a.toml line 1: pull.0: has many streams, and no {stream} in its url"
    with pytest.raises(ConfigError, match=r"a\.toml line 1: pull\.0\.idle: unknown key; did you mean idle_s\?"):
        load_text(b'[[pull]]\nstreams = ["live/*"]\nurl = "rtmp://o/{app}/{stream}"\nidle = 5\n', "a.toml")
    with pytest.raises(ConfigError, match=r"line 1: pull: should be a list of tables"):
        load_text(b"pull = 5", "a.toml")
    assert may_hold_secret(("pull", "0", "url"))
