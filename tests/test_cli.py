"""The command line: the frame, the options of the server, and the configuration shown and loaded again."""

import argparse
import logging
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from penstock import __version__, cli
from penstock.commands import pipeline, up
from penstock.config import Config
from penstock.config_sources import LoadedConfig, config_from_values, load_config
from penstock.config_units import Address

# What takes long to load, and only those commands may that use it.
HEAVY = ("pyspark", "av", "numpy", "rich", "pydantic", "structlog", "penstock.serve", "penstock.pipeline")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Config]]:
    """A server that notes what it was started with, in place of the real one. Logging is left as it was found."""
    level, handlers = logging.root.level, list(logging.root.handlers)
    configs: list[Config] = []

    def run(loaded: LoadedConfig, reload: Callable[[], LoadedConfig], on_stop: Callable[[], None]) -> int:
        configs.append(loaded.config)
        on_stop()
        assert reload() == loaded
        assert config_from_values(loaded.values) == loaded.config
        return 7

    stand_in = ModuleType("penstock.serve.supervisor")
    stand_in.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "penstock.serve.supervisor", stand_in)
    yield configs
    logging.root.setLevel(level)
    logging.root.handlers[:] = handlers


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The line that a wrong use ends with."""
    try:
        status = cli.main(arguments)
    except SystemExit as ended:
        status = int(ended.code or 0)
    printed = capsys.readouterr()
    assert (status, printed.out) == (2, "")
    assert printed.err.endswith("\n")
    assert printed.err[:-1].isprintable(), "an error is one line"
    return printed.err[:-1]


def parsed(command: cli.Command, words: list[str]) -> argparse.Namespace:
    """What a command is told by these words."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)


