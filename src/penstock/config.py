"""The configuration: one frozen, validated object, made once at start and handed down.

Owns every key, its default and its bounds. A key is `section.name`, and names carry the unit. Knows neither files nor
variables nor flags: those are read by `config_sources`, and how values are spelled is known by `config_units`.
"""

# Long because: every setting is here.

import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, model_validator

from penstock.config_access import MAX_HOOKS, AccessConfig, Api, Auth, HookConfig, read_hosts, read_origins
from penstock.config_units import (
    DAY,
    GB,
    HOUR,
    KB,
    MB,
    NONE_WORD,
    TB,
    Address,
    FlushPolicy,
    read_address,
    read_bits_per_second,
    read_byte_count,
    read_count,
    read_file_path,
    read_flush,
    read_location,
    read_master,
    read_networks,
    read_parameters,
    read_path,
    read_patterns,
    read_seconds,
    read_server_id,
    read_spark_settings,
    read_workers,
    server_id_of,
)
from penstock.media_paths import is_reserved
from penstock.pulls.config import MAX_PULLS_SECTIONS, PullConfig
from penstock.pushes.config import MAX_PUSHES, PushConfig

YEAR = 365 * DAY


def _count(low: int, high: int) -> PlainValidator:
    return PlainValidator(partial(read_count, low=low, high=high))


def _bytes(low: int, high: int) -> PlainValidator:
    return PlainValidator(partial(read_byte_count, low=low, high=high))


def _seconds(low: float, high: float) -> PlainValidator:
    return PlainValidator(partial(read_seconds, low=low, high=high))


def _or_none(validator: PlainValidator) -> PlainValidator:
    """The same, where the value may be absent."""
    read: Any = validator.func
    return PlainValidator(lambda value: None if value is None or value == NONE_WORD else read(value))


_address = PlainValidator(read_address)


def _default_server_id() -> str:
    return server_id_of(socket.gethostname())


class _Section(BaseModel):
    # An error that is logged as it is holds no value: some are secrets.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Server(_Section):
    """The process as a whole."""

    id: Annotated[str, PlainValidator(read_server_id)] = Field(default_factory=_default_server_id)
    data_dir: Annotated[Path, PlainValidator(read_path)] = Path("data")
    data_mode: Literal["private", "group", "world"] = "private"
    """Who may read what the server makes in its data folder: addresses of peers and stream keys are in there."""
    workers: Annotated[int | Literal["auto"], PlainValidator(partial(read_workers, most=64))] = 1
    """Processes that serve media. `auto`: one for each core that this process may use."""
    io_uring: bool = True
    """Where the kernel lets us; else the server does without."""


class Rtmp(_Section):
    """Where RTMP is served, and what every peer is told after its handshake."""

    listen: Annotated[Address, _address] = Address("127.0.0.1", 1935)
    chunk_bytes: Annotated[int, _bytes(128, 65_536)] = 4096
    window_bytes: Annotated[int, _bytes(64 * KB, GB)] = 2_500_000
    peer_bandwidth_bytes: Annotated[int, _bytes(64 * KB, GB)] = 2_500_000
    proxy_protocol: bool = False
    """Whether each connection begins with the PROXY protocol. Whoever can reach the port can then name any address."""


