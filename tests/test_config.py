"""The configuration: how the value of each key is spelled, what is refused, and what apps build on."""

import operator
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from penstock.config import Config
from penstock.config_sources import VARIABLES
from penstock.config_units import Address, FlushGrid, server_id_of

SECONDS = [(2, 2.0), (2.5, 2.5), ("2", 2.0), ("2s", 2.0), ("2500ms", 2.5), ("2.5 s", 2.5), ("0.05m", 3.0), ("3S", 3.0)]
NO_SECONDS = [
    "",
    "s",
    "-1",
    -1,
    "1 parsec",
    "1 s s",
    True,
    None,
    [1],
    10**400,
    1e300,
    float("inf"),
    float("nan"),
    "9" * 30,
]
BYTES = [
    (1_000_000, 10**6),
    ("1 MB", 10**6),
    ("1000kB", 10**6),
    ("2 MiB", 2**21),
    ("1.5MB", 1_500_000),
    (2e6, 2_000_000),
]
NO_BYTES = ["", "-1 MB", "1 XB", "1.0000001 MB", 1000000.5, False, None, {}, "1e6", 10**30]
COUNTS = [(7, 7), ("7", 7), (7.0, 7)]
NO_COUNTS = [0, -1, 1.5, "7 MB", "seven", "", True, None, [7], 10**9]
ADDRESSES = [
    ("127.0.0.1:1935", Address("127.0.0.1", 1935)),
    (":1935", Address(None, 1935)),
    ("[::1]:1935", Address("::1", 1935)),
    ("[fe80::1%eth0]:0", Address("fe80::1%eth0", 0)),
    ("media.example:65535", Address("media.example", 65535)),
]
NO_ADDRESSES = [
    "",
    "1935",
    "::1:1935",
    "[]:1935",
    "[host]:1935",
    "a b:1",
    "host:",
    "host:65536",
    "h:-1",
    1935,
    True,
    "h:1\n",
]