def shown(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["config", "show", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", ["serve", "up"])
def test_flags_become_the_configuration_of_the_server(
    command: str, served: list[Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "p.toml"
    file.write_text("[limits]\nmax_connections = 5\n", encoding="utf-8")
    monkeypatch.setenv("PENSTOCK_HTTP_LISTEN", "none")
    flags = ["--config", str(file), "--rtmp", ":1", "--rtmps", "[::]:2", "--cert", str(file), "--key", str(file)]
    flags += ["--data", "/srv", "--record", "live/*", "vod/x", "--log-level", "debug", "--log-format", "console"]
    flags += ["--workers", "auto"]
    assert cli.main([command, *flags]) == 7
    (config,) = served
    assert (config.rtmp.listen, config.tls.listen, config.http.listen) == (Address(None, 1), Address("::", 2), None)
    assert (config.tls.cert, config.tls.key, config.server.data_dir) == (file, file, Path("/srv"))
    assert (config.recording.streams, config.server.workers) == (("live/*", "vod/x"), "auto")
    assert (config.logs.level, config.logs.format, config.limits.max_connections) == ("debug", "console", 5)


@pytest.mark.parametrize("more", [[], ["--no-pipeline"]])
def test_flags_of_the_pipeline_are_part_of_the_same_configuration(
    more: list[str], served: list[Config], tmp_path: Path
) -> None:
    places = ["--data", str(tmp_path), "--lake", "s3a://bucket/lake", "--master", "local[3]"]
    assert cli.main(["up", *places, *more]) == 7
    (config,) = served
    assert (config.pipeline.lake, config.pipeline.master) == ("s3a://bucket/lake", "local[3]")


def test_the_pipeline_beside_a_server_is_told_what_the_server_was_told() -> None:
    """By words that it understands: what is not among them it reads from the same file and environment."""
    typed = ["--config", "p.toml", "--data", "/srv", "--lake", "/l", "--master", "local[3]"]
    typed += ["--log-format", "console", "--rtmp", ":1", "--record", "all"]
    words = list(up._words(parsed(up, typed), "60s"))
    told = vars(parsed(pipeline, ["run", *words]))
    assert {name: told[name] for name in ("every", "config", "--data", "--lake", "--master", "--log-format")} == {
        "every": "60s",
        "config": Path("p.toml"),
        "--data": "/srv",
        "--lake": "/l",
        "--master": "local[3]",
        "--log-format": "console",
    }


def test_no_flags_are_the_defaults(served: list[Config]) -> None:
    assert cli.main(["serve"]) == 7
    assert served == [Config()]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "penstock: the following arguments are required: COMMAND (see penstock --help)"),
        (["config"], "penstock config: the following arguments are required: ACTION (see penstock config --help)"),
        (
            ["serve", "--rtmp"],
            "penstock serve: argument --rtmp: expected one argument (see penstock serve --help)",
        ),
        (["serve", "--log", "debug"], "penstock: unrecognized arguments: --log debug (see penstock --help)"),
        (["up", "--port", "19\n35"], "penstock: unrecognized arguments: --port 19 35 (see penstock --help)"),
        (
            ["serve", "--log-level", "loud"],
            "penstock: flag --log-level: logs.level = 'loud': should be 'debug', 'info', 'warning' or 'error'",
        ),
        (
            ["up", "--data", ""],
            "penstock: flag --data: server.data_dir = '': should be a path",
        ),
        (["config", "check", "--config", "/gone"], "penstock: /gone: cannot be read: No such file or directory"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(
    arguments: list[str], line: str, served: list[Config], capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(arguments, capsys) == line
    assert served == []


def test_an_unknown_command_is_told_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(["sreve"], capsys)
    assert all(name in line for name in ("sreve", *cli.COMMANDS))


def test_check_says_that_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "check", "--rtmp", ":1935"]) == 0
    assert capsys.readouterr().out == "The configuration is valid.\n"


def test_check_takes_the_environment_into_account(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PENSTOCK_LIMITS_MAX_CONNECTIONS", "many")
    assert refusal(["config", "check"], capsys) == (
        "penstock: environment PENSTOCK_LIMITS_MAX_CONNECTIONS: limits.max_connections = 'many': "
        "should be a whole number from 1 to 1000000"
    )


def test_show_says_where_a_value_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.toml"
    file.write_text('[relay]\nmax_log_bytes = "32 MB"\n[apps."a b"]\njoin = "next"\n', encoding="utf-8")
    monkeypatch.setenv("PENSTOCK_DEFAULTS_FLUSH", "50ms")
    lines = shown(["--config", str(file), "--rtmp", "[::1]:19"], capsys).splitlines()
    assert 'listen = "[::1]:19"  # flag --rtmp' in lines
    assert f"max_log_bytes = 32_000_000  # {file} line 2" in lines
    assert 'flush = "50ms"  # environment PENSTOCK_DEFAULTS_FLUSH' in lines
    assert lines[-3:] == ['[apps."a b"]', f'join = "next"  # {file} line 4', ""]
    assert len([line for line in lines if "#" in line]) == 4


SHOWN = [
    "",
    '[server]\nid = "edge-1"\ndata_dir = "/srv/ü \\"x\\""\n[tls]\nlisten = "none"\n[http]\nlisten = "none"\n',
    '[recording]\nstreams = ["live/*", "a/\\\\"]\nkeep_s = "30d"\nmax_total_bytes = "500 GB"\nfolder = "/r"\n',
    "[limits]\nhandshake_deadline_s = 0.123456789\nexempts_loopback = false\n[recording]\nstreams = 'all'\n",
    '[defaults]\nflush = 40\n[apps."a\\u007f\\n"]\njoin = "live"\n[apps.empty]\n[apps.b]\ntakeover = "replace"\n',
    f"""[access."*"]
play = ["open"]
[access.live]
publish = ["key", ["ip:10.0.0.0/8", "key"]]
keys = ["studio:sha256:{"0a" * 32}"]
[access.live.aliases]
studio = "main"
"st-2.x" = "a b"
[[hooks]]
url = "https://a.example/hook"
events = ["publish_*"]
secret = "env:HOOK"
[[hooks]]
exec = ["ffmpeg", "{{app}}"]
while = "publishing"
""",
]


@pytest.mark.parametrize("text", SHOWN)
def test_what_show_prints_is_the_same_configuration(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, again = tmp_path / "p.toml", tmp_path / "again.toml"
    file.write_text(text, encoding="utf-8")
    again.write_text(shown(["--config", str(file)], capsys), encoding="utf-8")
    assert load_config(again, {}, {}) == load_config(file, {}, {})


def test_show_keeps_secrets_to_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.toml"
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    text = f'[[hooks]]\nurl = "https://me:pw1@a.example/hook?t=pw2"\nsecret = "{secret}"\n'
    text += '[auth]\ncallback = "http://127.0.0.1/auth?t=pw3"\njwt = "jwks:https://x:pw4@b.example/keys"\n'
    text += '[pipeline]\nspark = ["spark.hadoop.fs.s3a.secret.key=pw5", "spark.executor.memory=4g"]\n'
    file.write_text(text, encoding="utf-8")
    printed = shown(["--config", str(file)], capsys)
    assert not [each for each in ("pw1", "pw2", "pw3", "pw4", "pw5", secret) if each in printed]
    for line in ('url = "https://…@a.example/hook?…"', 'secret = "whsec_…"', "spark.executor.memory=4g"):
        assert line in printed


def test_show_has_every_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(tomllib.loads(shown([], capsys))) == [
        name for name in Config.model_fields if name not in ("apps", "access", "hooks", "push", "pull")
    ]


def test_a_server_whose_secrets_cannot_be_read_does_not_start_and_says_so_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], served: list[Config]
) -> None:
    file = tmp_path / "p.toml"
    file.write_text(f'[auth]\nsigning = ["file:{tmp_path}/gone"]\n', encoding="utf-8")
    assert refusal(["serve", "--config", str(file)], capsys) == (
        f"penstock: auth.signing: {tmp_path}/gone cannot be read: No such file or directory"
    )
    assert served == []
    assert cli.main(["config", "check", "--config", str(file)]) == 0


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("    ")]
    assert set(cli.COMMANDS) <= set(listed)


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for name in cli.COMMANDS:
        with pytest.raises(SystemExit) as ended:
            cli.main([name, "--help"])
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: penstock {name}")


def test_the_options_are_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["serve", "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    for option in ("--config FILE", "--rtmp HOST:PORT", "--rtmps HOST:PORT", "--cert FILE", "--key FILE"):
        assert option in printed
    for option in ("--http HOST:PORT", "--data DIR", "--record PATTERN", "--workers N|auto"):
        assert option in printed
    for option in ("--log-level LEVEL", "--log-format FORMAT"):
        assert option in printed


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["serve", "--help"], ["config", "show", "--help"]])
def test_help_and_version_load_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom penstock.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr == "[]\n"


def test_a_command_loads_no_other_command() -> None:
    program = (
        "import sys\nfrom penstock.cli import main\nmain(['config', 'check'])\n"
        "print([name for name in sys.modules if name.startswith(('penstock.commands.serve', 'penstock.tools'))])\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "The configuration is valid.\n[]\n"


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"penstock {__version__}\n"


def test_the_words_come_from_the_process_unless_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["penstock", "config", "check"])
    assert cli.main() == 0
    assert capsys.readouterr().out == "The configuration is valid.\n"