class Tls(_Section):
    """RTMPS. Address, certificate and key belong together: all or none."""

    listen: Annotated[Address | None, _or_none(_address)] = None
    cert: Annotated[Path | None, _or_none(PlainValidator(read_file_path))] = None
    key: Annotated[Path | None, _or_none(PlainValidator(read_file_path))] = None
    proxy_protocol: bool = False
    """As for RTMP: in front of the handshake of TLS."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        missing = [name for name in ("listen", "cert", "key") if getattr(self, name) is None]
        if len(missing) in (1, 2):
            raise ValueError(f"needs {' and '.join(f'tls.{name}' for name in missing)} as well")
        return self


class Http(_Section):
    """The web page, HTTP viewers and the API."""

    listen: Annotated[Address | None, _or_none(_address)] = Address("127.0.0.1", 8080)
    web_listen: Annotated[Address | None, _or_none(_address)] = None
    """Where everything but media is served instead, if it is to have a port of its own."""
    cert: Annotated[Path | None, _or_none(PlainValidator(read_file_path))] = None
    key: Annotated[Path | None, _or_none(PlainValidator(read_file_path))] = None
    """With both, HTTPS is served at both addresses."""
    trusted_proxies: Annotated[tuple[str, ...], PlainValidator(read_networks)] = ()
    """Whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed."""
    cors_origins: Annotated[tuple[str, ...], PlainValidator(read_origins)] = ()
    """Pages of other origins that may use the API."""
    hosts: Annotated[tuple[str, ...], PlainValidator(read_hosts)] = ()
    """Names that requests to the API may have in `Host`, besides addresses, localhost and the machine's own."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        missing = [name for name in ("cert", "key") if getattr(self, name) is None]
        if len(missing) == 1:
            raise ValueError(f"needs http.{missing[0]} as well")
        if not missing and self.listen is None and self.web_listen is None:
            raise ValueError("needs http.listen or http.web_listen as well")
        return self


class Limits(_Section):
    """What peers may make us hold, and how long they may keep us waiting."""

    max_connections: Annotated[int, _count(1, 1_000_000)] = 10_000
    max_connections_per_ip: Annotated[int, _count(1, 1_000_000)] = 100
    max_new_connections_per_ip_per_s: Annotated[int, _count(1, 1_000_000)] = 20
    """With as many at once as one address may have in all, so that a crowd behind one router gets in."""
    exempts_loopback: bool = True
    """Whether connections from this machine escape the limits per IP: proxies and load tests come from there."""
    max_plays_per_connection: Annotated[int, _count(1, 32)] = 8
    """A player has one; some test a stream with two."""
    max_messages_per_s: Annotated[int, _count(100, 10_000_000)] = 1000
    """Of a peer that publishes nothing. Players send a dozen when they begin, and one in a while."""
    max_viewers_per_stream: Annotated[int, _count(1, 1_000_000)] = 10_000
    max_pulls: Annotated[int, _count(1, 100_000)] = 100
    """Streams that are fetched from other servers at a time."""
    max_publish_bps: Annotated[int, PlainValidator(partial(read_bits_per_second, low=8 * KB, high=100 * GB))] = 200 * MB
    """What one publisher may send, in bits per second. The best 4K encoders stay below half of the default."""
    max_publish_messages_per_s: Annotated[int, _count(100, 10_000_000)] = 20_000
    """A camera with sound sends a hundred; a file that is sent as fast as it can be, some thousands."""
    max_message_bytes: Annotated[int, _bytes(64 * KB, 0xFFFFFF)] = 0xFFFFFF
    """RTMP counts the length of a message in 24 bits."""
    max_half_message_bytes: Annotated[int, _bytes(MB, TB)] = 32 * MB
    """What all connections together may make us hold of messages that are not whole: 500 publishers with a key frame of
    64 kB each on its way."""
    half_message_deadline_s: Annotated[float, _seconds(0.1, HOUR)] = 10.0
    handshake_deadline_s: Annotated[float, _seconds(0.1, HOUR)] = 5.0
    connect_deadline_s: Annotated[float, _seconds(0.1, HOUR)] = 30.0
    ping_interval_s: Annotated[float, _seconds(0.1, HOUR)] = 10.0
    silent_peer_s: Annotated[float, _seconds(0.1, DAY)] = 30.0
    """A peer that answers nothing for this long, pings included, is taken for gone."""

    @model_validator(mode="after")
    def _pings_come_before_the_verdict(self) -> Self:
        if self.silent_peer_s <= self.ping_interval_s:
            raise ValueError(f"limits.silent_peer_s should be above limits.ping_interval_s, {self.ping_interval_s:g}")
        return self


