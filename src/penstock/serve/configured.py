"""From the configuration to the plain settings of the server's parts."""

from collections.abc import Mapping
from typing import Final

from penstock.config import AppConfig, Config, Hls
from penstock.config_secrets import pull_key
from penstock.config_units import FlushGrid
from penstock.protocol.connection import ConnectionSettings
from penstock.pulls.origins import PullRule
from penstock.relay.follower import FollowerLimits
from penstock.relay.packaging.boundaries import BoundaryRule
from penstock.relay.readable_log import LogLimits
from penstock.serve.recording.archive import SegmentLimits
from penstock.serve.recording.recorder import RecordingSettings
from penstock.serve.recording.retention import RetentionLimits
from penstock.serve.settings import AppSettings, FileModes, FlushPolicy, HlsSettings, JoinPolicy, ServerSettings
from penstock.serve.telemetry.address_quota import QuotaLimits

_FILE_MODES: Final = {
    "private": FileModes(0o700, 0o600),
    "group": FileModes(0o750, 0o640),
    "world": FileModes(0o755, 0o644),
}


def settings_of(config: Config, workers: int = 1) -> ServerSettings:
    """What the parts of a worker need to know of the configuration. Memory is shared out among the workers."""
    limits, relay = config.limits, config.relay

    # Made for the apps that the operator names: peers may name any number of others.
    apps = {name: _app_settings(app, limits.max_viewers_per_stream) for name, app in config.apps.items()}
    defaults = _app_settings(config.defaults, limits.max_viewers_per_stream)

    return ServerSettings(
        app=lambda name: apps.get(name, defaults),
        connection=ConnectionSettings(
            window_bytes=config.rtmp.window_bytes,
            peer_bandwidth_bytes=config.rtmp.peer_bandwidth_bytes,
            chunk_size=config.rtmp.chunk_bytes,
            max_message_bytes=limits.max_message_bytes,
        ),
        log_limits=LogLimits(
            max_gops=relay.max_log_gops,
            max_age_s=relay.max_log_s,
            max_bytes=relay.max_log_bytes,
            lookback_s=relay.ffmpeg_lookback_s,
        ),
        max_total_log_bytes=relay.max_total_log_bytes // workers,
        max_connections=limits.max_connections,
        max_connections_per_ip=limits.max_connections_per_ip,
        max_new_connections_per_ip_per_s=limits.max_new_connections_per_ip_per_s,
        exempts_loopback=limits.exempts_loopback,
        max_plays_per_connection=limits.max_plays_per_connection,
        max_messages_per_s=limits.max_messages_per_s,
        max_publish_bps=limits.max_publish_bps,
        max_publish_messages_per_s=limits.max_publish_messages_per_s,
        max_half_message_bytes=limits.max_half_message_bytes // workers,
        half_message_deadline_s=limits.half_message_deadline_s,
        handshake_deadline_s=limits.handshake_deadline_s,
        connect_deadline_s=limits.connect_deadline_s,
        ping_interval_s=limits.ping_interval_s,
        silent_peer_s=limits.silent_peer_s,
        slow_viewer_s=relay.slow_viewer_s,
        hls=_hls_settings(config.hls),
        dimension_parameters=config.pipeline.dimensions.parameters,
    )


def pull_rules_of(config: Config, environment: Mapping[str, str]) -> tuple[PullRule, ...]:
    """Which streams are pulled from where. A key that cannot be read raises ConfigError."""
    return tuple(
        PullRule(each.streams, each.address, each.idle_s, pull_key(each, number, environment))
        for number, each in enumerate(config.pull, start=1)
    )


def _hls_settings(hls: Hls) -> HlsSettings:
    rule = BoundaryRule(
        part_ms=hls.part_ms,
        min_segment_ms=round(1000 * hls.min_segment_s),
        segment_ms=round(1000 * hls.segment_s),
        max_segment_ms=round(1000 * hls.max_segment_s),
    )
    return HlsSettings(rule if hls.enabled else None, round(1000 * hls.playlist_s))


def quota_limits_of(config: Config) -> QuotaLimits:
    """How much is told of one address: in proportion to the connections that it may have.

    A connection that plays or publishes has about five log lines and two facts, so all that an address may have at once
    are told in full, and a fifth of them anew in each second.
    """
    limits = config.limits
    return QuotaLimits(
        per_s=max(1.0, limits.max_connections_per_ip / 5),
        burst=5.0 * limits.max_connections_per_ip,
        exempts_loopback=limits.exempts_loopback,
    )


def _app_settings(app: AppConfig, max_viewers_per_stream: int) -> AppSettings:
    grid_s = app.flush.period_ms / 1000 if isinstance(app.flush, FlushGrid) else None
    return AppSettings(
        join=JoinPolicy(app.join),
        flush=FlushPolicy(grid_s=grid_s, adapts=app.flush == "auto"),
        may_replace_publisher=app.takeover == "replace",
        grace_s=app.grace_s,
        play_wait_s=app.play_wait_s,
        max_viewers_per_stream=max_viewers_per_stream,
    )


def file_modes_of(config: Config) -> FileModes:
    """Who may read what the server makes in its data folder."""
    return _FILE_MODES[config.server.data_mode]


def recording_settings_of(config: Config) -> RecordingSettings:
    """What is recorded, where, and how much is kept."""
    recording = config.recording
    return RecordingSettings(
        folder=config.recordings_dir,
        streams=recording.streams,
        segments=SegmentLimits(max_s=recording.max_segment_s, max_bytes=recording.max_segment_bytes),
        retention=RetentionLimits(
            max_age_s=recording.keep_s,
            max_total_bytes=recording.max_total_bytes,
            min_free_bytes=recording.min_free_bytes,
        ),
        follower=FollowerLimits(max_bytes=recording.max_backlog_bytes, max_age_s=recording.max_backlog_s),
        modes=file_modes_of(config),
    )
