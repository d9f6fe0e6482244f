"""`penstock sign`: the printed URL lets in what it says, and nothing else."""

import time
from pathlib import Path

import pytest

from penstock import cli
from penstock.access.policy import Policy
from penstock.access.request import AccessRequest, Action, Allowed
from penstock.config_secrets import policy_of
from penstock.config_sources import load_config

URL = "rtmp://media.example/live/a%20b"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "signing").write_text("topsecret\n", encoding="utf-8")
    file = tmp_path / "p.toml"
    text = f'[auth]\nsigning = ["file:{tmp_path}/signing"]\n[access."*"]\nplay = ["signed"]\npublish = ["signed"]\n'
    file.write_text(text, encoding="utf-8")
    return file


def signed(file: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["sign", URL, "--config", str(file), *words]) == 0
    return capsys.readouterr().out.removesuffix("\n")


def is_let_in(policy: Policy, url: str, action: Action, after_s: float = 0.0) -> bool:
    name, _, query = url.removeprefix("rtmp://media.example/live/").partition("?")
    request = AccessRequest(action, "live", name, "rtmp", "192.0.2.1", stream_query=query)
    return isinstance(policy.decide(request, time.time() + after_s), Allowed)


def test_a_link_lets_in_for_its_action_and_time(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = policy_of(load_config(file, {}, {}), {})
    url = signed(file, capsys, "--action", "play", "--expires", "10m")
    assert url.startswith(f"{URL}?exp=")
    assert is_let_in(policy, url, "play", 590)
    assert not is_let_in(policy, url, "play", 601)
    assert not is_let_in(policy, url, "publish")
    assert not is_let_in(policy, url.replace("a%20b", "other"), "play")


def test_a_link_may_be_for_one_address(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = policy_of(load_config(file, {}, {}), {})
    words = ("--action", "play", "--expires", "10m", "--ip")
    assert is_let_in(policy, signed(file, capsys, *words, "192.0.2.1"), "play")
    assert not is_let_in(policy, signed(file, capsys, *words, "192.0.2.2"), "play")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["rtmp://h/live", "--expires", "10m"], "penstock: the URL should be rtmp://HOST/APP/STREAM or rtmps:"),
        ([URL, "--expires", "soon"], "penstock: --expires: should be 1 to"),
        ([URL, "--expires", "10m", "--ip", "here"], "penstock: --ip: should be an address, such as 192.0.2.1"),
    ],
)
def test_what_cannot_be_signed_is_told_in_one_line(
    words: list[str], line: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["sign", *words, "--action", "play", "--config", str(file)]) == 2
    assert capsys.readouterr().err.startswith(line)


def test_without_a_secret_nothing_is_signed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "p.toml"
    empty.write_text("", encoding="utf-8")
    assert cli.main(["sign", URL, "--action", "play", "--expires", "10m", "--config", str(empty)]) == 2
    assert "auth.signing is not set" in capsys.readouterr().err
