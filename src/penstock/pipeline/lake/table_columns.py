"""The columns of the tables: name, type and meaning, in the order in which they are stored.

Types are those of Spark SQL. Times are timestamps in UTC. Data only; `tables` says what the tables are.
"""

# Long because: it is one list, and a reader looks things up in it.

from dataclasses import dataclass, replace
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
    _req("server_id", "string", "server, as configured"),
    _req("boot_id", "string", "one life of a worker of the server; new at each start"),
)
_VIEW_NUMBERS = (
    _req("boot_key", "bigint", "hash of server_id and boot_id; with view_seq a numeric view_id, for fast joins"),
    _req("view_seq", "bigint", "number at the end of view_id, unique within a boot"),
)
_STREAM = (_req("app", "string", "RTMP app"), _req("stream", "string", "stream name within the app"))
_PEER = (
    Column("client", "string", "name that the client gives itself in RTMP connect (flashVer)"),
    Column("protocol", "string", "rtmp, rtmps, http-flv, ws-flv, http-mp4 or hls"),
    Column("network", "string", "network of the peer: /24 of IPv4, /48 of IPv6, loopback or private"),
)
_CONN_ID = Column("conn_id", "string", "connection, as in log lines")
_RECORDING = (
    _req("recording_id", "string", "recording, which may have several files"),
    _req("segment", "bigint", "number of the file within its recording"),
)
_MINUTE = _req("minute", "timestamp", "start of the minute")
_DIMENSIONS = (
    Column("country", "string", "ISO 3166 country of the peer's address; null: unknown or not looked up"),
    Column("asn", "bigint", "autonomous system of the peer's address; null: unknown or not looked up"),
    Column("dimensions", "string", "configured URL parameters as a JSON object of strings; null: none in the URL"),
)
_AUTH_SUBJECT = Column(
    "auth_subject",
    "string",
    "who it was, as far as that was proved: a key's name, a token's subject, or what a callback answered",
)
_VALUE = _req("value", "string", "value of the dimension; unknown: it has none; other: too long, or beyond max_values")
_DIMENSION = (_req("dimension", "string", "configured URL parameter, country, asn or auth_subject"), _VALUE)
_VIEW_DIMENSION = (
    _req(
        "dimension",
        "string",
        "all, client, protocol, server, network (/16 or /32), country, asn or a configured URL parameter",
    ),
    _VALUE,
)
_LAST_SEEN_AT = _req("last_seen_at", "timestamp", "time of its newest fact, beacons of players aside")
_END_REASON = Column("end_reason", "string", "why it ended; server_lost: its server vanished without reporting an end")
_HAS_NO_END = _req("is_estimated", "boolean", "whether counters are those of the last sample: no end is reported (yet)")
_CODECS = (
    Column("video", "string", "codec; null: the file has no such track"),
    Column("audio", "string", "codec; null: the file has no such track"),
)

_FILE = (
    _req("started_at", "timestamp", "arrival of the first frame"),
    _req("duration_ms", "bigint", "duration by timestamps"),
    _req("bytes", "bigint", "file size"),
    *_CODECS,
    _req("keyframes", "bigint", "key frames in the file"),
    _req("gaps", "bigint", "places where the recorder missed part of the stream, and their media time"),
    _req("gap_ms", "bigint", "places where the recorder missed part of the stream, and their media time"),
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
    _AUTH_SUBJECT,
    _VALUE,
    *_RECORDING,
    *_FILE,
    _FILE_STATUS,
)
"""Columns that mean the same in every table that has them; the page about tables explains them once."""

CONNECTIONS = (
    *_SERVER,
    _req("conn_id", "string", "connection, as in log lines"),
    Column("app", "string", "RTMP app; null: the client never sent connect"),
    *_PEER,
    _req("opened_at", "timestamp", "accept of the socket"),
    Column("closed_at", "timestamp", "close; if the server was lost, the last sign of life; null while open"),
    _req("is_open", "boolean", "whether it is still open"),
    Column("close_reason", "string", "why it closed; server_lost: its server vanished without reporting a close"),
    Column("duration_us", "bigint", "length by the monotonic clock; null while open or if server_lost"),
    Column(
        "received_bytes", "bigint", "all bytes received and sent, protocol included; null while open or if server_lost"
    ),
    Column("sent_bytes", "bigint", "all bytes received and sent, protocol included; null while open or if server_lost"),
)