KEYS: dict[str, tuple[list[Any], list[Any]]] = {
    "server.id": ([("edge-1.example", "edge-1.example")], ["", "a b", "a/b", "x" * 65, 5, "é"]),
    "server.data_dir": ([("/srv/p", Path("/srv/p"))], ["", 5, "a\nb", None]),
    "server.data_mode": (
        [("private", "private"), ("group", "group"), ("world", "world")],
        ["", "0700", 0o700, None, "Private", []],
    ),
    "server.workers": ([(1, 1), ("8", 8), (64, 64), ("auto", "auto")], [0, 65, "all", "", 1.5, None]),
    "server.io_uring": ([(True, True), ("off", False)], ["perhaps", 2, "", None, []]),
    "rtmp.listen": (ADDRESSES, [*NO_ADDRESSES, "none"]),
    "rtmp.chunk_bytes": ([("4 KiB", 4096), (128, 128), (65536, 65536)], [127, 65537, *NO_BYTES]),
    "rtmp.window_bytes": (BYTES, [0, *NO_BYTES]),
    "rtmp.peer_bandwidth_bytes": (BYTES, [0, *NO_BYTES]),
    "rtmp.proxy_protocol": ([(True, True), ("off", False)], ["perhaps", 2, "", None, []]),
    "tls.proxy_protocol": ([(True, True), ("off", False)], ["perhaps", 2, "", None, []]),
    "http.trusted_proxies": (
        [
            ([], ()),
            ("none", ()),
            (["10.0.0.0/8", "fd00::/8"], ("10.0.0.0/8", "fd00::/8")),
            ("192.0.2.1, ::1", ("192.0.2.1/32", "::1/128")),
        ],
        ["", "*", "proxy.example", ["10.0.0.1/8"], ["10.0.0.0/33"], [5], 5, None, {}, ["none", "::1"]],
    ),
    "http.cors_origins": (
        [([], ()), ("https://a.example, http://b:8080", ("https://a.example", "http://b:8080"))],
        ["", "*", "a.example", "https://a.example/", ["https://u@a"], "HTTPS://A", ["ftp://a"], [5], 5, None, {}],
    ),
    "http.hosts": (
        [([], ()), ("none", ()), ("a.example, b", ("a.example", "b")), (["A-1.example"], ("A-1.example",))],
        ["", "*", "a.example:80", "http://a", ["a b"], ["a..b"], [5], 5, None, {}],
    ),
    "auth.signing": (
        [
            ([], ()),
            ("none", ()),
            (["file:secrets/a b", "env:B"], ("file:secrets/a b", "env:B")),
            ("file:a, env:B", ("file:a", "env:B")),
        ],
        ["", "secret", ["secret"], ["file:"], ["env:"], ["env:A B"], ["file:a\nb"], [5], 5, None, {}],
    ),
    "auth.jwt": (
        [
            ("none", None),
            ("file:secrets/jwt", "file:secrets/jwt"),
            ("env:JWT", "env:JWT"),
            ("jwks:https://id.example/keys", "jwks:https://id.example/keys"),
            ("jwks:http://127.0.0.1:9000/keys", "jwks:http://127.0.0.1:9000/keys"),
            ("jwks:keys.json", "jwks:keys.json"),
        ],
        ["", "x" * 32, "jwks:", "jwks:http://id.example/keys", "jwks:ftp://a/b", "jwks:https://", 5, [], {}],
    ),
    "auth.jwt_audience": ([("penstock", "penstock"), ("a b", "a b")], ["", 5, "x" * 256, None]),
    "auth.callback": (
        [("none", None), ("http://127.0.0.1:9000/auth?a=b", "http://127.0.0.1:9000/auth?a=b")],
        ["", "127.0.0.1:9000", "ftp://a", "http://", "http://a b", "http://a#b", "http://a:99999", 5, []],
    ),
    "auth.callback_timeout_s": ([("500ms", 0.5), (4, 4.0)], [0, 5, *NO_SECONDS]),
    "auth.callback_fails": ([("deny", "deny"), ("allow", "allow")], ["", "open", True, None]),
    "auth.callback_style": ([("json", "json"), ("nginx", "nginx")], ["", "xml", None]),
    "api.keys": (
        [([], ()), (f"boss:admin:sha256:{'0a' * 32}", (f"boss:admin:sha256:{'0a' * 32}",))],
        ["", "boss", ["boss:owner:sha256:" + "0a" * 32], ["boss:admin:sha256:0a"], ["boss:sha256:" + "0a" * 32], [5]],
    ),
    "api.loopback_reads": ([(True, True), ("off", False)], ["perhaps", 2, "", None, []]),
    "http.listen": ([*ADDRESSES, ("none", None)], NO_ADDRESSES),
    "http.web_listen": ([*ADDRESSES, ("none", None)], NO_ADDRESSES),
    "limits.max_connections": (COUNTS, NO_COUNTS),
    "limits.max_connections_per_ip": (COUNTS, NO_COUNTS),
    "limits.max_new_connections_per_ip_per_s": (COUNTS, NO_COUNTS),
    "limits.exempts_loopback": (
        [(True, True), ("no", False), ("1", True), (False, False)],
        ["perhaps", 2, "", None, []],
    ),
    "limits.max_plays_per_connection": ([(1, 1), ("32", 32)], [33, *NO_COUNTS]),
    "limits.max_messages_per_s": ([(100, 100), (5000, 5000)], [99, *NO_COUNTS]),
    "limits.max_viewers_per_stream": (COUNTS, NO_COUNTS),
    "limits.max_pulls": (COUNTS, NO_COUNTS),
    "limits.max_publish_bps": ([(10**6, 10**6), ("8 Mbit/s", 8 * 10**6), ("9.5kbit/s", 9500)], ["8 MB", 1, True, ""]),
    "limits.max_publish_messages_per_s": ([(100, 100), (5000, 5000)], [99, *NO_COUNTS]),
    "limits.max_message_bytes": (BYTES, [2**24, *NO_BYTES]),
    "limits.max_half_message_bytes": ([("32 MB", 32 * 10**6)], [0, *NO_BYTES]),
    "limits.half_message_deadline_s": (SECONDS, [0, *NO_SECONDS]),
    "limits.handshake_deadline_s": (SECONDS, [0, "2h", *NO_SECONDS]),
    "limits.connect_deadline_s": (SECONDS, [0, *NO_SECONDS]),
    "limits.ping_interval_s": (SECONDS, [0, *NO_SECONDS]),
    "limits.silent_peer_s": ([("1m", 60.0)], [0, *NO_SECONDS]),
    "relay.max_log_gops": (COUNTS, NO_COUNTS),
    "relay.max_log_s": (SECONDS, [0, *NO_SECONDS]),
    "relay.max_log_bytes": (BYTES, [0, *NO_BYTES]),
    "relay.max_total_log_bytes": ([("2 GB", 2 * 10**9)], [0, *NO_BYTES]),
    "relay.ffmpeg_lookback_s": ([("5.5s", 5.5), (0, 0.0)], [61, *NO_SECONDS]),
    "relay.slow_viewer_s": (SECONDS, [0, *NO_SECONDS]),
    "hls.enabled": ([(True, True), ("off", False)], ["perhaps", 2, "", None, []]),
    "hls.part_ms": ([(200, 200), ("100", 100)], [49, 1001, *NO_COUNTS]),
    "hls.min_segment_s": ([("500ms", 0.5), (2, 2.0)], [0, 61, *NO_SECONDS]),
    "hls.segment_s": ([("4s", 4.0), (1, 1.0)], [0, 61, *NO_SECONDS]),
    "hls.max_segment_s": ([("30s", 30.0), (2, 2.0)], [0, 61, *NO_SECONDS]),
    "hls.playlist_s": ([("1m", 60.0), (6, 6.0)], [5, "2h", *NO_SECONDS]),
    "recording.streams": (
        [
            ("all", ("*/*",)),
            ("none", ()),
            ([], ()),
            (["all"], ("*/*",)),
            ("live/*, vod/x", ("live/*", "vod/x")),
            (["live/*"], ("live/*",)),
        ],
        ["live", ["live/*", "none"], ["all", "live/*"], [5], 5, True, {}, "", "a/b\nc"],
    ),
    "recording.folder": ([("/srv/r", Path("/srv/r")), ("none", None)], ["", 5]),
    "recording.max_segment_s": (SECONDS, [0, *NO_SECONDS]),
    "recording.max_segment_bytes": (BYTES, [0, *NO_BYTES]),
    "recording.keep_s": (
        [("none", None), ("30d", 2_592_000.0)],
        [0, "never", *[bad for bad in NO_SECONDS if bad is not None]],
    ),
    "recording.max_total_bytes": ([("none", None), *BYTES], [0, *[bad for bad in NO_BYTES if bad is not None]]),
    "recording.min_free_bytes": ([(0, 0), *BYTES], NO_BYTES),
    "recording.max_backlog_bytes": (BYTES, [0, *NO_BYTES]),
    "recording.max_backlog_s": (SECONDS, [0, *NO_SECONDS]),
    "facts.enabled": ([("off", False), (True, True)], ["", "maybe", None]),
    "facts.flush_s": (SECONDS, [0, *NO_SECONDS]),
    "facts.rotate_s": (SECONDS, [0, *NO_SECONDS]),
    "facts.rotate_bytes": (BYTES, [0, *NO_BYTES]),
    "facts.max_total_bytes": ([("none", None), ("2 GB", 2 * 10**9)], [0, "20 MB"]),
    "facts.stream_sample_s": (SECONDS, [0, *NO_SECONDS]),
    "facts.viewer_sample_s": (SECONDS, [0, *NO_SECONDS]),
    "pipeline.enabled": ([("off", False), (True, True)], ["", "maybe", None]),
    "pipeline.every_s": ([("2m", 120.0)], [0, *NO_SECONDS]),
    "pipeline.lake": (
        [("none", None), ("/srv/lake", "/srv/lake"), ("s3a://b/lake", "s3a://b/lake")],
        ["", " ", 5, "a\nb"],
    ),
    "pipeline.master": (
        [(each, each) for each in ("local", "local[4]", "local[*]", "yarn", "spark://h:7077", "k8s://https://h:6443")],
        ["", "here", "local[x]", 4, None, "spark://a b"],
    ),
    "pipeline.heap_bytes": ([("2 GB", 2 * 10**9)], [0, "100 MB", *NO_BYTES]),
    "pipeline.spark": (
        [
            ([], ()),
            ("none", ()),
            ("spark.a=1, spark.b.c=x y", ("spark.a=1", "spark.b.c=x y")),
            (["spark.a="], ("spark.a=",)),
        ],
        ["spark", ["a=1"], [5], 5, {}, ["spark.a=\n"]],
    ),
    "pipeline.silent_s": ([("2m", 120.0)], [0, *NO_SECONDS]),
    "pipeline.quiet_every_s": ([("2m", 120.0)], [0, *NO_SECONDS]),
    "pipeline.idle_s": ([("2m", 120.0)], [0, *NO_SECONDS]),
    "pipeline.dimensions.parameters": (
        [
            ("none", ()),
            ([], ()),
            (["campaign", "utm-source"], ("campaign", "utm-source")),
            ("campaign, Region_2", ("campaign", "Region_2")),
            (("author", "keynote", "signal"), ("author", "keynote", "signal")),
        ],
        [
            "",
            5,
            {},
            [5],
            [[]],
            ["1st"],
            ["a b"],
            ["a" * 33],
            ["a", "a"],
            [f"p{number}" for number in range(9)],
            # Dimensions that are there without it, and what would tell who somebody is, or let others in.
            *(["all"], ["Country"], ["network"], ["viewer"], ["auth_subject"]),
            *([name] for name in ("token", "accessToken", "key", "api_key", "streamkey", "sig", "X-Amz-Signature")),
            *([name] for name in ("password", "pwd", "auth", "client-secret", "jwt")),
        ],
    ),
    "pipeline.dimensions.country_db": ([("none", None), ("geo.mmdb", Path("geo.mmdb"))], ["", 5]),
    "pipeline.dimensions.asn_db": ([("none", None), ("asn.mmdb", Path("asn.mmdb"))], ["", 5]),
    "pipeline.dimensions.auth_subject": ([("off", False), (True, True)], ["", "maybe", None]),
    "pipeline.dimensions.max_values": (COUNTS, NO_COUNTS),
    "retention.landing_s": ([(0, 0.0), ("2d", 172_800.0)], NO_SECONDS),
    "retention.address_s": ([(0, 0.0), ("7d", 604_800.0)], NO_SECONDS),
    "retention.bronze_s": ([("30d", 2_592_000.0)], [0, *NO_SECONDS]),
    "retention.views_s": ([("400d", 34_560_000.0)], [0, *NO_SECONDS]),
    "ship.to": ([("none", None), ("/srv/facts", "/srv/facts")], ["", 5]),
    "ship.every_s": ([("1m", 60.0)], [0, *NO_SECONDS]),
    "logs.level": ([(level, level) for level in ("debug", "info", "warning", "error")], ["INFO", "", 20, None]),
    "logs.format": ([("auto", "auto"), ("json", "json"), ("console", "console")], ["text", True]),
    "logs.hex_dump_bytes": ([(0, 0), ("1 kB", 1000)], ["1 MB", *NO_BYTES]),
    "defaults.flush": (
        [("auto", "auto"), ("frame", "frame"), (50, FlushGrid(50)), ("50ms", FlushGrid(50)), ("50", FlushGrid(50))],
        ["", "never", 0, 1001, "1s", 0.5, True, None],
    ),
    "defaults.join": ([(each, each) for each in ("keyframe", "next", "live")], ["last", "", 1]),
    "defaults.takeover": ([("refuse", "refuse"), ("replace", "replace")], ["take", None]),
    "defaults.grace_s": ([(0, 0.0), *SECONDS], NO_SECONDS),
    "defaults.play_wait_s": ([(0, 0.0), *SECONDS], NO_SECONDS),
}
KEYS_OF_FILES = {"tls.listen", "tls.cert", "tls.key", "http.cert", "http.key"}
ANY_FILE = __file__