class Relay(_Section):
    """How much of the recent past is kept for those who join or lag."""

    max_log_gops: Annotated[int, _count(1, 1000)] = 2
    max_log_s: Annotated[float, _seconds(0.5, HOUR)] = 10.0
    max_log_bytes: Annotated[int, _bytes(MB, TB)] = 64 * MB
    max_total_log_bytes: Annotated[int, _bytes(MB, 100 * TB)] = GB
    ffmpeg_lookback_s: Annotated[float, _seconds(0, 60)] = 5.5
    """How far back FFmpeg begins in a stream that it would look at for long; 0: it is treated as everybody."""
    slow_viewer_s: Annotated[float, _seconds(0.5, HOUR)] = 10.0
    """A viewer that takes no whole message for this long is closed."""

    @model_validator(mode="after")
    def _one_log_fits_into_the_budget(self) -> Self:
        if self.max_total_log_bytes < self.max_log_bytes:
            raise ValueError("relay.max_total_log_bytes should not be below relay.max_log_bytes")
        return self


class Hls(_Section):
    """How streams are cut for HLS. Another server in front of this one may keep what they are cut into."""

    enabled: bool = True
    part_ms: Annotated[int, _count(50, 1000)] = 200
    """How long parts are meant to be; a whole number of pictures that is near."""
    min_segment_s: Annotated[float, _seconds(0.5, 60)] = 1.0
    segment_s: Annotated[float, _seconds(0.5, 60)] = 2.0
    """Without pictures; with them a segment ends at the first key frame behind the minimum."""
    max_segment_s: Annotated[float, _seconds(1, 60)] = 10.0
    """Where no key frame comes for so long, a segment ends without one."""
    playlist_s: Annotated[float, _seconds(6, HOUR)] = 20.0
    """How much a playlist names; four target durations at least."""

    @model_validator(mode="after")
    def _are_in_order(self) -> Self:
        if not self.part_ms / 1000 <= self.min_segment_s <= self.segment_s <= self.max_segment_s:
            raise ValueError("should have part_ms, min_segment_s, segment_s and max_segment_s in this order of length")
        return self


class AppConfig(_Section):
    """What holds for the streams of one app."""

    flush: Annotated[FlushPolicy, PlainValidator(read_flush)] = "auto"
    join: Literal["keyframe", "next", "live"] = "keyframe"
    takeover: Literal["refuse", "replace"] = "refuse"
    """What becomes of one who publishes under a name that is being published."""
    grace_s: Annotated[float, _seconds(0, DAY)] = 10.0
    """How long a stream waits for a publisher that was lost without a word."""
    play_wait_s: Annotated[float, _seconds(0, DAY)] = 30.0
    """How long a viewer may wait for a stream that nobody publishes yet."""


class Recording(_Section):
    """Which streams are recorded, where, and how much is kept."""

    streams: Annotated[tuple[str, ...], PlainValidator(read_patterns)] = ()
    folder: Annotated[Path | None, _or_none(PlainValidator(read_path))] = None
    max_segment_s: Annotated[float, _seconds(1, 7 * DAY)] = float(HOUR)
    max_segment_bytes: Annotated[int, _bytes(MB, TB)] = 2 * GB
    keep_s: Annotated[float | None, _or_none(_seconds(60, 100 * YEAR))] = None
    max_total_bytes: Annotated[int | None, _or_none(_bytes(MB, 10**6 * TB))] = None
    min_free_bytes: Annotated[int, _bytes(0, 10**3 * TB)] = GB
    max_backlog_bytes: Annotated[int, _bytes(MB, 100 * GB)] = 64 * MB
    """What the recorder may be behind by when the disk is slow, in bytes and in time, before it gives up frames."""
    max_backlog_s: Annotated[float, _seconds(1, HOUR)] = 30.0