PUBLICATIONS = (
    _req("publication_id", "string", "event_id of its publish_started"),
    *_SERVER,
    _CONN_ID,
    *_STREAM,
    *_PEER,
    *_DIMENSIONS,
    _AUTH_SUBJECT,
    Column(
        "publishing_type", "string", "live, record or append, as the client asked; pull: fetched from another server"
    ),
    _req("started_at", "timestamp", "start"),
    _LAST_SEEN_AT,
    Column("ended_at", "timestamp", "end; null while open"),
    _req("is_open", "boolean", "whether it is still published"),
    _END_REASON,
    _req("duration_us", "bigint", "length, or length so far"),
    _req("received_bytes", "bigint", "payload bytes received"),
    _req("messages", "bigint", "number received"),
    _req("video_frames", "bigint", "number received"),
    _req("audio_frames", "bigint", "number received"),
    _req("keyframes", "bigint", "number received"),
    _req("timestamp_jumps", "bigint", "number received"),
    Column(
        "viewers_sent_bytes",
        "bigint",
        "bytes sent to the viewers present at the last sample; null after publish_stopped",
    ),
    Column("viewers_watched_us", "bigint", "watch time of those viewers, summed; null after publish_stopped"),
    _HAS_NO_END,
)

VIEWS = (
    _req("view_id", "string", "event_id of its play_started; of its play_stopped if playback never started"),
    *_VIEW_NUMBERS,
    *_SERVER,
    _CONN_ID,
    *_STREAM,
    *_PEER,
    *_DIMENSIONS,
    _AUTH_SUBJECT,
    _req(
        "viewer_key",
        "string",
        "who watched: a:token subject, else v:viewer parameter of the URL, else h:hash of IP, client and month",
    ),
    _req("started_at", "timestamp", "start of playback; of a failed start, when the client gave up"),
    _LAST_SEEN_AT,
    Column("ended_at", "timestamp", "end; null while open"),
    _req("is_open", "boolean", "whether the viewer still watches"),
    _END_REASON,
    _req("is_failed_start", "boolean", "whether playback never started"),
    _req("is_exit_before_picture", "boolean", "whether it ended without a first key frame"),
    Column("startup_us", "bigint", "time from the play request to the first key frame; null: none was sent"),
    Column("startup_ms", "bigint", "time from the play request to the first key frame; null: none was sent"),
    _req("watched_us", "bigint", "watch time"),
    _req("watch_seconds", "double", "watched_us in seconds"),
    _req("bytes_sent", "bigint", "media bytes sent to the viewer"),
    _req("skips", "bigint", "moves to a newer key frame because the viewer was too slow"),
    _req("skipped_bytes", "bigint", "media bytes left out by skips"),
    _req("samples", "bigint", "viewer_sample facts of the view"),
    Column("lag_ms_p50", "bigint", "distance behind the live edge over its samples: median, 95th percentile, maximum"),
    Column("lag_ms_p95", "bigint", "distance behind the live edge over its samples: median, 95th percentile, maximum"),
    Column("lag_ms_max", "bigint", "distance behind the live edge over its samples: median, 95th percentile, maximum"),
    _req(
        "stalled_us",
        "bigint",
        "estimate: watch time times the share of samples over 2 s behind the live edge or waiting for a key frame",
    ),
    _req("stall_source", "string", "samples; none: the view has no samples, and stalled_us is 0"),
    Column("rtt_us", "bigint", "TCP round-trip time over its samples: mean, maximum"),
    Column("rtt_us_max", "bigint", "TCP round-trip time over its samples: mean, maximum"),
    Column("retransmits", "bigint", "TCP segments retransmitted on its connection; null: no samples"),
    Column("player_beacons", "bigint", "beacons of its player (POST /beacon); null: none, and the columns below too"),
    Column("player_startup_ms", "bigint", "as its player told: time from the click to the first picture on the screen"),
    Column("player_played_ms", "bigint", "as its player told: time played, number of stalls and their time"),
    Column("player_stalls", "bigint", "as its player told: time played, number of stalls and their time"),
    Column("player_stalled_ms", "bigint", "as its player told: time played, number of stalls and their time"),
    Column("player_latency_ms", "bigint", "as its player told: distance behind the live edge, mean over its beacons"),
    Column("player_dropped_frames", "bigint", "as its player told: pictures decoded too late to be shown"),
    _HAS_NO_END,
)