def with_value(key: str, value: object) -> Config:
    for part in reversed(key.split(".")):
        value = {part: value}
    return Config.model_validate(value)


def as_values(config: Config) -> dict[str, Any]:
    # A section with a field called keys looks like a mapping to dict.
    return {section: dict(iter(table)) if isinstance(table, BaseModel) else table for section, table in config}


def value_of(config: Config, key: str) -> object:
    return operator.attrgetter(key)(config)


@pytest.mark.parametrize("key", KEYS)
def test_each_key_takes_its_values_and_refuses_all_others(key: str) -> None:
    good, bad = KEYS[key]
    for value, read in good:
        found = value_of(with_value(key, value), key)
        assert found == read, value
        assert type(found) is type(read), value
    for value in bad:
        with pytest.raises(ValidationError):
            with_value(key, value)


def test_the_table_above_has_every_key() -> None:
    assert {".".join(key) for key in VARIABLES.values()} == set(KEYS) | KEYS_OF_FILES


def test_every_default_is_a_value_that_its_key_takes() -> None:
    assert Config.model_validate(as_values(Config())) == Config()


def test_what_was_read_is_read_again_as_itself() -> None:
    config = Config.model_validate(
        {"defaults": {"flush": "50ms"}, "recording": {"streams": "all"}, "tls": {"cert": None}}
    )
    assert Config.model_validate(as_values(config)) == config