class Facts(_Section):
    """The records that the pipeline reads."""

    enabled: bool = True
    flush_s: Annotated[float, _seconds(0.05, 60)] = 1.0
    rotate_s: Annotated[float, _seconds(1, DAY)] = 10.0
    rotate_bytes: Annotated[int, _bytes(64 * KB, 10 * GB)] = 16 * MB
    max_total_bytes: Annotated[int | None, _or_none(_bytes(MB, 10**6 * TB))] = 10 * GB
    """A day of a thousand viewers is about 8 GB. Beside a pipeline it hardly matters, which takes files in minutes."""
    stream_sample_s: Annotated[float, _seconds(0.1, HOUR)] = 1.0
    viewer_sample_s: Annotated[float, _seconds(0.1, HOUR)] = 5.0

    @model_validator(mode="after")
    def _one_file_fits_into_the_landing_folder(self) -> Self:
        if self.max_total_bytes is not None and self.max_total_bytes < 2 * self.rotate_bytes:
            raise ValueError("facts.max_total_bytes should be at least twice facts.rotate_bytes")
        return self


class Dimensions(_Section):
    """What views, audience, quality and usage are broken down by, besides client, protocol, server and network."""

    parameters: Annotated[tuple[str, ...], PlainValidator(read_parameters)] = ()
    """Of play and publish URLs, by name. No other parameter leaves the server: there are credentials among them."""
    country_db: Annotated[Path | None, _or_none(PlainValidator(read_path))] = None
    """A database in MaxMind's format, on the machines that run the pipeline. The server does not read it."""
    asn_db: Annotated[Path | None, _or_none(PlainValidator(read_path))] = None
    auth_subject: bool = True
    """Audience and usage by whom a key, a token or a callback names. Gold keeps these names for good."""
    max_values: Annotated[int, _count(1, 10_000)] = 100
    """Of one dimension, stream and hour in gold; the rarer ones are counted together as `other`."""


class Pipeline(_Section):
    """How facts and recordings become tables."""

    enabled: bool = True
    """Whether `penstock up` runs it beside the server."""
    every_s: Annotated[float, _seconds(1, DAY)] = 600.0
    """How often it runs when nobody asks; whoever asks has a run at once if facts wait."""
    lake: Annotated[str | None, _or_none(PlainValidator(read_location))] = None
    master: Annotated[str, PlainValidator(read_master)] = "local"
    """Where Spark runs. `local` takes half of the cores of this machine."""
    heap_bytes: Annotated[int, _bytes(512 * MB, TB)] = 1024 * 1024 * 1024
    """Of Spark's driver. Spark refuses less than 472 MB."""
    spark: Annotated[tuple[str, ...], PlainValidator(read_spark_settings)] = ()
    silent_s: Annotated[float, _seconds(5, DAY)] = 90.0
    """A server of which no fact is newer than this is taken for lost: nine landings."""
    quiet_every_s: Annotated[float, _seconds(1, DAY)] = float(HOUR)
    """How often `penstock up` runs it while little lands and nobody asks: a run costs much the same for few facts."""
    idle_s: Annotated[float, _seconds(10, 7 * DAY)] = 7200.0
    """After so long without facts or questions Spark is stopped, until some come."""
    dimensions: Dimensions = Dimensions()


class Retention(_Section):
    """How long the lake keeps what."""

    landing_s: Annotated[float, _seconds(0, 100 * YEAR)] = 2.0 * DAY
    """Of a landed file, after the commit that took it."""
    address_s: Annotated[float, _seconds(0, 100 * YEAR)] = 7.0 * DAY
    """Of the addresses of peers in bronze."""
    bronze_s: Annotated[float, _seconds(DAY, 100 * YEAR)] = 30.0 * DAY
    views_s: Annotated[float, _seconds(DAY, 100 * YEAR)] = 400.0 * DAY
    """Of silver and the rollups. Gold is kept for good."""