VIEWER_SAMPLES = (
    _req("event_id", "string", "ids of the viewer_sample fact and of the view"),
    *_SERVER,
    _req("view_id", "string", "ids of the viewer_sample fact and of the view"),
    *_VIEW_NUMBERS,
    *_STREAM,
    _req("at", "timestamp", "time of the sample"),
    _req("watched_us", "bigint", "watch time and media bytes sent so far"),
    _req("sent_bytes", "bigint", "watch time and media bytes sent so far"),
    Column("acknowledged_bytes", "bigint", "bytes of the whole connection that the peer's TCP has acknowledged"),
    _req("lag_bytes", "bigint", "bytes behind the live edge, not counting the socket buffer"),
    Column("lag_ms", "bigint", "media time behind the live edge; null: waiting for a key frame"),
    _req("skips", "bigint", "skips and media bytes skipped so far"),
    _req("skipped_bytes", "bigint", "skips and media bytes skipped so far"),
    Column("ping_ms", "bigint", "round-trip time of the newest RTMP ping; null: none answered yet"),
    Column("rtt_us", "bigint", "TCP's smoothed round-trip time"),
    Column("retransmits", "bigint", "TCP segments retransmitted on the connection so far"),
)

STREAM_SECONDS = (
    _req("event_id", "string", "ids of the stream_sample or publish_stopped fact and of the publication"),
    *_SERVER,
    _req("publication_id", "string", "ids of the stream_sample or publish_stopped fact and of the publication"),
    *_STREAM,
    _req("at", "timestamp", "end of the interval"),
    _req("interval_us", "bigint", "time that the row covers"),
    _req("viewers", "bigint", "viewers on this server; 0 in the last row"),
    _req("bitrate_bps", "bigint", "payload bits received per second"),
    _req("received_bytes", "bigint", "received since the previous row"),
    _req("video_frames", "bigint", "received since the previous row"),
    _req("audio_frames", "bigint", "received since the previous row"),
    _req("keyframes", "bigint", "received since the previous row"),
    _req("timestamp_jumps", "bigint", "received since the previous row"),
    _req("fps_milli", "bigint", "video frames per 1000 s"),
    Column("keyframe_interval_ms", "bigint", "time between the last two key frames; null: fewer than two"),
    Column("av_skew_us", "bigint", "video timestamp minus audio timestamp, mean; null: not both"),
    Column("drift_ms", "bigint", "media time minus wall time since the first frame"),
    _req(
        "is_last",
        "boolean",
        "true in the row of publish_stopped: what came after the last sample; the three columns above are null",
    ),
)

RECORDING_SEGMENTS = (
    *_SERVER,
    *_RECORDING,
    *_STREAM,
    _req("path", "string", "path below the recordings folder"),
    _FILE_STATUS,
    Column("reason", "string", "why it failed, or what was repaired"),
    _FILE[0],
    _req("closed_at", "timestamp", "end of the file"),
    *_FILE[1:],
)

GOPS = (
    _req("path", "string", "path below the recordings folder"),
    *_STREAM,
    _req("gop", "bigint", "number of the GOP in the file, from 0"),
    _req("first_dts_ms", "bigint", "timestamp of its key frame in the file"),
    _req("duration_ms", "bigint", "time to the next key frame, in the last GOP to the last frame"),
    _req("offset", "bigint", "byte offset of its key frame's FLV tag"),
    _req("bytes", "bigint", "size of its tags, headers included"),
    _req("video_frames", "bigint", "frames in the GOP"),
    _req("audio_frames", "bigint", "frames in the GOP"),
    _req("keyframe_bytes", "bigint", "size of the key frame's tag"),
)

