"""The columns of the tables: name, type and meaning, in the order in which they are stored.

Types are those of Spark SQL. Times are timestamps in UTC. Data only; `tables` says what the tables are.
"""

# Long because: it is one list, and a reader looks things up in it.

from dataclasses import dataclass


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
    _req("server_id", "string", "the server that told it"),
    _req("boot_id", "string", "which start of that server"),
)
_VIEW_NUMBERS = (
    _req("boot_key", "bigint", "a hash of server and boot: with view_seq a short name of the view, for joins"),
    _req("view_seq", "bigint", "the number at the end of the view's id"),
)
_STREAM = (_req("app", "string", "the app"), _req("stream", "string", "the stream's name within the app"))
_VIEWER_CUTS = (
    Column("client", "string", "what the client calls itself in connect"),
    Column("protocol", "string", "rtmp or rtmps"),
    Column("network", "string", "the peer's network: /24 of IPv4, /48 of IPv6, loopback or private"),
)

CONNECTIONS = (
    *_SERVER,
    _req("conn_id", "string", "the connection, as in the logs"),
    Column("app", "string", "the app it connected to; null: it never got that far"),
    *_VIEWER_CUTS,
    _req("opened_at", "timestamp", "when the socket was accepted"),
    Column("closed_at", "timestamp", "when it was gone; null while it is open"),
    _req("is_open", "boolean", "whether it is still there"),
    Column("close_reason", "string", "why it ended; server_lost: the server went without saying"),
    Column("duration_us", "bigint", "by the monotonic clock; null while it is open or if the server was lost"),
    Column("received_bytes", "bigint", "all bytes from the peer"),
    Column("sent_bytes", "bigint", "all bytes to the peer"),
)

PUBLICATIONS = (
    _req("publication_id", "string", "the event_id of its publish_started"),
    *_SERVER,
    Column("conn_id", "string", "its connection"),
    *_STREAM,
    *_VIEWER_CUTS,
    Column("publishing_type", "string", "live, record or append"),
    _req("started_at", "timestamp", "when it began"),
    _req("last_seen_at", "timestamp", "when a fact last told of it"),
    Column("ended_at", "timestamp", "when it ended; null while it is open"),
    _req("is_open", "boolean", "whether it goes on"),
    Column("end_reason", "string", "why it ended; server_lost: the server went without saying"),
    _req("duration_us", "bigint", "how long it lasted, or has lasted so far"),
    _req("received_bytes", "bigint", "payload bytes received"),
    _req("messages", "bigint", "messages received"),
    _req("video_frames", "bigint", "video frames received"),
    _req("audio_frames", "bigint", "audio frames received"),
    _req("keyframes", "bigint", "key frames received"),
    _req("timestamp_jumps", "bigint", "how often its timestamps jumped"),
    Column(
        "viewers_sent_bytes", "bigint", "what those were sent who watched at its last sample; null once its end is told"
    ),
    Column("viewers_watched_us", "bigint", "for how long they had watched by then in all; null likewise"),
    _req("is_estimated", "boolean", "whether the figures are those of the last sample instead of the end"),
)