class Ship(_Section):
    """Landed files on their way to a lake elsewhere."""

    to: Annotated[str | None, _or_none(PlainValidator(read_location))] = None
    """The folder of facts that a pipeline reads; none: the one on this machine."""
    every_s: Annotated[float, _seconds(1, DAY)] = 30.0


class Logs(_Section):
    """What is written to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "console"] = "auto"
    """`auto`: text on a terminal, JSON elsewhere."""
    hex_dump_bytes: Annotated[int, _bytes(0, 64 * KB)] = 64
    """How much of each message is shown in hex, at level debug alone."""


class Config(_Section):
    """Everything that the operator decides. `defaults` holds for every app; `apps` has what differs, built on it.

    `access` has who may what, by app; without any everybody may everything.
    """

    server: Server = Field(default_factory=Server)
    rtmp: Rtmp = Rtmp()
    tls: Tls = Tls()
    http: Http = Http()
    auth: Auth = Auth()
    api: Api = Api()
    limits: Limits = Limits()
    relay: Relay = Relay()
    hls: Hls = Hls()
    recording: Recording = Recording()
    facts: Facts = Facts()
    pipeline: Pipeline = Pipeline()
    retention: Retention = Retention()
    ship: Ship = Ship()
    logs: Logs = Logs()
    defaults: AppConfig = AppConfig()
    apps: Mapping[str, AppConfig] = Field(default_factory=dict)
    access: Mapping[str, AccessConfig] = Field(default_factory=dict)
    hooks: Annotated[tuple[HookConfig, ...], Field(max_length=MAX_HOOKS)] = ()
    push: Annotated[tuple[PushConfig, ...], Field(max_length=MAX_PUSHES)] = ()
    pull: Annotated[tuple[PullConfig, ...], Field(max_length=MAX_PULLS_SECTIONS)] = ()

    @model_validator(mode="before")
    @classmethod
    def _apps_build_on_the_defaults(cls, values: Any) -> Any:
        match values:
            case {"defaults": dict(defaults), "apps": Mapping() as apps}:
                built = {name: defaults | app if isinstance(app, dict) else app for name, app in apps.items()}
                return values | {"apps": built}
        return values

    @model_validator(mode="after")
    def _apps_are_not_in_the_way_of_web(self) -> Self:
        for section, names in (("apps", self.apps), ("access", self.access)):
            for name in names:
                if is_reserved(name):
                    path = f"/{name} is a path of the server's own"
                    raise ValueError(f"{section}.{name} should have another name: {path}")
        return self

    @model_validator(mode="after")
    def _rules_have_what_they_verify_by(self) -> Self:
        needs = {"signed": ("signing", self.auth.signing), "jwt": ("jwt", self.auth.jwt)}
        needs["callback"] = ("callback", self.auth.callback)
        for app, access in self.access.items():
            for action, rules in (("publish", access.publish), ("play", access.play)):
                for alternative in rules:
                    for condition in (alternative,) if isinstance(alternative, str) else alternative:
                        name, value = needs.get(condition, ("", condition))
                        if not value:
                            raise ValueError(f"access.{app}.{action} has {condition}, which needs auth.{name}")
        return self

    @model_validator(mode="after")
    def _pushes_have_names_of_their_own(self) -> Self:
        names = [each.name for each in self.push]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"push.name should not be given twice, as {twice[0]} is")
        return self

    def app(self, name: str) -> AppConfig:
        """What holds for an app, named in the configuration or not."""
        return self.apps.get(name, self.defaults)

    @property
    def recordings_dir(self) -> Path:
        return self.recording.folder or self.server.data_dir / "recordings"

    @property
    def lake_location(self) -> str:
        return self.pipeline.lake or str(self.server.data_dir / "lake")

    @property
    def facts_dir(self) -> Path:
        return self.server.data_dir / "facts"