def test_the_landing_folder_holds_at_least_two_files() -> None:
    with pytest.raises(ValidationError, match=r"at least twice facts\.rotate_bytes"):
        Config.model_validate({"facts": {"rotate_bytes": "1 GB", "max_total_bytes": "1999 MB"}})
    Config.model_validate({"facts": {"rotate_bytes": "1 GB", "max_total_bytes": "2 GB"}})


def test_https_has_a_certificate_a_key_and_an_address_or_none_of_them() -> None:
    with pytest.raises(ValidationError, match=r"needs http\.key as well"):
        Config.model_validate({"http": {"cert": ANY_FILE}})
    with pytest.raises(ValidationError, match=r"needs http\.cert as well"):
        Config.model_validate({"http": {"key": ANY_FILE, "cert": "none"}})
    with pytest.raises(ValidationError, match=r"needs http\.listen or http\.web_listen as well"):
        Config.model_validate({"http": {"key": ANY_FILE, "cert": ANY_FILE, "listen": "none"}})
    Config.model_validate({"http": {"key": ANY_FILE, "cert": ANY_FILE, "listen": "none", "web_listen": ":8443"}})
    config = Config.model_validate({"http": {"cert": ANY_FILE, "key": ANY_FILE}})
    assert (config.http.cert, config.http.key) == (Path(ANY_FILE), Path(ANY_FILE))


