"""The columns of the tables: name, type and meaning, in the order in which they are stored.

Types are those of Spark SQL. Times are timestamps in UTC. Data only; `tables` says what the tables are.
"""

# Long because: it is one list, and a reader looks things up in it.

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Nullable unless `required`."""

    name: str
    type: str
    meaning: str
    required: bool = False


def _req(name: str, type_: str, meaning: str) -> Column:
    return Column(name, type_, meaning, required=True)


_SERVER = (
    _req("server_id", "string", "server that reported it, as configured"),
    _req("boot_id", "string", "one life of that server's process; new at each start"),
)
_VIEW_NUMBERS = (
    _req(
        "boot_key", "bigint", "hash of server_id and boot_id; with view_seq a numeric key of the view, for fast joins"
    ),
    _req("view_seq", "bigint", "number at the end of view_id, unique within a boot"),
)
_STREAM = (_req("app", "string", "RTMP app"), _req("stream", "string", "stream name within the app"))
_PEER = (
    Column("client", "string", "name that the client gives itself in RTMP connect (flashVer)"),
    Column("protocol", "string", "rtmp or rtmps"),
    Column("network", "string", "network of the peer's address: /24 of IPv4, /48 of IPv6, loopback or private"),
)
_CONN_ID = Column("conn_id", "string", "connection, as in the log lines")
_RECORDING = (
    _req("recording_id", "string", "recording, which may have several files"),
    _req("segment", "bigint", "number of the file within its recording"),
)
_MINUTE = _req("minute", "timestamp", "start of the minute")
_DIMENSIONS = (
    Column("country", "string", "ISO 3166 code of the peer address's country; null: not looked up, or unknown"),
    Column("asn", "bigint", "autonomous system number of the peer's address; null: not looked up, or unknown"),
    Column("dimensions", "string", "configured URL parameters, as a JSON object of strings; null: none in the URL"),
)
_VALUE = _req(
    "value", "string", "value of the dimension; unknown: it has none; other: beyond the max_values most frequent"
)
_DIMENSION = (_req("dimension", "string", "configured URL parameter, country or asn"), _VALUE)
_VIEW_DIMENSION = (
    _req("dimension", "string", "all, client, protocol, server, network, country, asn or a configured URL parameter"),
    _VALUE,
)
_LAST_SEEN_AT = _req("last_seen_at", "timestamp", "time of its newest fact")
_END_REASON = Column(
    "end_reason", "string", "why it ended; server_lost: the server crashed or vanished before it could say"
)
_HAS_NO_END = _req(
    "is_estimated", "boolean", "whether the counters are of the last sample, because no end was reported"
)
_CODECS = (
    Column("video", "string", "codec; null: the file has no such track"),
    Column("audio", "string", "codec; null: the file has no such track"),
)

_FILE = (
    _req("started_at", "timestamp", "arrival of the first frame"),
    _req("duration_ms", "bigint", "duration by its timestamps"),
    _req("bytes", "bigint", "file size"),
    *_CODECS,
    _req("keyframes", "bigint", "key frames in the file"),
    _req("gaps", "bigint", "places where the recorder missed part of the stream"),
    _req("gap_ms", "bigint", "media time missing there, summed"),
)
_FILE_STATUS = _req("status", "string", "closed, failed or repaired")

SHARED: Final = (
    *_SERVER,
    *_VIEW_NUMBERS,
    _CONN_ID,
    *_STREAM,
    *_PEER,
    _LAST_SEEN_AT,
    _END_REASON,
    _HAS_NO_END,
    _MINUTE,
    *_DIMENSIONS,
    _VALUE,
    *_RECORDING,
    *_FILE,
    _FILE_STATUS,
)
"""Columns that mean the same in every table that has them; the page about tables explains them once."""

CONNECTIONS = (
    *_SERVER,
    _req("conn_id", "string", "connection, as in the log lines"),
    Column("app", "string", "RTMP app; null: the client never sent connect"),
    *_PEER,
    _req("opened_at", "timestamp", "accept of the socket"),
    Column("closed_at", "timestamp", "null while it is open"),
    _req("is_open", "boolean", "whether the connection is still open"),
    Column("close_reason", "string", "why it closed; server_lost: the server crashed or vanished before it could say"),
    Column("duration_us", "bigint", "length by the monotonic clock; null while open and after server_lost"),
    Column("received_bytes", "bigint", "bytes received from the peer, protocol overhead included"),
    Column("sent_bytes", "bigint", "bytes sent to the peer, protocol overhead included"),
)

PUBLICATIONS = (
    _req("publication_id", "string", "event_id of its publish_started fact"),
    *_SERVER,
    _CONN_ID,
    *_STREAM,
    *_PEER,
    *_DIMENSIONS,
    Column("publishing_type", "string", "live, record or append, as the client asked"),
    _req("started_at", "timestamp", "start of the publication"),
    _LAST_SEEN_AT,
    Column("ended_at", "timestamp", "end of the publication; null while it is open"),
    _req("is_open", "boolean", "whether it is still being published"),
    _END_REASON,
    _req("duration_us", "bigint", "length, or length so far"),
    _req("received_bytes", "bigint", "payload bytes received"),
    _req("messages", "bigint", "how many were received"),
    _req("video_frames", "bigint", "how many were received"),
    _req("audio_frames", "bigint", "how many were received"),
    _req("keyframes", "bigint", "how many were received"),
    _req("timestamp_jumps", "bigint", "discontinuities in its timestamps"),
    Column(
        "viewers_sent_bytes",
        "bigint",
        "bytes sent to the viewers present at the last sample; null after a reported end",
    ),
    Column("viewers_watched_us", "bigint", "watch time of those viewers, summed; null after a reported end"),
    _HAS_NO_END,
)

VIEWS = (
    _req("view_id", "string", "event_id of its play_started fact; of play_stopped if playback never started"),
    *_VIEW_NUMBERS,
    *_SERVER,
    _CONN_ID,
    *_STREAM,
    *_PEER,
    *_DIMENSIONS,
    Column("auth_subject", "string", "subject of the viewer's token; null: no token"),
    _req(
        "viewer_key",
        "string",
        "who watched: the token's subject, else the viewer parameter of the URL, else a keyed hash of IP and client",
    ),
    _req("started_at", "timestamp", "start of playback; of a failed start, when the client gave up"),
    _LAST_SEEN_AT,
    Column("ended_at", "timestamp", "end of the view; null while it is open"),
    _req("is_open", "boolean", "whether the viewer is still watching"),
    _END_REASON,
    _req("is_failed_start", "boolean", "whether playback never started"),
    _req("is_exit_before_picture", "boolean", "whether it ended before the first key frame was sent"),
    Column("startup_us", "bigint", "time from the play request to the first key frame; null: none was sent"),
    Column("startup_ms", "bigint", "startup_us in milliseconds"),
    _req("watched_us", "bigint", "watch time"),
    _req("watch_seconds", "double", "watched_us in seconds"),
    _req("bytes_sent", "bigint", "payload bytes of the stream sent to this viewer"),
    _req("skips", "bigint", "skips ahead to a newer key frame, because the viewer was too slow"),
    _req("skipped_bytes", "bigint", "payload bytes left out by those skips"),
    _req("samples", "bigint", "viewer_sample facts of this view"),
    Column("lag_ms_p50", "bigint", "distance behind the live edge over its samples: median, 95th percentile, maximum"),
    Column("lag_ms_p95", "bigint", "distance behind the live edge over its samples: median, 95th percentile, maximum"),
    Column("lag_ms_max", "bigint", "distance behind the live edge over its samples: median, 95th percentile, maximum"),
    _req("stalled_us", "bigint", "estimated stall time: the share of samples over 2 s behind, times watch time"),
    _req("stall_source", "string", "basis of that estimate: samples, or none if there are no samples"),
    Column("rtt_us", "bigint", "TCP round-trip time over its samples: mean, maximum"),
    Column("rtt_us_max", "bigint", "TCP round-trip time over its samples: mean, maximum"),
    Column("retransmits", "bigint", "TCP segments retransmitted on its connection"),
    _HAS_NO_END,
)

VIEWER_SAMPLES = (
    _req("event_id", "string", "the viewer_sample fact"),
    *_SERVER,
    _req("view_id", "string", "view that was sampled"),
    *_VIEW_NUMBERS,
    *_STREAM,
    _req("at", "timestamp", "time of the sample"),
    _req("watched_us", "bigint", "watch time so far"),
    _req("sent_bytes", "bigint", "payload bytes of the stream written to the socket so far"),
    Column("acknowledged_bytes", "bigint", "bytes of the whole connection that the peer's TCP has acknowledged"),
    _req("lag_bytes", "bigint", "bytes behind the live edge, without what the socket's buffer holds"),
    Column("lag_ms", "bigint", "the same in media time; null: the viewer waits for a key frame"),
    _req("skips", "bigint", "skips so far"),
    _req("skipped_bytes", "bigint", "bytes skipped so far"),
    Column("ping_ms", "bigint", "round-trip time of the newest RTMP ping; null: none answered yet"),
    Column("rtt_us", "bigint", "TCP's smoothed round-trip time"),
    Column("retransmits", "bigint", "TCP segments retransmitted on the connection so far"),
)

STREAM_SECONDS = (
    _req("event_id", "string", "the stream_sample or publish_stopped fact"),
    *_SERVER,
    _req("publication_id", "string", "publication that was sampled"),
    *_STREAM,
    _req("at", "timestamp", "time of the sample, the end of its interval"),
    _req("interval_us", "bigint", "time that the sample covers"),
    _req("viewers", "bigint", "viewers on this server at that time"),
    _req("bitrate_bps", "bigint", "payload bits received per second"),
    _req("received_bytes", "bigint", "payload bytes received since the previous sample"),
    _req("video_frames", "bigint", "how many since the previous sample"),
    _req("audio_frames", "bigint", "how many since the previous sample"),
    _req("keyframes", "bigint", "how many since the previous sample"),
    _req("timestamp_jumps", "bigint", "how many since the previous sample"),
    _req("fps_milli", "bigint", "video frames per 1000 seconds"),
    Column("keyframe_interval_ms", "bigint", "time between the last two key frames"),
    Column("av_skew_us", "bigint", "video timestamp minus audio timestamp of what arrives together, mean"),
    Column("drift_ms", "bigint", "media time minus wall time since the publication started"),
    _req("is_last", "boolean", "whether this row is the publication's end (publish_stopped) and not a sample"),
)

RECORDING_SEGMENTS = (
    *_SERVER,
    *_RECORDING,
    *_STREAM,
    _req("path", "string", "path below the recordings folder"),
    _FILE_STATUS,
    Column("reason", "string", "why it failed, or what was repaired"),
    _FILE[0],
    _req("closed_at", "timestamp", "when the file was finished"),
    *_FILE[1:],
)

GOPS = (
    _req("path", "string", "recorded file, below the recordings folder"),
    *_STREAM,
    _req("gop", "bigint", "number of the GOP in the file, from 0"),
    _req("first_dts_ms", "bigint", "timestamp of its key frame in the file"),
    _req("duration_ms", "bigint", "time to the next key frame; of the last GOP, to the last frame"),
    _req("offset", "bigint", "byte offset of its key frame's FLV tag"),
    _req("bytes", "bigint", "size of all its tags, headers included"),
    _req("video_frames", "bigint", "how many it has"),
    _req("audio_frames", "bigint", "how many it has"),
    _req("keyframe_bytes", "bigint", "size of the key frame's tag"),
)

VIEW_MINUTES = (
    *_VIEW_NUMBERS,
    *_STREAM,
    _MINUTE,
    _req("started_at", "timestamp", "start of the view"),
    _req("first_at", "timestamp", "time of the view's first fact in the minute"),
    _req("last_at", "timestamp", "time of the view's last fact in the minute"),
    _req("is_joined", "boolean", "whether the view started in this minute"),
    _req("is_left", "boolean", "whether a play_stopped fact ended the view in this minute"),
    _req("watched_us", "bigint", "increase since the view's previous row"),
    _req("sent_bytes", "bigint", "increase since the view's previous row"),
    _req("skips", "bigint", "increase since the view's previous row"),
    _req("skipped_bytes", "bigint", "increase since the view's previous row"),
    _req("retransmits", "bigint", "increase since the view's previous row"),
    _req("watched_us_total", "bigint", "total since the view started, at the end of the minute"),
    _req("sent_bytes_total", "bigint", "total since the view started, at the end of the minute"),
    _req("skips_total", "bigint", "total since the view started, at the end of the minute"),
    _req("skipped_bytes_total", "bigint", "total since the view started, at the end of the minute"),
    _req("retransmits_total", "bigint", "total since the view started, at the end of the minute"),
    _req("samples", "bigint", "samples in the minute"),
    _req("stalled_samples", "bigint", "samples over 2 s behind the live edge, or waiting for a key frame"),
    _req("lag_samples", "bigint", "samples that have a lag_ms"),
    Column("lag_ms_max", "bigint", "largest lag_ms of the minute's samples"),
    _req("rtt_us_sum", "bigint", "sum of the samples' TCP round-trip times"),
    _req("rtt_samples", "bigint", "samples that have a round-trip time"),
    Column("rtt_us_max", "bigint", "longest TCP round-trip time of the minute's samples"),
)

VIEW_LAGS = (
    *_VIEW_NUMBERS,
    _req("hour_at", "timestamp", "start of the hour"),
    _req("bucket", "int", "histogram bucket of lag_ms; `transforms.histograms` has the edges"),
    _req("samples", "bigint", "samples in that bucket"),
)

STREAM_EPISODES = (
    *_STREAM,
    _req("kind", "string", "ingest_stalled, bitrate_collapse or av_drift"),
    _req("started_at", "timestamp", "start of the first bad sample"),
    _req("ended_at", "timestamp", "end of the last bad sample; an episode is cut at the end of the hour"),
    Column("least", "bigint", "lowest and highest bitrate in bit/s, or A/V skew in ms; null for ingest_stalled"),
    Column("most", "bigint", "lowest and highest bitrate in bit/s, or A/V skew in ms; null for ingest_stalled"),
    Column("reference", "bigint", "median bitrate of the hour in bit/s, or largest drift in ms"),
)

HISTOGRAM_HOURS = (
    *_STREAM,
    _req("hour_at", "timestamp", "start of the hour"),
    *_VIEW_DIMENSION,
    _req("metric", "string", "startup_us, lag_ms or rtt_us"),
    _req("bucket", "int", "histogram bucket; `transforms.histograms` has the edges"),
    _req("count", "bigint", "values in that bucket"),
)

_AUDIENCE = (
    _req("viewers_peak", "bigint", "most concurrent viewers, over all servers"),
    _req("viewers_avg", "double", "average concurrent viewers: watch time in the minute / 60 s"),
    _req("viewers_unique", "bigint", "distinct viewer_keys"),
    _req("joins", "bigint", "views that started"),
    _req("leaves", "bigint", "views that ended"),
    _req("watched_us", "bigint", "watch time in the minute"),
    _req("watch_seconds", "double", "watched_us in seconds"),
    _req("egress_bytes", "bigint", "payload bytes sent to viewers, by the samples of the minute"),
    _req("is_estimated", "boolean", "whether a view counted here has no reported end"),
)

AUDIENCE = (*_STREAM, _MINUTE, *_AUDIENCE)

AUDIENCE_DIMENSIONS = (*_STREAM, _MINUTE, *_DIMENSION, *_AUDIENCE)

VIEW_QUALITY = (
    *_STREAM,
    _req("hour_at", "timestamp", "hour in which the views started"),
    *_VIEW_DIMENSION,
    _req("views", "bigint", "views that started, without failed starts"),
    _req("failed_starts", "bigint", "plays that waited for the stream and never started"),
    _req("exits_before_picture", "bigint", "views that ended before their first key frame"),
    Column("startup_ms_p50", "bigint", "percentiles of the time to the first key frame"),
    Column("startup_ms_p95", "bigint", "percentiles of the time to the first key frame"),
    Column("startup_ms_p99", "bigint", "percentiles of the time to the first key frame"),
    Column("lag_ms_p50", "bigint", "percentiles of the distance behind the live edge, over the samples of the hour"),
    Column("lag_ms_p95", "bigint", "percentiles of the distance behind the live edge, over the samples of the hour"),
    _req("watched_us", "bigint", "watch time of these views"),
    _req("stalled_us", "bigint", "estimated stall time of these views"),
    _req("stall_ratio", "double", "stalled_us / watched_us"),
    _req("bytes_sent", "bigint", "payload bytes sent to these views"),
    _req("skipped_bytes", "bigint", "payload bytes they skipped"),
    _req("drop_rate", "double", "skipped_bytes / (bytes_sent + skipped_bytes)"),
    _req("score", "double", "0 (worst) to 100 (best), from failures, startup, stalls and drops"),
)

STREAM_HEALTH = (
    *_STREAM,
    _MINUTE,
    _req("bitrate_bps", "bigint", "payload bits received per second of sampled time"),
    _req("fps", "double", "video frames per second of sampled time"),
    Column("keyframe_interval_ms", "bigint", "longest key frame interval of the minute"),
    Column("av_skew_ms", "double", "largest A/V skew of the minute, positive if video is ahead"),
    Column("drift_ms", "bigint", "media time minus wall time since the publication started, at the minute's end"),
    _req("timestamp_jumps", "bigint", "timestamp discontinuities"),
    _req("ingress_bytes", "bigint", "payload bytes received"),
    _req("video_frames", "bigint", "video frames received"),
    _req("sampled_us", "bigint", "part of the minute that samples cover"),
    _req("stalled_us", "bigint", "part of sampled_us in which no bytes came"),
    _req("publications", "bigint", "how many; above 1: a reconnect, or several servers"),
    _req("viewers", "bigint", "most viewers in one sample, so of one server"),
    _req("verdict", "string", "healthy, or what is wrong, in words"),
    _req("is_estimated", "boolean", "whether a publication counted here has no reported end"),
)

INCIDENTS = (
    *_STREAM,
    _req("kind", "string", "ingest_stalled, bitrate_collapse, av_drift, viewer_exodus or reconnect_storm"),
    _req("started_at", "timestamp", "start of the incident"),
    _req("ended_at", "timestamp", "end of the incident; while it lasts, the newest sample that shows it"),
    _req("evidence", "string", "the figures that show it, in words"),
    _req("affected_viewers", "bigint", "most concurrent viewers during it"),
)

USAGE = (
    *_STREAM,
    _req("day", "date", "UTC day"),
    _req("ingress_bytes", "bigint", "payload bytes received"),
    _req("egress_bytes", "bigint", "payload bytes sent to viewers; from a lost server, up to its last stream sample"),
    _req("viewer_minutes", "double", "watch time in minutes; from a lost server, likewise"),
    _req("watched_us", "bigint", "watch time in microseconds"),
    _req("ingress_bps_p95", "bigint", "95th percentile over the day's minutes with traffic in that direction"),
    _req("egress_bps_p95", "bigint", "95th percentile over the day's minutes with traffic in that direction"),
    _req("is_estimated", "boolean", "whether a view or publication counted here has no reported end"),
)

USAGE_DIMENSIONS = (
    *_STREAM,
    _req("day", "date", "UTC day"),
    *_DIMENSION,
    _req("ingress_bytes", "bigint", "payload bytes received from publishers with that value"),
    _req("egress_bytes", "bigint", "payload bytes sent to viewers with that value; unreported usage counts as unknown"),
    _req("viewer_minutes", "double", "watch time of those viewers in minutes; unreported usage counts as unknown"),
    _req("watched_us", "bigint", "watch time in microseconds"),
    _req("is_estimated", "boolean", "whether a view or publication counted here has no reported end"),
)

RECORDINGS = (
    _req("path", "string", "path below the recordings folder"),
    *_STREAM,
    _req("server_id", "string", "server that recorded it"),
    *_RECORDING,
    *_FILE,
    _FILE_STATUS,
)

ARCHIVE = (
    _req("path", "string", "recorded file, below the recordings folder"),
    *_STREAM,
    *_RECORDING,
    _req("started_at", "timestamp", "arrival of the first frame"),
    _req(
        "status",
        "string",
        "archived; damaged: its intact parts are archived; unusable; missing; failed: tried again next time",
    ),
    Column("reason", "string", "what is wrong with the file or was left out; null: nothing"),
    _req("bytes", "bigint", "file size"),
    Column("modified_at", "timestamp", "modification time of the file; null: the file is missing"),
    _req("tags", "bigint", "complete FLV tags in the file"),
    _req("damaged_places", "bigint", "places where the bytes are not an FLV tag"),
    _req("damaged_bytes", "bigint", "bytes skipped there"),
    _req("duration_ms", "bigint", "duration of the archived media, timestamp jumps removed"),
    *_CODECS,
    _req("keyframes", "bigint", "key frames in the file"),
    _req("keyframe_index", "string", "the seek index in the file's onMetaData: right, wrong or none"),
    _req("gaps", "bigint", "pauses of more than a second without a frame"),
    _req("gap_ms", "bigint", "length of those pauses, summed"),
    _req("timestamp_jumps", "bigint", "timestamp discontinuities that were repaired"),
    _req("jumps", "string", "those jumps as a JSON list of at_ms, by_ms and track"),
    _req("moved_frames", "bigint", "frames moved because their timestamp was not after the previous one"),
    Column("mp4_path", "string", "MP4 file, below the archive folder"),
    Column("mp4_bytes", "bigint", "size of the MP4"),
    Column("hls_path", "string", "HLS playlist, below the archive folder"),
    Column("hls_bytes", "bigint", "size of the playlist and its segments"),
    Column("hls_segments", "bigint", "segments in the playlist"),
    Column("sheet_path", "string", "contact sheet, below the archive folder; null: no picture"),
    _req("thumbnails", "bigint", "thumbnails made"),
    _req("recipe", "string", "version and settings of the job; after a change the file is archived again"),
)

QUALITY_CHECKS = (
    _req("at", "timestamp", "hour of the facts or rows concerned"),
    _req("table", "string", "table checked; facts or quarantine for what is not a table"),
    _req("check", "string", "name of the check"),
    _req("subject", "string", "what violates it: a key, a boot, a refusal; others: the rest of the hour"),
    _req("violations", "bigint", "number of rows, facts or lines"),
    _req("detail", "string", "the figures, in words"),
)
