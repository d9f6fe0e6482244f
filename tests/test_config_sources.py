"""Where the configuration comes from: which source wins, and the one line that tells what is wrong."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config import Config
from penstock.config_sources import FLAGS, VARIABLES, Key, key_lines, load_config, load_text, load_with_origins
from penstock.config_units import Address, FlushGrid
from penstock.errors import ConfigError

EXAMPLE = Path(__file__).parent.parent / "penstock.example.toml"
ANY_FILE = __file__


def written(folder: Path, text: str) -> Path:
    file = folder / "p.toml"
    file.write_text(text, encoding="utf-8")
    return file


def complaint(file: Path | None = None, environment: dict[str, str] | None = None, **flags: object) -> str:
    """The line about a configuration that must be wrong; log_level stands for --log-level."""
    typed = {f"--{name.replace('_', '-')}": value for name, value in flags.items()}
    with pytest.raises(ConfigError) as caught:
        load_config(file, environment or {}, typed)
    line = str(caught.value)
    assert line.isprintable(), "an error is one line"
    assert len(line) < 500
    return line


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    file = written(tmp_path, '[rtmp]\nlisten = ":1"\n[http]\nlisten = ":2"\n[logs]\nlevel = "error"\n')
    environment = {
        "PENSTOCK_RTMP_LISTEN": ":11",
        "PENSTOCK_HTTP_LISTEN": ":12",
        "HOME": "/",
        "PENSTOCK_LOGS_FORMAT": "",
    }
    loaded = load_with_origins(file, environment, {"--rtmp": ":21"})
    config = loaded.config
    assert (config.rtmp.listen.port, config.http.listen) == (21, Address(None, 12))
    assert (config.logs.level, config.logs.format) == ("error", "auto")
    assert {key: origin for key, origin in loaded.origins.items() if len(key) == 2} == {
        ("rtmp", "listen"): "flag --rtmp",
        ("http", "listen"): "environment PENSTOCK_HTTP_LISTEN",
        ("logs", "level"): f"{file} line 6",
    }


def test_nothing_given_is_the_defaults() -> None:
    assert load_config(None, {}, {}) == Config()


def test_a_variable_names_the_file_and_the_flag_names_another(tmp_path: Path) -> None:
    file = written(tmp_path, "[limits]\nmax_connections = 5\n")
    other = tmp_path / "other.toml"
    other.write_text("", encoding="utf-8")
    environment = {"PENSTOCK_CONFIG": str(file)}
    assert load_config(None, environment, {}).limits.max_connections == 5
    assert load_config(other, environment, {}) == Config()


def test_every_key_has_its_variable() -> None:
    assert VARIABLES["PENSTOCK_RTMP_LISTEN"] == ("rtmp", "listen")
    assert VARIABLES["PENSTOCK_LIMITS_MAX_CONNECTIONS"] == ("limits", "max_connections")
    assert VARIABLES["PENSTOCK_PIPELINE_DIMENSIONS_PARAMETERS"] == ("pipeline", "dimensions", "parameters")
    assert len(set(VARIABLES.values())) == len(VARIABLES)


def test_a_section_inside_a_section_is_read_from_every_source(tmp_path: Path) -> None:
    file = written(tmp_path, '[pipeline.dimensions]\nparameters = ["campaign"]\nmax_values = 5\n')
    environment = {"PENSTOCK_PIPELINE_DIMENSIONS_MAX_VALUES": "7"}
    loaded = load_with_origins(file, environment, {"--master": "yarn"})
    assert loaded.config.pipeline.master == "yarn"
    dimensions = loaded.config.pipeline.dimensions
    assert (dimensions.parameters, dimensions.max_values) == (("campaign",), 7)
    assert loaded.origins["pipeline", "dimensions", "parameters"] == f"{file} line 2"
    assert (
        loaded.origins["pipeline", "dimensions", "max_values"] == "environment PENSTOCK_PIPELINE_DIMENSIONS_MAX_VALUES"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[pipeline.dimensions]\nparameters = ["token"]\n',
            "line 2: pipeline.dimensions.parameters = ['token']: should not",
        ),
        ("[pipeline.dimensions]\nparameter = []\n", "did you mean pipeline.dimensions.parameters?"),
        ("[pipeline]\ndimensions = 5\n", "line 2: pipeline.dimensions = 5: should be a table"),
    ],
)
def test_what_is_wrong_inside_a_section_of_a_section_is_said(tmp_path: Path, text: str, said: str) -> None:
    assert said in complaint(written(tmp_path, text))


def test_every_flag_is_a_key() -> None:
    assert set(FLAGS.values()) <= set(VARIABLES.values())


def test_variables_of_a_cluster_that_has_a_service_of_our_name_are_none_of_ours() -> None:
    environment = {
        "PENSTOCK_SERVICE_HOST": "10.0.0.1",
        "PENSTOCK_PORT": "tcp://10.0.0.1:1935",
        "PENSTOCK_PORT_1935_TCP": "x",
    }
    assert load_config(None, environment, {}) == Config()


def test_a_wrong_value_in_the_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = written(tmp_path, "# ours\n[limits]\n\nmax_connections = 0 # none\n")
    assert complaint(file) == (f"{file} line 4: limits.max_connections = 0: should be a whole number from 1 to 1000000")


def test_a_wrong_variable_is_told_by_its_name() -> None:
    assert complaint(environment={"PENSTOCK_RTMP_LISTEN": "1935\n"}) == (
        "environment PENSTOCK_RTMP_LISTEN: rtmp.listen = '1935\\n': "
        "should be HOST:PORT, such as 127.0.0.1:1935, [::1]:1935 or :1935 for every interface"
    )


def test_a_wrong_flag_is_told_by_its_name() -> None:
    assert complaint(log_level="loud") == (
        "flag --log-level: logs.level = 'loud': should be 'debug', 'info', 'warning' or 'error'"
    )


def test_a_wrong_switch_is_told_in_words() -> None:
    assert complaint(environment={"PENSTOCK_FACTS_ENABLED": "maybe"}) == (
        "environment PENSTOCK_FACTS_ENABLED: facts.enabled = 'maybe': should be true or false"
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[limits]\nmax_conections = 5",
            "line 2: limits.max_conections: unknown key; did you mean limits.max_connections?",
        ),
        ("[limit]\nmax_connections = 5", "line 1: limit: unknown key; did you mean limits?"),
        ("[zzz]", "line 1: zzz: unknown key"),
        ("[apps.live]\njion = 'next'", "line 2: apps.live.jion: unknown key; did you mean join?"),
        ("[apps.live]\njoin = 'last'", "line 2: apps.live.join = 'last': should be 'keyframe', 'next' or 'live'"),
        ("[apps.'a\\b']\njoin = 5", "line 2: apps.'a\\\\b'.join = 5: should be 'keyframe', 'next' or 'live'"),
        ("[defaults]\njoin = 'x'\n[apps.a]", "line 2: defaults.join = 'x': should be 'keyframe', 'next' or 'live'"),
        ("limits = 5", "line 1: limits = 5: should be a table"),
        ("[apps]\nlive = 'x'", "line 2: apps.live = 'x': should be a table"),
        ("apps = []", "line 1: apps = []: should be a table"),
        (
            "[limits]\nmax_connections = {}",
            "line 2: limits.max_connections = {}: should be a whole number from 1 to 1000000",
        ),
        (
            "[relay]\nslow_viewer_s = 5\nmax_log_bytes = '2 GB'",
            "line 3: relay.max_log_bytes = '2 GB': relay.max_total_log_bytes should not be below relay.max_log_bytes",
        ),
        (
            "[limits]\nping_interval_s = 60",
            "line 2: limits.ping_interval_s = 60: limits.silent_peer_s should be above limits.ping_interval_s, 60",
        ),
        ("[tls]\nlisten = ':1'", "line 2: tls.listen = ':1': needs tls.cert and tls.key as well"),
        ("[tls]\ncert = '/nowhere'", "line 2: tls.cert = '/nowhere': should be the path of a file that can be read"),
    ],
)
def test_what_is_wrong_in_the_file_is_told_in_one_line(tmp_path: Path, text: str, line: str) -> None:
    file = written(tmp_path, text)
    assert complaint(file) == f"{file} {line}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("access = 5", "line 1: access: should be a table"),
        ("[access]\nlive = ['open']", "line 2: access.live: should be a table"),
        ("[access.live]\naliases = 5", "line 2: access.live.aliases: should be a table"),
        ("[access.live]\npubish = []", "line 2: access.live.pubish: unknown key; did you mean publish?"),
        (
            "[access.live]\npublish = ['jwt']",
            "line 2: access.live.publish = ['jwt']: access.live.publish has jwt, which needs auth.jwt",
        ),
        (
            "[access.'*']\nplay = ['signed']",
            "line 2: access.'*'.play = ['signed']: access.*.play has signed, which needs auth.signing",
        ),
        (
            "[apps.live]\n[apps.api]",
            "line 2: apps.api = {}: apps.api should have another name: /api is a path of the server's own",
        ),
        (
            "[access.'api/v1']\nplay = ['open']",
            "line 1: access.'api/v1': access.api/v1 should have another name: /api/v1 is a path of the server's own",
        ),
        ("hooks = 5", "line 1: hooks: should be a list of tables, as [[hooks]] makes it"),
        ("hooks = [5]", "line 1: hooks.0: should be a list of tables, as [[hooks]] makes it"),
        ("[[hooks]]\nulr = 'https://a'", "line 1: hooks.0.ulr: unknown key; did you mean url?"),
        ("[[hooks]]\nwhile = 'publishing'", "line 1: hooks.0: needs either url or exec"),
    ],
)
def test_what_is_wrong_in_access_and_hooks_is_told_in_one_line(tmp_path: Path, text: str, line: str) -> None:
    file = written(tmp_path, text)
    assert complaint(file) == f"{file} {line}"


@pytest.mark.parametrize(
    "text",
    [
        "[auth]\nsigning = ['hunter2']",
        "[auth]\nsigning = 'hunter2'",
        "[auth]\njwt = 'hunter2'",
        "[auth]\ncallback = 'hunter2'",
        "[access.live]\nkeys = ['hunter2']",
        "[api]\nkeys = ['hunter2']",
        "[[hooks]]\nurl = 'hunter2'",
        "[hooks]\nsecret = 'hunter2'",
        "auth = 'hunter2'",
        "[api]\n[access]\nkeys = 'hunter2'",
        "[access.live.aliases]\nstudio = ['hunter2']",
        "[[hooks]]\nurl = 'https://a.example'\nsecret = 'hunter2'",
    ],
)
def test_a_secret_in_the_wrong_place_is_not_repeated(tmp_path: Path, text: str) -> None:
    assert "hunter2" not in complaint(written(tmp_path, text))


def test_a_secret_in_a_variable_that_should_hold_a_reference_is_not_repeated() -> None:
    assert complaint(environment={"PENSTOCK_AUTH_JWT": "hunter2"}) == (
        'environment PENSTOCK_AUTH_JWT: auth.jwt: should be "file:PATH" or "env:NAME", not the secret itself'
    )


def test_variables_that_hold_secrets_may_be_called_like_settings(tmp_path: Path) -> None:
    file = written(tmp_path, "[auth]\nsigning = ['env:PENSTOCK_SIGNING', 'env:PENSTOCK_OLD']\n")
    environment = {"PENSTOCK_SIGNING": "a", "PENSTOCK_OLD": "b", "PENSTOCK_TOKEN": "c"}
    assert load_config(file, environment, {}).auth.signing == ("env:PENSTOCK_SIGNING", "env:PENSTOCK_OLD")
    assert "unknown variable" in complaint(environment=environment)


def test_an_unknown_variable_is_told_with_the_nearest() -> None:
    assert complaint(environment={"PENSTOCK_RTMP_LISTN": ":1"}) == (
        "environment PENSTOCK_RTMP_LISTN: unknown variable; did you mean PENSTOCK_RTMP_LISTEN?"
    )


def test_a_variable_with_a_line_break_in_its_name_stays_in_its_line() -> None:
    assert complaint(environment={"PENSTOCK_A\nB": "1"}).startswith("environment 'PENSTOCK_A\\nB': unknown variable")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[limits\n", "no TOML: Expected ']' at the end of a table declaration (at line 1, column 8)"),
        (b"a = 1\na = 2\n", "no TOML: Cannot overwrite a value (at line 2, column 6)"),
        (b"\xff", "no TOML: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b"a = " + b"9" * 5000, "no TOML: "),
        (b"a = " + b"[" * 5000, "no TOML: "),
        (b"[" + b"a." * 5000 + b"a]\n", "no TOML: "),
    ],
)
def test_a_file_that_is_no_toml_is_told_in_one_line(tmp_path: Path, data: bytes, reason: str) -> None:
    file = tmp_path / "p.toml"
    file.write_bytes(data)
    assert complaint(file).startswith(f"{file}: {reason}")


def test_a_file_that_cannot_be_read_is_told_in_one_line(tmp_path: Path) -> None:
    assert complaint(tmp_path / "gone") == f"{tmp_path}/gone: cannot be read: No such file or directory"
    assert complaint(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"
    assert complaint(tmp_path / "a\nb") == f"'{tmp_path}/a\\nb': cannot be read: No such file or directory"


def test_a_long_value_is_cut() -> None:
    assert "x…: should be HOST:PORT" in complaint(rtmp="x" * 1000)


def test_rtmps_has_all_three_or_none() -> None:
    config = load_config(None, {}, {"--rtmps": ":1936", "--cert": ANY_FILE, "--key": ANY_FILE})
    assert (config.tls.listen, config.tls.cert) == (Address(None, 1936), Path(ANY_FILE))
    assert complaint(cert=ANY_FILE, key=ANY_FILE).endswith("needs tls.listen as well")
    assert complaint(rtmps=":1936", cert=ANY_FILE).endswith("needs tls.key as well")


def test_lines_are_found_however_toml_is_written() -> None:
    text = 'a.b = 1\n[c]\nd = [ # list\n  "[x]",\n  2,\n]\n\n"e f" = """\ng = 1\n"""\n'
    text += "[[h]]\ni = {j = 1}\n[c.k] # end\nl = 1\n"
    lines: dict[Key, int] = {
        ("a",): 1,
        ("a", "b"): 1,
        ("c",): 2,
        ("c", "d"): 3,
        ("c", "e f"): 8,
        ("h",): 11,
        ("c", "k"): 13,
        ("c", "k", "l"): 14,
    }
    assert key_lines(text) == lines
    assert key_lines(text.replace("\n", "\r\n")) == lines


def test_the_example_is_the_defaults_with_every_key() -> None:
    loaded = load_with_origins(EXAMPLE, {}, {})
    assert loaded.config == Config()
    tables = {key[:-1] for key in loaded.origins}
    named = {".".join(key) for key in loaded.origins if key not in tables}
    # Its default is the machine's name, which an example cannot know.
    assert named == {".".join(key) for key in VARIABLES.values()} - {"server.id"}


def test_what_the_example_offers_in_comments_is_valid(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace("# [apps.live]", "[apps.live]")
    text, _, more = text.replace("\n# join", "\njoin").replace("\n# flush", "\nflush").partition("\n# [access.live]")
    file = written(tmp_path, text + "\n# [access.live]".replace("# ", "") + more.replace("\n# ", "\n"))
    text = file.read_text(encoding="utf-8").replace('jwt = "none"', 'jwt = "env:JWT"')
    config = load_config(written(tmp_path, text), {}, {})
    assert config.app("live").flush == FlushGrid(100)
    assert (config.access["live"].aliases, len(config.hooks)) == ({"studio": "main"}, 2)


ANY_VALUE = st.one_of(
    st.text(max_size=20), st.integers(), st.floats(), st.booleans(), st.lists(st.text(max_size=5), max_size=3)
)


def complaint_or_none(environment: dict[str, str], flags: dict[str, object]) -> str | None:
    try:
        load_config(None, environment, flags)
    except ConfigError as error:
        return str(error)
    return None


@given(st.sampled_from(sorted(VARIABLES)), st.text(st.characters(exclude_characters="\0"), max_size=30))
def test_any_variable_gives_a_configuration_or_one_line(name: str, value: str) -> None:
    line = complaint_or_none({name: value}, {})
    assert line is None or (line.isprintable() and line.startswith(f"environment {name}: "))


@given(st.sampled_from(sorted(FLAGS)), ANY_VALUE)
def test_any_value_gives_a_configuration_or_one_line(flag: str, value: object) -> None:
    line = complaint_or_none({}, {flag: value})
    assert line is None or (line.isprintable() and line.startswith(f"flag {flag}: "))


def test_a_text_is_judged_alone_and_no_reference_in_it_is_followed() -> None:
    loaded = load_text(b"[auth]\njwt = 'file:/nowhere/secret'\n[rtmp]\nlisten = ':1'\n", "text")
    assert loaded.config.auth.jwt == "file:/nowhere/secret"
    assert loaded.origins[("rtmp", "listen")] == "text line 4"
    with pytest.raises(ConfigError, match=r"text line 2: rtmp\.chunk_bytes = 5: should be"):
        load_text(b"[rtmp]\nchunk_bytes = 5\n", "text")