VIEWS = (
    _req("view_id", "string", "the event_id of its play_started; of its play_stopped if it was never let in"),
    *_VIEW_NUMBERS,
    *_SERVER,
    Column("conn_id", "string", "its connection"),
    *_STREAM,
    *_VIEWER_CUTS,
    Column("auth_subject", "string", "whom its token names"),
    _req(
        "viewer_key", "string", "who watches: auth subject, else viewer parameter, else a keyed hash of IP and client"
    ),
    _req("started_at", "timestamp", "when it was let in, or gave up waiting"),
    _req("last_seen_at", "timestamp", "when a fact last told of it"),
    Column("ended_at", "timestamp", "when it ended; null while it is open"),
    _req("is_open", "boolean", "whether it goes on"),
    Column("end_reason", "string", "why it ended; server_lost: the server went without saying"),
    _req("is_failed_start", "boolean", "whether it never was let in"),
    _req("is_exit_before_picture", "boolean", "whether it ended before its first picture"),
    Column("startup_us", "bigint", "from the request to its first picture"),
    Column("startup_ms", "bigint", "the same in milliseconds"),
    _req("watched_us", "bigint", "how long it was let in"),
    _req("watch_seconds", "double", "the same in seconds"),
    _req("bytes_sent", "bigint", "bytes of the stream sent to it"),
    _req("skips", "bigint", "how often it was moved on to a newer key frame"),
    _req("skipped_bytes", "bigint", "what it missed by that"),
    _req("samples", "bigint", "how many samples tell of it"),
    Column("lag_ms_p50", "bigint", "half of its samples were at most this far behind the live edge"),
    Column("lag_ms_p95", "bigint", "95 of 100 samples"),
    Column("lag_ms_max", "bigint", "the farthest"),
    _req("stalled_us", "bigint", "how long it is estimated to have stood still"),
    _req("stall_source", "string", "what the estimate rests on: samples, or none if there are no samples"),
    Column("rtt_us", "bigint", "TCP's round trip, the mean of its samples"),
    Column("rtt_us_max", "bigint", "the longest of them"),
    Column("retransmits", "bigint", "TCP segments sent again on its connection"),
    _req("is_estimated", "boolean", "whether the figures are those of the last sample instead of the end"),
)

VIEWER_SAMPLES = (
    _req("event_id", "string", "the fact"),
    *_SERVER,
    _req("view_id", "string", "the view"),
    *_VIEW_NUMBERS,
    *_STREAM,
    _req("at", "timestamp", "when it was taken"),
    _req("watched_us", "bigint", "since the view was let in"),
    _req("sent_bytes", "bigint", "bytes of the stream handed to the system so far"),
    Column("acknowledged_bytes", "bigint", "bytes of the whole connection that the peer's TCP has acknowledged"),
    _req("lag_bytes", "bigint", "behind the live edge"),
    Column("lag_ms", "bigint", "the same in the stream's time; null: it has no place in the stream"),
    _req("skips", "bigint", "so far"),
    _req("skipped_bytes", "bigint", "so far"),
    Column("ping_ms", "bigint", "the last RTMP ping's round trip"),
    Column("rtt_us", "bigint", "TCP's smoothed round trip"),
    Column("retransmits", "bigint", "TCP segments sent again so far"),
)

STREAM_SECONDS = (
    _req("event_id", "string", "the fact"),
    *_SERVER,
    _req("publication_id", "string", "the publication"),
    *_STREAM,
    _req("at", "timestamp", "when the sample was taken"),
    _req("interval_us", "bigint", "the time it is about"),
    _req("viewers", "bigint", "who watched on this server"),
    _req("bitrate_bps", "bigint", "payload bits received per second"),
    _req("received_bytes", "bigint", "payload bytes received since the sample before; the first: since the start"),
    _req("video_frames", "bigint", "since the sample before"),
    _req("audio_frames", "bigint", "since the sample before"),
    _req("keyframes", "bigint", "since the sample before"),
    _req("timestamp_jumps", "bigint", "since the sample before"),
    _req("fps_milli", "bigint", "video frames per 1000 seconds"),
    Column("keyframe_interval_ms", "bigint", "between the last two key frames"),
    Column("av_skew_us", "bigint", "how far video timestamps are ahead of audio"),
    Column("drift_ms", "bigint", "media time minus wall time since the start of the publication"),
    _req("is_last", "boolean", "whether it is the end of the publication, told by publish_stopped"),
)