VIEW_MINUTES = (
    *_VIEW_NUMBERS,
    *_STREAM,
    _MINUTE,
    _req("started_at", "timestamp", "start of the view; its first and last fact in the minute"),
    _req("first_at", "timestamp", "start of the view; its first and last fact in the minute"),
    _req("last_at", "timestamp", "start of the view; its first and last fact in the minute"),
    _req("is_joined", "boolean", "whether the view started, or ended by play_stopped, in the minute"),
    _req("is_left", "boolean", "whether the view started, or ended by play_stopped, in the minute"),
    _req("watched_us", "bigint", "increase since the view's previous row"),
    _req("sent_bytes", "bigint", "increase since the view's previous row"),
    _req("skips", "bigint", "increase since the view's previous row"),
    _req("skipped_bytes", "bigint", "increase since the view's previous row"),
    _req("retransmits", "bigint", "increase since the view's previous row"),
    _req("watched_us_total", "bigint", "total of the view at the end of the minute"),
    _req("sent_bytes_total", "bigint", "total of the view at the end of the minute"),
    _req("skips_total", "bigint", "total of the view at the end of the minute"),
    _req("skipped_bytes_total", "bigint", "total of the view at the end of the minute"),
    _req("retransmits_total", "bigint", "total of the view at the end of the minute"),
    _req("samples", "bigint", "all samples; stalled ones, as in silver.views; those with a lag_ms"),
    _req("stalled_samples", "bigint", "all samples; stalled ones, as in silver.views; those with a lag_ms"),
    _req("lag_samples", "bigint", "all samples; stalled ones, as in silver.views; those with a lag_ms"),
    Column("lag_ms_max", "bigint", "largest lag_ms"),
    _req("rtt_us_sum", "bigint", "sum and number of TCP round-trip times"),
    _req("rtt_samples", "bigint", "sum and number of TCP round-trip times"),
    Column("rtt_us_max", "bigint", "longest TCP round-trip time"),
)

VIEW_LAGS = (
    *_VIEW_NUMBERS,
    _req("hour_at", "timestamp", "start of the hour"),
    _req("bucket", "int", "bucket of lag_ms, see `transforms.histograms`"),
    _req("samples", "bigint", "samples in the bucket"),
)

STREAM_EPISODES = (
    *_STREAM,
    _req("kind", "string", "ingest_stalled, bitrate_collapse, keyframe_interval, av_drift or timestamp_jumps"),
    _req("started_at", "timestamp", "start of the first and end of the last bad sample, within one hour"),
    _req("ended_at", "timestamp", "start of the first and end of the last bad sample, within one hour"),
    Column(
        "least", "bigint", "lowest and highest bitrate in bit/s, key frame interval or A/V skew in ms; null: no figure"
    ),
    Column(
        "most", "bigint", "lowest and highest bitrate in bit/s, key frame interval or A/V skew in ms; null: no figure"
    ),
    Column(
        "reference", "bigint", "median bitrate of the hour in bit/s, largest drift in ms, or jumps; null: no figure"
    ),
)

HISTOGRAM_HOURS = (
    *_STREAM,
    _req("hour_at", "timestamp", "start of the hour"),
    *_VIEW_DIMENSION,
    _req("metric", "string", "startup_us, lag_ms or rtt_us"),
    _req("bucket", "int", "bucket, see `transforms.histograms`"),
    _req("count", "bigint", "values in the bucket"),
)

_AUDIENCE = (
    _req("viewers_peak", "bigint", "most concurrent viewers"),
    _req("viewers_avg", "double", "watched_us / 60 s"),
    _req("viewers_unique", "bigint", "distinct viewer_keys"),
    _req("joins", "bigint", "views that started, views that ended"),
    _req("leaves", "bigint", "views that started, views that ended"),
    _req("watched_us", "bigint", "watch time in the minute"),
    _req("watch_seconds", "double", "watched_us in seconds"),
    _req("egress_bytes", "bigint", "media bytes sent, by the samples of the minute"),
    _req("is_estimated", "boolean", "whether a view counted here ended as server_lost"),
)