def test_the_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Config().limits.max_connections = 5


def test_the_configuration_can_be_handed_to_another_process() -> None:
    config = Config.model_validate({"apps": {"live": {"join": "next"}}})
    assert pickle.loads(pickle.dumps(config)) == config


def test_an_app_builds_on_the_defaults() -> None:
    values = {"defaults": {"join": "live", "grace_s": 3}, "apps": {"studio": {"grace_s": "1m"}, "plain": {}}}
    config = Config.model_validate(values)
    assert (config.app("studio").join, config.app("studio").grace_s) == ("live", 60.0)
    assert config.app("plain") == config.app("never named") == config.defaults
    assert (config.defaults.join, config.defaults.grace_s) == ("live", 3.0)


def test_an_app_stands_alone_where_the_defaults_are_untouched() -> None:
    assert Config.model_validate({"apps": {"live": {"takeover": "replace"}}}).app("live").takeover == "replace"


def test_folders_are_in_the_data_folder_unless_named() -> None:
    config = with_value("server.data_dir", "/srv")
    assert (config.recordings_dir, config.facts_dir) == (Path("/srv/recordings"), Path("/srv/facts"))
    assert with_value("recording.folder", "/mnt/r").recordings_dir == Path("/mnt/r")


@pytest.mark.parametrize("text", ["127.0.0.1:1935", ":0", "[::1]:1935"])
def test_an_address_is_written_as_it_is_read(text: str) -> None:
    assert str(with_value("rtmp.listen", text).rtmp.listen) == text


@pytest.mark.parametrize(("host", "server_id"), [("vm-1", "vm-1"), ("my host/é", "my-host--"), ("", "penstock")])
def test_any_host_name_gives_a_server_id(host: str, server_id: str) -> None:
    assert server_id_of(host) == server_id


@given(st.decimals(60_000, 80_000, places=3), st.sampled_from([("", 1), ("s", 1), ("ms", 1), (" m", 60), ("h", 3600)]))
def test_durations_are_what_their_unit_says(number: Decimal, unit: tuple[str, int]) -> None:
    name, factor = unit
    seconds = number / 1000 if name == "ms" else number * factor
    assert with_value("recording.keep_s", f"{number}{name}").recording.keep_s == pytest.approx(float(seconds))