RECORDING_SEGMENTS = (
    *_SERVER,
    _req("recording_id", "string", "the recording"),
    _req("segment", "bigint", "which file of it"),
    *_STREAM,
    _req("path", "string", "below the folder of recordings"),
    _req("status", "string", "closed, failed or repaired"),
    Column("reason", "string", "why it failed, or what was repaired"),
    _req("started_at", "timestamp", "when its first frame came"),
    _req("closed_at", "timestamp", "when the file was finished"),
    _req("duration_ms", "bigint", "by its timestamps"),
    _req("bytes", "bigint", "size of the file"),
    Column("video", "string", "codec"),
    Column("audio", "string", "codec"),
    _req("keyframes", "bigint", "how many"),
    _req("gaps", "bigint", "how many"),
    _req("gap_ms", "bigint", "how much of the stream is missing"),
)

GOPS = (
    _req("path", "string", "below the folder of recordings"),
    *_STREAM,
    _req("gop", "bigint", "its number in the file, from 0"),
    _req("first_dts_ms", "bigint", "time of its key frame in the file"),
    _req("duration_ms", "bigint", "to the next key frame; the last: to the last frame"),
    _req("offset", "bigint", "where its key frame's tag begins"),
    _req("bytes", "bigint", "of all its tags"),
    _req("video_frames", "bigint", "how many"),
    _req("audio_frames", "bigint", "how many"),
    _req("keyframe_bytes", "bigint", "size of the key frame's tag"),
)

VIEW_MINUTES = (
    *_VIEW_NUMBERS,
    *_STREAM,
    _req("minute", "timestamp", "start of the minute"),
    _req("started_at", "timestamp", "when the view began"),
    _req("first_at", "timestamp", "the first fact of the view in the minute"),
    _req("last_at", "timestamp", "the last one"),
    _req("is_joined", "boolean", "whether the view began in this minute"),
    _req("is_left", "boolean", "whether a stop fact ended the view in this minute"),
    _req("watched_us", "bigint", "watch time since the row before"),
    _req("sent_bytes", "bigint", "bytes since the row before"),
    _req("skips", "bigint", "since the row before"),
    _req("skipped_bytes", "bigint", "since the row before"),
    _req("retransmits", "bigint", "since the row before"),
    _req("watched_us_total", "bigint", "since the view began, at the end of the minute"),
    _req("sent_bytes_total", "bigint", "likewise"),
    _req("skips_total", "bigint", "likewise"),
    _req("skipped_bytes_total", "bigint", "likewise"),
    _req("retransmits_total", "bigint", "likewise"),
    _req("samples", "bigint", "how many samples lie in the minute"),
    _req("stalled_samples", "bigint", "how many of them found the view standing still"),
    _req(
        "lag_samples", "bigint", "how many of them had a place in the stream, so that they know how far behind they are"
    ),
    Column("lag_ms_max", "bigint", "the farthest behind"),
    _req("rtt_us_sum", "bigint", "sum of the round trips of its samples"),
    _req("rtt_samples", "bigint", "how many had one"),
    Column("rtt_us_max", "bigint", "the longest"),
)

VIEW_LAGS = (
    *_VIEW_NUMBERS,
    _req("hour_at", "timestamp", "start of the hour"),
    _req("bucket", "int", "number of the bucket of the lag in milliseconds; its edges are in `histograms`"),
    _req("samples", "bigint", "how many samples were that far behind"),
)

STREAM_SPELLS = (
    *_STREAM,
    _req("kind", "string", "ingest_stalled, bitrate_collapse or av_drift"),
    _req("started_at", "timestamp", "when it began"),
    _req("ended_at", "timestamp", "when it was last seen; at an hour's end it may go on in the next one"),
    Column("least", "bigint", "the least of its figure: bits per second, or milliseconds of skew"),
    Column("most", "bigint", "the most of it"),
    Column("reference", "bigint", "what it is held against: the hour's median, or milliseconds of drift"),
)