AUDIENCE = (*_STREAM, _MINUTE, *_AUDIENCE)

AUDIENCE_DIMENSIONS = (
    *_STREAM,
    _MINUTE,
    *_DIMENSION,
    *(replace(column, meaning="as in gold.audience, for this value") for column in _AUDIENCE),
)

VIEW_QUALITY = (
    *_STREAM,
    _req("hour_at", "timestamp", "hour in which the views started"),
    *_VIEW_DIMENSION,
    _req("views", "bigint", "views that started"),
    _req("failed_starts", "bigint", "plays that waited for the stream and never started"),
    _req("exits_before_picture", "bigint", "views that ended without a first key frame"),
    Column("startup_ms_p50", "bigint", "percentiles of the time to the first key frame"),
    Column("startup_ms_p95", "bigint", "percentiles of the time to the first key frame"),
    Column("startup_ms_p99", "bigint", "percentiles of the time to the first key frame"),
    Column("lag_ms_p50", "bigint", "percentiles of the distance behind the live edge, over all samples of the hour"),
    Column("lag_ms_p95", "bigint", "percentiles of the distance behind the live edge, over all samples of the hour"),
    _req("watched_us", "bigint", "watch time and estimated stall time of these views"),
    _req("stalled_us", "bigint", "watch time and estimated stall time of these views"),
    _req("stall_ratio", "double", "stalled_us / watched_us"),
    _req("bytes_sent", "bigint", "media bytes sent to these views, and skipped"),
    _req("skipped_bytes", "bigint", "media bytes sent to these views, and skipped"),
    _req("drop_rate", "double", "skipped_bytes / (bytes_sent + skipped_bytes)"),
    _req("score", "double", "0 (worst) to 100, from failures, startup, stalls and drops"),
    Column("player_views", "bigint", "of those views, the ones whose players told anything; null: none"),
    Column("player_startup_ms", "bigint", "what players told: mean time to the first picture on the screen"),
    Column("player_played_ms", "bigint", "what players told: time played, number of stalls and their time, summed"),
    Column("player_stalls", "bigint", "what players told: time played, number of stalls and their time, summed"),
    Column("player_stalled_ms", "bigint", "what players told: time played, number of stalls and their time, summed"),
    Column("player_stall_ratio", "double", "player_stalled_ms / (player_played_ms + player_stalled_ms)"),
    Column("player_latency_ms", "bigint", "what players told: mean distance behind the live edge over the views"),
    Column("player_dropped_frames", "bigint", "what players told: pictures decoded too late to be shown, summed"),
)

STREAM_HEALTH = (
    *_STREAM,
    _MINUTE,
    _req("bitrate_bps", "bigint", "payload bits received per sampled second"),
    _req("fps", "double", "video frames per sampled second"),
    Column("keyframe_interval_ms", "bigint", "longest key frame interval"),
    Column("av_skew_ms", "double", "largest A/V skew, positive if video is ahead; null: not both"),
    Column("drift_ms", "bigint", "media time minus wall time since the first frame, at the minute's end"),
    _req("timestamp_jumps", "bigint", "timestamp jumps, payload bytes and video frames received"),
    _req("ingress_bytes", "bigint", "timestamp jumps, payload bytes and video frames received"),
    _req("video_frames", "bigint", "timestamp jumps, payload bytes and video frames received"),
    _req("sampled_us", "bigint", "time that samples cover, and the part of it without data"),
    _req("stalled_us", "bigint", "time that samples cover, and the part of it without data"),
    _req("publications", "bigint", "publications sampled; above 1: a reconnect, or several servers"),
    _req("viewers", "bigint", "most viewers in one sample, so on one server"),
    _req("verdict", "string", "healthy, or what is wrong, in words"),
    _req("is_estimated", "boolean", "whether a publication counted here ended as server_lost"),
)

INCIDENTS = (
    *_STREAM,
    _req(
        "kind",
        "string",
        "ingest_stalled, bitrate_collapse, keyframe_interval, av_drift, timestamp_jumps, viewer_exodus"
        " or reconnect_storm",
    ),
    _req("started_at", "timestamp", "start"),
    _req("ended_at", "timestamp", "end; while it lasts, the newest sample that shows it"),
    _req("evidence", "string", "the figures that show it, in words"),
    _req("affected_viewers", "bigint", "most concurrent viewers during it"),
)

