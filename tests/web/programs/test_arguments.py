"""Names of streams in arguments."""

import pytest

from penstock.web.programs.arguments import UnfitName, arguments_of, environment_of

VALUES = {"event": "publish_started", "app": "live", "stream": "main"}


def test_values_are_put_where_the_template_has_places_for_them() -> None:
    template = ("ffmpeg", "-i", "rtmp://127.0.0.1/{app}/{stream}", "{event}", "{other}", '{"a": 1}')
    expected = ["ffmpeg", "-i", "rtmp://127.0.0.1/live/main", "publish_started", "{other}", '{"a": 1}']
    assert arguments_of(template, VALUES) == expected


def test_what_a_value_has_in_it_is_not_looked_at_again() -> None:
    values = VALUES | {"stream": "{app} $(reboot) `x`; 'y' \""}
    assert arguments_of(("echo", "{stream}"), values) == ["echo", "{app} $(reboot) `x`; 'y' \""]


@pytest.mark.parametrize(
    ("template", "stream"),
    [
        ("{stream}", "-rf"),
        ("{stream}", "--help"),
        ("out/{stream}.flv", "../../etc/x"),
        ("{stream}", ".."),
        ("--out={stream}.flv", "../x"),
        ("../{stream}", "../x"),
        ("{app}{stream}", "/../x"),
        (".{stream}", "./x"),
        ("{stream}", "/etc/passwd"),
        ("--out={stream}", "/etc/passwd"),
        ("a{stream}", "\0"),
    ],
)
def test_a_name_that_would_be_more_than_a_name_is_refused(template: str, stream: str) -> None:
    with pytest.raises(UnfitName):
        arguments_of(("echo", template), VALUES | {"stream": stream})


@pytest.mark.parametrize(
    ("template", "stream", "filled"),
    [
        ("--name={stream}", "-x", "--name=-x"),
        ("x{stream}", "-x", "x-x"),
        ("{stream}", "a..b", "a..b"),
        ("../{app}", "", "../live"),
        ("{app}/{stream}", "/x", "live//x"),
    ],
)
def test_what_does_no_harm_is_left_alone(template: str, stream: str, filled: str) -> None:
    assert arguments_of(("echo", template), VALUES | {"stream": stream}) == ["echo", filled]


def test_the_program_itself_has_no_places() -> None:
    assert arguments_of(("{stream}",), VALUES) == ["{stream}"]


def test_the_environment_is_what_happened_and_the_path() -> None:
    outer = {"PATH": "/opt/bin", "AWS_SECRET_ACCESS_KEY": "hidden", "PENSTOCK_TOKEN": "hidden"}
    assert environment_of(VALUES, b'{"a":1}', outer) == {
        "PATH": "/opt/bin",
        "LANG": "C.UTF-8",
        "PENSTOCK_EVENT": "publish_started",
        "PENSTOCK_APP": "live",
        "PENSTOCK_STREAM": "main",
        "PENSTOCK_DATA": '{"a":1}',
    }
    assert environment_of(VALUES, None, {})["PATH"].endswith(":/bin")