HISTOGRAM_HOURS = (
    *_STREAM,
    _req("hour_at", "timestamp", "start of the hour"),
    _req("dimension", "string", "all, client, protocol, server or network"),
    _req("value", "string", "which one; all if the dimension is all; of networks the /16 or /32"),
    _req("metric", "string", "startup_us, lag_ms or rtt_us"),
    _req("bucket", "int", "number of the bucket; its edges are in `histograms`"),
    _req("count", "bigint", "how many values fell into it"),
)

AUDIENCE = (
    *_STREAM,
    _req("minute", "timestamp", "start of the minute"),
    _req("viewers_peak", "bigint", "most at one time, from joins and leaves of all servers in order"),
    _req("viewers_avg", "double", "watch time within the minute divided by the minute"),
    _req("viewers_unique", "bigint", "different viewer keys"),
    _req("joins", "bigint", "views that began"),
    _req("leaves", "bigint", "views that ended"),
    _req("watched_us", "bigint", "watch time within the minute"),
    _req("watch_seconds", "double", "the same in seconds"),
    _req("egress_bytes", "bigint", "sent to viewers, by the samples that lie in the minute"),
    _req("is_estimated", "boolean", "whether a view counted here ended without its stop fact"),
)

VIEW_QUALITY = (
    *_STREAM,
    _req("hour_at", "timestamp", "start of the hour in which the views began"),
    _req("dimension", "string", "all, client, protocol, server or network"),
    _req("value", "string", "which one; all if the dimension is all; of networks the /16 or /32"),
    _req("views", "bigint", "views that were let in"),
    _req("failed_starts", "bigint", "that never were"),
    _req("exits_before_picture", "bigint", "let in, and gone before the first picture"),
    Column("startup_ms_p50", "bigint", "from the histogram, 2 % relative error"),
    Column("startup_ms_p95", "bigint", "likewise"),
    Column("startup_ms_p99", "bigint", "likewise"),
    Column("lag_ms_p50", "bigint", "of samples in the hour"),
    Column("lag_ms_p95", "bigint", "likewise"),
    _req("watched_us", "bigint", "watch time of these views"),
    _req("stalled_us", "bigint", "how long they are estimated to have stood still"),
    _req("stall_ratio", "double", "stalled_us / watched_us"),
    _req("bytes_sent", "bigint", "sent to them"),
    _req("skipped_bytes", "bigint", "skipped by them"),
    _req("drop_rate", "double", "skipped_bytes / (bytes_sent + skipped_bytes)"),
    _req("score", "double", "0 to 100; the formula is in the docs"),
)

STREAM_HEALTH = (
    *_STREAM,
    _req("minute", "timestamp", "start of the minute"),
    _req("bitrate_bps", "bigint", "payload bits per second of the sampled time"),
    _req("fps", "double", "video frames per second of the sampled time"),
    Column("keyframe_interval_ms", "bigint", "the longest told in the minute"),
    Column("av_skew_ms", "double", "the largest by amount, with its sign"),
    Column("drift_ms", "bigint", "media time minus wall time since the start of the publication, at the end"),
    _req("timestamp_jumps", "bigint", "how many"),
    _req("ingress_bytes", "bigint", "payload bytes received"),
    _req("video_frames", "bigint", "how many"),
    _req("sampled_us", "bigint", "how much of the minute the samples are about"),
    _req("stalled_us", "bigint", "how much of that nothing came"),
    _req("publications", "bigint", "how many publications the minute saw"),
    _req("viewers", "bigint", "the most told by a sample"),
    _req("verdict", "string", "in plain words: healthy, or what is wrong"),
    _req("is_estimated", "boolean", "whether a publication ended without its stop fact"),
)

INCIDENTS = (
    *_STREAM,
    _req("kind", "string", "ingest_stalled, bitrate_collapse, av_drift, viewer_exodus or reconnect_storm"),
    _req("started_at", "timestamp", "when it began"),
    _req("ended_at", "timestamp", "when it was last seen"),
    _req("evidence", "string", "the figures, in words"),
    _req("affected_viewers", "bigint", "most viewers during it"),
)

