"""`penstock key make`: what is printed, and that the line verifies the key."""

import json

import pytest

from penstock import cli
from penstock.access.keys import find_key, find_role, read_key_line, read_role_line


def made(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert cli.main(["key", "make", *words, "--json"]) == 0
    values: dict[str, str] = json.loads(capsys.readouterr().out)
    assert list(values) == ["name", "key", "line"]
    return values


def test_a_key_of_160_bits_is_made_with_the_line_that_verifies_it(capsys: pytest.CaptureFixture[str]) -> None:
    values = made(["studio"], capsys)
    line = read_key_line(values["line"])
    assert (values["name"], line.name, line.adobe) == ("studio", "studio", None)
    assert find_key([line], values["key"]) is line
    assert len(values["key"]) * 5 == 160
    assert made(["studio"], capsys)["key"] != values["key"]


def test_a_key_for_the_challenge_has_a_verifier_of_its_own_and_fits_into_ffmpeg(
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = made(["studio", "--adobe"], capsys)
    line = read_key_line(values["line"])
    assert line.adobe is not None
    assert find_key([line], values["key"]) is line
    assert len(values["key"]) < 50, "what FFmpeg keeps of a password"


def test_a_key_for_the_api_has_its_role(capsys: pytest.CaptureFixture[str]) -> None:
    values = made(["boss", "--role", "admin"], capsys)
    line = read_role_line(values["line"])
    assert (line.name, line.role, find_role([line], values["key"])) == ("boss", "admin", line)


def test_people_are_shown_the_key_and_where_its_line_goes(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["key", "make", "studio"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "keys of [access.APP]" in lines[2]
    line = read_key_line(json.loads(lines[4]))
    assert find_key([line], lines[0]) is line


@pytest.mark.parametrize("name", ["a b", "a:b", "", "-x", "x" * 41, "é"])
def test_a_name_that_a_line_cannot_hold_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["key", "make", "--", name]) == 2
    assert "the name of a key should be" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["x", "--role", "owner"], ["x", "--role", "read", "--adobe"], []])
def test_other_uses_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["key", "make", *words])
    assert ended.value.code == 2