USAGE = (
    *_STREAM,
    _req("day", "date", "UTC day"),
    _req("ingress_bytes", "bigint", "payload bytes received"),
    _req("egress_bytes", "bigint", "media bytes sent; if server_lost, up to the last stream sample"),
    _req("viewer_minutes", "double", "watched_us in minutes"),
    _req("watched_us", "bigint", "watch time; if server_lost, up to the last stream sample"),
    _req("ingress_bps_p95", "bigint", "95th percentile, in bit/s, of the minutes with traffic in that direction"),
    _req("egress_bps_p95", "bigint", "95th percentile, in bit/s, of the minutes with traffic in that direction"),
    _req("is_estimated", "boolean", "whether a view or publication counted here ended as server_lost"),
)

USAGE_DIMENSIONS = (
    *_STREAM,
    _req("day", "date", "UTC day"),
    *_DIMENSION,
    _req("ingress_bytes", "bigint", "payload bytes received from publishers with that value"),
    _req(
        "egress_bytes",
        "bigint",
        "media bytes sent to viewers with that value; the last seconds of a lost server are in unknown",
    ),
    _req("viewer_minutes", "double", "watched_us in minutes"),
    _req(
        "watched_us",
        "bigint",
        "watch time of viewers with that value; the last seconds of a lost server are in unknown",
    ),
    _req("is_estimated", "boolean", "whether a view or publication counted here ended as server_lost"),
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
    _req("path", "string", "path below the recordings folder"),
    *_STREAM,
    *_RECORDING,
    _req("started_at", "timestamp", "arrival of the first frame"),
    _req(
        "status",
        "string",
        "archived; damaged: intact parts archived; unusable: no output; missing or failed: tried again by the next run",
    ),
    Column("reason", "string", "what is wrong or was left out; null: nothing"),
    _req("bytes", "bigint", "file size"),
    Column("modified_at", "timestamp", "modification time of the file; null: missing"),
    _req("tags", "bigint", "complete FLV tags"),
    _req("damaged_places", "bigint", "places that are not FLV tags, and their bytes"),
    _req("damaged_bytes", "bigint", "places that are not FLV tags, and their bytes"),
    _req("duration_ms", "bigint", "duration of the archived media, timestamp jumps removed"),
    *_CODECS,
    _req("keyframes", "bigint", "key frames in the file"),
    _req("keyframe_index", "string", "seek index in onMetaData: right, wrong or none"),
    _req("gaps", "bigint", "pauses of over 1 s without a frame, and their sum"),
    _req("gap_ms", "bigint", "pauses of over 1 s without a frame, and their sum"),
    _req("timestamp_jumps", "bigint", "timestamp jumps repaired"),
    _req("jumps", "string", "repaired jumps as a JSON list of at_ms, by_ms and track"),
    _req("moved_frames", "bigint", "frames moved because their timestamp was not after the previous one"),
    Column("mp4_path", "string", "MP4, below the archive folder"),
    Column("mp4_bytes", "bigint", "size of the MP4"),
    Column("hls_path", "string", "HLS playlist, below the archive folder"),
    Column("hls_bytes", "bigint", "size of playlist and segments; number of segments"),
    Column("hls_segments", "bigint", "size of playlist and segments; number of segments"),
    Column("sheet_path", "string", "contact sheet, below the archive folder; null: no picture"),
    _req("thumbnails", "bigint", "thumbnails made"),
    _req("recipe", "string", "version and settings of the job; a change archives the file again"),
)

QUALITY_CHECKS = (
    _req("at", "timestamp", "hour of the facts or rows"),
    _req("table", "string", "table checked, or facts or quarantine"),
    _req("check", "string", "name of the check"),
    _req("subject", "string", "what violates it: a key, a boot, a reason of refusal; others: the rest of the hour"),
    _req("violations", "bigint", "rows, facts or lines"),
    _req("detail", "string", "the figures, in words"),
)