USAGE = (
    *_STREAM,
    _req("day", "date", "UTC day"),
    _req("ingress_bytes", "bigint", "payload bytes received"),
    _req("egress_bytes", "bigint", "bytes sent to viewers; of a lost server up to the stream's last sample"),
    _req("viewer_minutes", "double", "watch time in minutes; of a lost server likewise"),
    _req("watched_us", "bigint", "the same in microseconds"),
    _req("ingress_bps_p95", "bigint", "95th percentile over the minutes of the day in which there was any"),
    _req("egress_bps_p95", "bigint", "likewise"),
    _req("is_estimated", "boolean", "whether a session counted here ended without its stop fact"),
)

RECORDINGS = (
    _req("path", "string", "below the folder of recordings"),
    *_STREAM,
    _req("server_id", "string", "the server that recorded it"),
    _req("recording_id", "string", "the recording"),
    _req("segment", "bigint", "which file of it"),
    _req("started_at", "timestamp", "when its first frame came"),
    _req("duration_ms", "bigint", "by its timestamps"),
    _req("bytes", "bigint", "size of the file"),
    Column("video", "string", "codec"),
    Column("audio", "string", "codec"),
    _req("keyframes", "bigint", "how many"),
    _req("gaps", "bigint", "how many"),
    _req("gap_ms", "bigint", "how much of the stream is missing"),
    _req("status", "string", "closed, failed or repaired"),
)

ARCHIVE = (
    _req("path", "string", "the recorded file, below the folder of recordings"),
    *_STREAM,
    _req("recording_id", "string", "the recording"),
    _req("segment", "bigint", "which file of it"),
    _req("started_at", "timestamp", "when its first frame came"),
    _req("status", "string", "archived, damaged (archived where whole), unusable, missing or failed (tried again)"),
    Column("reason", "string", "what is wrong with the file or was left out; null: nothing"),
    _req("bytes", "bigint", "size of the file"),
    Column("modified_at", "timestamp", "when the file was last written; null: it is missing"),
    _req("tags", "bigint", "whole tags in the file"),
    _req("damaged_places", "bigint", "how often something stands in the file that is no tag"),
    _req("damaged_bytes", "bigint", "how much of the file was passed over for that"),
    _req("duration_ms", "bigint", "of what was archived, jumps taken out"),
    Column("video", "string", "codec"),
    Column("audio", "string", "codec"),
    _req("keyframes", "bigint", "how many"),
    _req("keyframe_index", "string", "the index at the start of the file: right, wrong or none"),
    _req("gaps", "bigint", "how often the file stands still for more than a second"),
    _req("gap_ms", "bigint", "for how long in all"),
    _req("timestamp_jumps", "bigint", "jumps of the publisher's timestamps that were repaired"),
    _req("jumps", "string", "those jumps as JSON: a list of at_ms, by_ms and track"),
    _req("moved_frames", "bigint", "frames whose time was not after the one before, and was made so"),
    Column("mp4_path", "string", "below the folder of the archive"),
    Column("mp4_bytes", "bigint", "size of the MP4"),
    Column("hls_path", "string", "the playlist, below the folder of the archive"),
    Column("hls_bytes", "bigint", "size of the playlist and all that it lists"),
    Column("hls_segments", "bigint", "how many segments it lists"),
    Column("sheet_path", "string", "the contact sheet, below the folder of the archive; null: there is no picture"),
    _req("thumbnails", "bigint", "how many"),
    _req("recipe", "string", "version and settings of the job; another recipe is made anew"),
)

QUALITY_CHECKS = (
    _req("at", "timestamp", "the time of the facts it is about, to the hour"),
    _req("table", "string", "the table, or facts"),
    _req("check", "string", "the name of the check"),
    _req("subject", "string", "a key, a server or a file"),
    _req("violations", "bigint", "how many rows or how much, as the check says"),
    _req("detail", "string", "the figures, in words"),
)
