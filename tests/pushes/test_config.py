"""[[push]]: what is read, what is refused, and that no key is repeated or shown."""

import re
from pathlib import Path

import pytest

from penstock.commands.config import toml_lines
from penstock.config import Config
from penstock.config_secrets import check_secrets, push_key
from penstock.config_sources import load_text
from penstock.errors import ConfigError
from penstock.web.api.config_view import ConfigView

REPOSITORY = Path(__file__).parents[2]
YOUTUBE = b"""[[push]]
name = "yt"
streams = ["live/*"]
url = "rtmps://host/live2"
key = "env:YT_KEY"
"""
WRITTEN_OUT = b"""[[push]]
name = "old"
streams = ["live/a"]
url = "rtmp://host/live/hunter2?token=hunter2"
"""


def test_a_push_is_read() -> None:
    (push,) = load_text(YOUTUBE, "text").config.push
    assert (push.name, push.streams, push.address.shown) == ("yt", ("live/*",), "rtmps://host/live2")
    assert push_key(push, {"YT_KEY": "k-1"}) == "k-1"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("push = 5", "text line 1: push: should be a list of tables, as [[push]] makes it"),
        (
            "[[push]]\nname = 'a b'\nurl = 'rtmp://h/a/b'\nstreams = 'all'",
            "text line 1: push.0.name: should be up to 64 letters, digits, - and _",
        ),
        ("[[push]]\nnam = 'a'", "text line 1: push.0.name: Field required"),
        (
            "[[push]]\nname = 'a'\nstreams = 'all'\nurl = 'hunter2'",
            (
                "text line 1: push.0: url should be rtmp://HOST[:PORT]/APP/STREAM, or a key beside it; "
                "rtmps:// is under TLS"
            ),
        ),
        (
            "[[push]]\nname = 'a'\nstreams = 'all'\nurl = 'rtmp://h/a'\nkey = 'hunter2'",
            'text line 1: push.0.key: should be "file:PATH" or "env:NAME", not the secret itself',
        ),
        (YOUTUBE.decode() * 2, "text line 1: push: push.name should not be given twice, as yt is"),
    ],
)
def test_what_is_wrong_is_told_in_one_line_without_a_key(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(text.encode(), "text")
    assert str(caught.value) == line


def test_a_key_that_is_missing_is_found_before_the_start() -> None:
    config = load_text(YOUTUBE, "text").config
    with pytest.raises(ConfigError, match=r"push\.yt\.key: the variable YT_KEY is empty or not there"):
        check_secrets(config, {})


def test_the_readme_restreams_to_three_targets() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    config = load_text(readme.partition("$ cat penstock.toml\n")[2].partition("\n$ ")[0].encode(), "README").config
    check_secrets(config, {"YOUTUBE_KEY": "k-1", "TWITCH_KEY": "k-2"})
    assert [(each.name, each.address.shown, each.address.takes_many) for each in config.push] == [
        ("youtube", "rtmps://a.rtmps.youtube.com/live2", False),
        ("twitch", "rtmp://live.twitch.tv/app", False),
        ("backup", "rtmp://backup.example/{app}/{stream}", True),
    ]


def test_what_the_documentation_shows_is_a_configuration() -> None:
    page = (REPOSITORY / "docs" / "16-to-and-from-other-servers.md").read_text(encoding="utf-8")
    configs = [load_text(block.encode(), "page").config for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL)]
    assert [(len(each.push), len(each.pull)) for each in configs] == [(2, 0), (0, 1)]


@pytest.mark.parametrize("key", ["two words", "naïve", "bell\x07"])
def test_a_key_is_one_word(key: str) -> None:
    (push,) = load_text(YOUTUBE, "text").config.push
    with pytest.raises(ConfigError) as caught:
        push_key(push, {"YT_KEY": key})
    assert str(caught.value) == "push.yt.key: what it refers to should be one word of printable ASCII"


@pytest.mark.parametrize("text", [YOUTUBE, WRITTEN_OUT])
def test_neither_the_command_nor_the_api_shows_a_key(text: bytes, tmp_path: Path) -> None:
    loaded = load_text(text, "text")
    shown = "\n".join(toml_lines(loaded)) + str(ConfigView(loaded.config).settings())
    assert "hunter2" not in shown
    assert "rtmp" in shown
    assert Config.model_validate(loaded.values) == loaded.config
