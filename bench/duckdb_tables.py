"""Every table of the lake as DuckDB would make it from the same bronze: SQL that gives the same rows.

Owns the statements, each in the form that DuckDB is quickest at. They follow the transforms of the pipeline table by
table; `bench.pipeline` compares the rows before it compares times. `{bronze}` stands for the folder of bronze, and the
table `boots` is given, as the pipeline has it from its commits. The simulated day, which is what it is given, has no
beacons of players: their columns are null, and what it would take to make them is not in its times.
"""

# Long because: it is one list of statements.

MACROS = """
CREATE MACRO bucket(v) AS (
    CASE WHEN v IS NULL THEN NULL WHEN v < 64 THEN greatest(v, 0)
    ELSE (floor(log2(least(v, 137438953471) + 0.5))::BIGINT - 5) * 32
        + (least(v, 137438953471) >> (floor(log2(least(v, 137438953471) + 0.5))::INT - 5)) END::INT
);
CREATE MACRO middle(b) AS (
    ((b - greatest(b // 32 - 1, 0) * 32)::BIGINT << greatest(b // 32 - 1, 0)::INT)
        + (((1::BIGINT << greatest(b // 32 - 1, 0)::INT) - 1) >> 1)
);
CREATE MACRO whole(a, b) AS (CASE WHEN b = 0 THEN NULL ELSE a // b END);
CREATE MACRO provider(network) AS (
    CASE WHEN ends_with(network, '/24')
    THEN split_part(network, '.', 1) || '.' || split_part(network, '.', 2) || '.0.0/16'
    WHEN ends_with(network, '::/48')
    THEN regexp_replace(array_to_string(split(split_part(network, '::', 1), ':')[1:2], ':'), ':0$', '') || '::/32'
    ELSE network END
);
CREATE MACRO facts(kind) AS TABLE (
    SELECT * FROM read_parquet('{bronze}/kind=' || kind || '/*/*.parquet', hive_partitioning = false)
);
"""

VIEW_MINUTES = """
WITH points AS (
    SELECT boot_key, view_seq, app, stream, at_us, watched_us, sent_bytes, skips, skipped_bytes, retransmits, lag_ms,
        rtt_us, 1 AS sample, 0 AS stop FROM facts('viewer_sample')
    UNION ALL
    SELECT boot_key, view_seq, app, stream, at_us, watched_us, sent_bytes, skips, skipped_bytes, retransmits, lag_ms,
        rtt_us, 0, 0 FROM facts('play_started')
    UNION ALL
    SELECT boot_key, view_seq, app, stream, at_us, watched_us, sent_bytes, skips, skipped_bytes, retransmits, lag_ms,
        rtt_us, 0, 0 FROM facts('play_first_keyframe')
    UNION ALL
    SELECT boot_key, view_seq, app, stream, at_us, watched_us, sent_bytes, skips, skipped_bytes, retransmits, lag_ms,
        rtt_us, 0, 1 FROM facts('play_stopped') WHERE view_seq IS NOT NULL
), told AS (
    SELECT boot_key, view_seq, any_value(app) AS app, any_value(stream) AS stream,
        at_us // 60000000 * 60000000 AS minute_us,
        min(at_us - coalesce(watched_us, 0)) AS started_us, min(at_us) AS first_us, max(at_us) AS last_us,
        coalesce(max(watched_us), 0) AS watched_us, coalesce(max(sent_bytes), 0) AS sent_bytes,
        coalesce(max(skips), 0) AS skips, coalesce(max(skipped_bytes), 0) AS skipped_bytes,
        coalesce(max(retransmits), 0) AS retransmits,
        sum(stop)::BIGINT AS stops, sum(sample)::BIGINT AS samples,
        sum(CASE WHEN lag_ms IS NULL OR lag_ms > 2000 THEN sample ELSE 0 END)::BIGINT AS stalled_samples,
        count(lag_ms) AS lag_samples, max(lag_ms) AS lag_ms_max,
        coalesce(sum(rtt_us), 0)::BIGINT AS rtt_us_sum, count(rtt_us) AS rtt_samples, max(rtt_us) AS rtt_us_max
    FROM points GROUP BY boot_key, view_seq, minute_us
), totals AS (
    SELECT *, max(watched_us) OVER so_far AS watched_us_total, max(sent_bytes) OVER so_far AS sent_bytes_total,
        max(skips) OVER so_far AS skips_total, max(skipped_bytes) OVER so_far AS skipped_bytes_total,
        max(retransmits) OVER so_far AS retransmits_total, first(started_us) OVER so_far AS view_started_us
    FROM told WINDOW so_far AS (PARTITION BY boot_key, view_seq ORDER BY minute_us)
), before AS (
    SELECT *, coalesce(lag(watched_us_total) OVER v, 0) AS watched_before,
        coalesce(lag(sent_bytes_total) OVER v, 0) AS sent_before, coalesce(lag(skips_total) OVER v, 0) AS skips_before,
        coalesce(lag(skipped_bytes_total) OVER v, 0) AS skipped_before,
        coalesce(lag(retransmits_total) OVER v, 0) AS retransmits_before
    FROM totals WINDOW v AS (PARTITION BY boot_key, view_seq ORDER BY minute_us)
)
SELECT boot_key, view_seq, app, stream, make_timestamp(minute_us) AS minute,
    make_timestamp(view_started_us) AS started_at, make_timestamp(first_us) AS first_at,
    make_timestamp(last_us) AS last_at, view_started_us // 60000000 * 60000000 = minute_us AS is_joined,
    stops > 0 AS is_left, watched_us_total - watched_before AS watched_us, sent_bytes_total - sent_before AS sent_bytes,
    skips_total - skips_before AS skips, skipped_bytes_total - skipped_before AS skipped_bytes,
    retransmits_total - retransmits_before AS retransmits, watched_us_total, sent_bytes_total, skips_total,
    skipped_bytes_total, retransmits_total, samples, stalled_samples, lag_samples,
    lag_ms_max, rtt_us_sum, rtt_samples, rtt_us_max,
    strftime(make_timestamp(minute_us), '%Y-%m-%dT%H') AS hour
FROM before
"""

VIEW_LAGS = """
SELECT boot_key, view_seq, make_timestamp(at_us // 3600000000 * 3600000000) AS hour_at, bucket(lag_ms) AS bucket,
    count(*) AS samples, strftime(make_timestamp(at_us // 3600000000 * 3600000000), '%Y-%m-%dT%H') AS hour
FROM facts('viewer_sample') WHERE lag_ms IS NOT NULL GROUP BY ALL
"""

VIEWS = """
WITH seen AS (
    SELECT boot_key, view_seq, any_value(app) AS app, any_value(stream) AS stream, min(started_at) AS started_at,
        max(last_at) AS last_at, max(watched_us_total) AS watched_us, max(sent_bytes_total) AS sent_bytes,
        max(skips_total) AS skips, max(skipped_bytes_total) AS skipped_bytes, max(retransmits_total) AS retransmits,
        sum(samples)::BIGINT AS samples, sum(stalled_samples)::BIGINT AS stalled_samples,
        sum(lag_samples)::BIGINT AS lag_samples, sum(rtt_us_sum)::BIGINT AS rtt_us_sum,
        sum(rtt_samples)::BIGINT AS rtt_samples, max(lag_ms_max) AS lag_ms_max, max(rtt_us_max) AS rtt_us_max
    FROM view_minutes GROUP BY boot_key, view_seq
), behind AS (
    SELECT boot_key, view_seq, list_sort(flatten(list(list_resize([]::INT[], samples, bucket)))) AS lags
    FROM view_lags WHERE bucket > 0 GROUP BY boot_key, view_seq
), let_in AS (
    SELECT *, p.at_us IS NOT NULL AS is_stopped, p.at_us IS NULL AND b.is_lost AS is_ended_by_loss,
        make_timestamp(p.at_us) AS stopped_at, coalesce(k.startup_us, p.startup_us) AS startup,
        coalesce(len(lags), 0) AS behind
    FROM seen s LEFT JOIN behind USING (boot_key, view_seq)
    LEFT JOIN (SELECT boot_key, view_seq, conn_id, client, protocol, network, country, asn, dimensions, auth_subject,
        viewer_key FROM facts('play_started')) a USING (boot_key, view_seq)
    LEFT JOIN (SELECT boot_key, view_seq, startup_us FROM facts('play_first_keyframe')) k USING (boot_key, view_seq)
    LEFT JOIN (SELECT boot_key, view_seq, at_us, startup_us, reason, conn_id, client, protocol, network, country, asn,
        dimensions, auth_subject, viewer_key FROM facts('play_stopped') WHERE view_seq IS NOT NULL) p
        USING (boot_key, view_seq)
    JOIN boots b USING (boot_key)
)
SELECT server_id || '-' || boot_id || '-' || view_seq AS view_id, boot_key, view_seq, server_id, boot_id,
    coalesce(conn_id, conn_id_1) AS conn_id, app, stream, coalesce(client, client_1) AS client,
    coalesce(protocol, protocol_1) AS protocol, coalesce(network, network_1) AS network,
    coalesce(country, country_1) AS country, coalesce(asn, asn_1) AS asn,
    coalesce(dimensions, dimensions_1) AS dimensions,
    coalesce(auth_subject, auth_subject_1) AS auth_subject,
    coalesce(viewer_key, viewer_key_1, 'u:' || server_id || '-' || boot_id || '-' || view_seq) AS viewer_key,
    started_at, greatest(last_at, stopped_at) AS last_seen_at,
    CASE WHEN is_stopped OR is_ended_by_loss THEN coalesce(stopped_at, last_at) END AS ended_at,
    NOT (is_stopped OR is_ended_by_loss) AS is_open,
    CASE WHEN is_ended_by_loss THEN 'server_lost' ELSE reason END AS end_reason, false AS is_failed_start,
    (is_stopped OR is_ended_by_loss) AND startup IS NULL AS is_exit_before_picture,
    startup AS startup_us, startup // 1000 AS startup_ms, watched_us, watched_us / 1000000 AS watch_seconds,
    sent_bytes AS bytes_sent, skips, skipped_bytes, samples,
    CASE WHEN lag_samples > 0 THEN CASE WHEN (lag_samples * 50 + 99) // 100 > lag_samples - behind
        THEN middle(lags[(lag_samples * 50 + 99) // 100 - (lag_samples - behind)]) ELSE 0 END END AS lag_ms_p50,
    CASE WHEN lag_samples > 0 THEN CASE WHEN (lag_samples * 95 + 99) // 100 > lag_samples - behind
        THEN middle(lags[(lag_samples * 95 + 99) // 100 - (lag_samples - behind)]) ELSE 0 END END AS lag_ms_p95,
    lag_ms_max, coalesce(whole(stalled_samples * watched_us, samples), 0) AS stalled_us,
    CASE WHEN samples > 0 THEN 'samples' ELSE 'none' END AS stall_source, whole(rtt_us_sum, rtt_samples) AS rtt_us,
    rtt_us_max, CASE WHEN samples > 0 THEN retransmits END AS retransmits, NULL::BIGINT AS player_beacons,
    NULL::BIGINT AS player_startup_ms, NULL::BIGINT AS player_played_ms, NULL::BIGINT AS player_stalls,
    NULL::BIGINT AS player_stalled_ms, NULL::BIGINT AS player_latency_ms, NULL::BIGINT AS player_dropped_frames,
    NOT is_stopped AS is_estimated, strftime(started_at, '%Y-%m-%dT%H') AS hour
FROM let_in
UNION ALL
SELECT event_id, boot_key, seq, server_id, boot_id, conn_id, app, stream, client, protocol, network, country, asn,
    dimensions, auth_subject,
    coalesce(viewer_key, 'u:' || event_id), make_timestamp(at_us), make_timestamp(at_us), make_timestamp(at_us), false,
    reason, true, false, NULL, NULL, 0, 0.0, sent_bytes, skips, skipped_bytes, 0, NULL, NULL, NULL, 0, 'none', NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, strftime(make_timestamp(at_us), '%Y-%m-%dT%H')
FROM facts('play_stopped') WHERE view_seq IS NULL
"""

PUBLICATIONS = """
WITH sampled AS (
    SELECT boot_key, split_part(publication_id, '-', -1)::BIGINT AS publication_seq, any_value(app) AS app,
        any_value(stream) AS stream, min(at_us - interval_us) AS first_us, max(at_us) AS last_us,
        max(received_bytes) AS received_bytes, max(messages) AS messages, max(video_frames) AS video_frames,
        max(audio_frames) AS audio_frames, max(keyframes) AS keyframes, max(timestamp_jumps) AS timestamp_jumps,
        max_by(viewers_sent_bytes, at_us) AS viewers_sent_bytes, max_by(viewers_watched_us, at_us) AS viewers_watched_us
    FROM facts('stream_sample') GROUP BY boot_key, publication_seq
), found AS (
    SELECT *, stop.at_us IS NOT NULL AS is_stopped, stop.at_us IS NULL AND boots.is_lost AS is_ended_by_loss,
        coalesce(start.at_us, stop.at_us - stop.duration_us, sampled.first_us) AS started_us,
        greatest(start.at_us, stop.at_us, sampled.last_us) AS seen_us
    FROM (SELECT boot_key, seq AS publication_seq, at_us, conn_id, app, stream, client, protocol, network, country,
        asn, dimensions, auth_subject, publishing_type FROM facts('publish_started')) start
    FULL JOIN (SELECT boot_key, split_part(publication_id, '-', -1)::BIGINT AS publication_seq, at_us, conn_id, app,
        stream, duration_us, reason, received_bytes, messages, video_frames, audio_frames, keyframes, timestamp_jumps
        FROM facts('publish_stopped')) stop USING (boot_key, publication_seq)
    FULL JOIN sampled USING (boot_key, publication_seq)
    JOIN boots USING (boot_key)
)
SELECT server_id || '-' || boot_id || '-' || publication_seq AS publication_id, server_id, boot_id,
    coalesce(conn_id, conn_id_1) AS conn_id, coalesce(app, app_1, app_2) AS app,
    coalesce(stream, stream_1, stream_2) AS stream, client, protocol, network, country, asn, dimensions,
    auth_subject, publishing_type, make_timestamp(started_us) AS started_at, make_timestamp(seen_us) AS last_seen_at,
    CASE WHEN is_stopped OR is_ended_by_loss THEN make_timestamp(seen_us) END AS ended_at,
    NOT (is_stopped OR is_ended_by_loss) AS is_open,
    CASE WHEN is_ended_by_loss THEN 'server_lost' ELSE reason END AS end_reason,
    coalesce(duration_us, seen_us - started_us) AS duration_us,
    coalesce(received_bytes, received_bytes_1, 0) AS received_bytes, coalesce(messages, messages_1, 0) AS messages,
    coalesce(video_frames, video_frames_1, 0) AS video_frames,
    coalesce(audio_frames, audio_frames_1, 0) AS audio_frames, coalesce(keyframes, keyframes_1, 0) AS keyframes,
    coalesce(timestamp_jumps, timestamp_jumps_1, 0) AS timestamp_jumps,
    CASE WHEN NOT is_stopped THEN viewers_sent_bytes END AS viewers_sent_bytes,
    CASE WHEN NOT is_stopped THEN viewers_watched_us END AS viewers_watched_us,
    NOT is_stopped AS is_estimated, strftime(make_timestamp(started_us), '%Y-%m-%dT%H') AS hour
FROM found
"""

STREAM_SECONDS = """
WITH told AS (
    SELECT boot_key, seq, server_id, boot_id, app, stream, at_us,
        split_part(publication_id, '-', -1)::BIGINT AS publication_seq, publication_id, received_bytes, video_frames,
        audio_frames, keyframes, timestamp_jumps, viewers, interval_us, bitrate_bps,
        round(fps * 1000)::BIGINT AS fps_milli, keyframe_interval_ms, round(av_skew_ms * 1000)::BIGINT AS av_skew_us,
        media_ms - wall_ms AS drift_ms, NULL::BIGINT AS duration_us, false AS is_last
    FROM facts('stream_sample')
    UNION ALL
    SELECT boot_key, seq, server_id, boot_id, app, stream, at_us, split_part(publication_id, '-', -1)::BIGINT,
        publication_id, received_bytes, video_frames, audio_frames, keyframes, timestamp_jumps, 0, NULL, NULL, NULL,
        NULL, NULL, NULL, duration_us, true
    FROM facts('publish_stopped')
), new AS (
    SELECT *, coalesce(interval_us, at_us - lag(at_us) OVER p, duration_us) AS of_us,
        received_bytes - coalesce(lag(received_bytes) OVER p, 0) AS new_bytes,
        video_frames - coalesce(lag(video_frames) OVER p, 0) AS new_video,
        audio_frames - coalesce(lag(audio_frames) OVER p, 0) AS new_audio,
        keyframes - coalesce(lag(keyframes) OVER p, 0) AS new_keys,
        timestamp_jumps - coalesce(lag(timestamp_jumps) OVER p, 0) AS new_jumps
    FROM told WINDOW p AS (PARTITION BY boot_key, publication_seq ORDER BY seq)
)
SELECT server_id || '-' || boot_id || '-' || seq AS event_id, server_id, boot_id, publication_id, app, stream,
    make_timestamp(at_us) AS "at", of_us AS interval_us, viewers,
    coalesce(bitrate_bps, whole(new_bytes * 8000000, of_us), 0) AS bitrate_bps, new_bytes AS received_bytes,
    new_video AS video_frames, new_audio AS audio_frames, new_keys AS keyframes, new_jumps AS timestamp_jumps,
    coalesce(fps_milli, whole(new_video * 1000000000, of_us), 0) AS fps_milli, keyframe_interval_ms, av_skew_us,
    drift_ms, is_last, strftime(make_timestamp(at_us), '%Y-%m-%dT%H') AS hour
FROM new
"""

RECORDING_SEGMENTS = """
SELECT server_id, boot_id, recording_id, segment, app, stream, path, status, reason,
    make_timestamp(started_at_us) AS started_at, make_timestamp(at_us) AS closed_at, duration_ms, size_bytes AS bytes,
    video, audio, keyframes, gaps, coalesce(g.gap_ms, 0) AS gap_ms,
    strftime(make_timestamp(started_at_us), '%Y-%m-%dT%H') AS hour
FROM (SELECT * EXCLUDE (gap_ms) FROM facts('recording_segment_closed')
    QUALIFY row_number() OVER
        (PARTITION BY server_id, recording_id, segment ORDER BY at_us DESC, seq DESC, boot_id) = 1)
LEFT JOIN (SELECT server_id, recording_id, segment, sum(gap_ms)::BIGINT AS gap_ms FROM facts('recording_gap')
    GROUP BY ALL) g USING (server_id, recording_id, segment)
"""

CONNECTIONS = """
WITH sessions AS (
    SELECT server_id, boot_id, conn_id, max(app) AS app, max(client) AS client, max(last_seen_at) AS seen_at
    FROM (SELECT server_id, boot_id, conn_id, app, client, last_seen_at FROM views
        UNION ALL SELECT server_id, boot_id, conn_id, app, client, last_seen_at FROM publications)
    ANTI JOIN facts('connection_closed') USING (server_id, boot_id, conn_id)
    GROUP BY ALL
), told AS (
    SELECT *, closed.at_us IS NULL AND is_lost AS is_ended_by_loss FROM
        (SELECT boot_key, conn_id, at_us, protocol, network FROM facts('connection_opened')) opened
    FULL JOIN (SELECT boot_key, conn_id, at_us, app, client, protocol, network, reason, duration_us, received_bytes,
        sent_bytes FROM facts('connection_closed')) closed USING (boot_key, conn_id)
    JOIN boots USING (boot_key)
)
SELECT server_id, boot_id, conn_id, coalesce(told.app, sessions.app) AS app,
    coalesce(told.client, sessions.client) AS client, coalesce(protocol, protocol_1) AS protocol,
    coalesce(network, network_1) AS network, make_timestamp(coalesce(at_us, at_us_1 - duration_us)) AS opened_at,
    CASE WHEN is_ended_by_loss THEN greatest(make_timestamp(at_us), seen_at) ELSE make_timestamp(at_us_1) END
        AS closed_at,
    NOT (at_us_1 IS NOT NULL OR is_ended_by_loss) AS is_open,
    CASE WHEN is_ended_by_loss THEN 'server_lost' ELSE reason END AS close_reason, duration_us, received_bytes,
    sent_bytes, strftime(make_timestamp(coalesce(at_us, at_us_1 - duration_us)), '%Y-%m-%dT%H') AS hour
FROM told LEFT JOIN sessions USING (server_id, boot_id, conn_id)
"""

HISTOGRAM_HOURS = """
WITH valued AS (
    SELECT boot_key, view_seq, app, stream, started_at, startup_us, [
        {{'d': 'all', 'v': 'all'}}, {{'d': 'client', 'v': coalesce(client, 'unknown')}},
        {{'d': 'protocol', 'v': coalesce(protocol, 'unknown')}}, {{'d': 'server', 'v': server_id}},
        {{'d': 'network', 'v': coalesce(provider(network), 'unknown')}}] AS pairs
    FROM views
), counts AS (
    SELECT pairs, app, stream, date_trunc('hour', started_at) AS hour_at, 'startup_us' AS metric,
        bucket(startup_us) AS bucket, 1 AS n FROM valued WHERE startup_us IS NOT NULL
    UNION ALL
    SELECT pairs, app, stream, hour_at, metric, bucket, n FROM (
        SELECT boot_key, view_seq, date_trunc('hour', minute) AS hour_at, 'rtt_us' AS metric,
            bucket(rtt_us_sum // rtt_samples) AS bucket, count(*) AS n
        FROM view_minutes WHERE rtt_samples > 0 GROUP BY ALL
        UNION ALL
        SELECT boot_key, view_seq, hour_at, 'lag_ms', bucket, samples FROM view_lags
    ) JOIN valued USING (boot_key, view_seq)
)
SELECT app, stream, hour_at, pair.d AS dimension, pair.v AS value, metric, bucket, sum(n)::BIGINT AS count,
    strftime(hour_at, '%Y-%m-%dT%H') AS hour
FROM (SELECT app, stream, hour_at, metric, bucket, n, unnest(pairs) AS pair FROM counts) GROUP BY ALL
"""

AUDIENCE = """
WITH present AS (
    SELECT app, stream, viewer_key, epoch_us(started_at) AS from_us,
        epoch_us(coalesce(ended_at, last_seen_at)) AS to_us, ended_at IS NOT NULL AS has_left,
        is_estimated AND NOT is_open AS is_estimated
    FROM views WHERE NOT is_failed_start
), spans AS (
    SELECT *, from_us // 60000000 AS first_minute, greatest(to_us - 1, from_us) // 60000000 AS last_minute FROM present
), changes AS (
    SELECT app, stream, at_us, sum(net)::BIGINT AS net, sum(joins)::BIGINT AS joins, sum(leaves)::BIGINT AS leaves
    FROM (SELECT app, stream, from_us AS at_us, 1 AS net, 1 AS joins, 0 AS leaves FROM present
        UNION ALL SELECT app, stream, to_us, -1, 0, has_left::INT FROM present) GROUP BY ALL
), levels AS (
    SELECT *, at_us // 60000000 AS minute, at_us % 60000000 AS late_us,
        sum(net) OVER (PARTITION BY app, stream, at_us // 60000000 ORDER BY at_us) AS level FROM changes
), crowd AS (
    SELECT app, stream, minute, sum(net)::BIGINT AS net, sum(net * late_us)::BIGINT AS late_us,
        greatest(max(level), CASE WHEN min(late_us) > 0 THEN 0 END)::BIGINT AS rise, sum(joins)::BIGINT AS joins,
        sum(leaves)::BIGINT AS leaves
    FROM levels GROUP BY ALL
), viewers AS (
    SELECT app, stream, minute, sum(n)::BIGINT AS unique_change, sum(e)::BIGINT AS estimated_change FROM (
        SELECT app, stream, unnest([
            {{'minute': greatest(first_minute, seen), 'n': adds, 'e': 0}},
            {{'minute': first_minute, 'n': 0, 'e': is_estimated::INT}},
            {{'minute': last_minute + 1, 'n': -adds, 'e': -(is_estimated::INT)}}], recursive := true)
        FROM (SELECT *, (greatest(first_minute, seen) <= last_minute)::INT AS adds FROM (
            SELECT *, max(last_minute) OVER (PARTITION BY app, stream, viewer_key ORDER BY first_minute, last_minute
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) + 1 AS seen FROM spans))
    ) GROUP BY ALL
), egress AS (
    SELECT app, stream, epoch_us(minute) // 60000000 AS minute, sum(sent_bytes)::BIGINT AS egress_bytes
    FROM view_minutes GROUP BY ALL
), summed AS (
    SELECT app, stream, minute, coalesce(net, 0) AS net, coalesce(late_us, 0) AS late_us, coalesce(rise, 0) AS rise,
        coalesce(joins, 0) AS joins, coalesce(leaves, 0) AS leaves, coalesce(unique_change, 0) AS unique_change,
        coalesce(estimated_change, 0) AS estimated_change, coalesce(egress_bytes, 0) AS egress_bytes
    FROM crowd FULL JOIN viewers USING (app, stream, minute) FULL JOIN egress USING (app, stream, minute)
), running AS (
    SELECT *, lead(minute) OVER s AS next_minute, sum(net) OVER s AS at_end,
        sum(unique_change) OVER s AS viewers_unique, sum(estimated_change) OVER s AS estimated_views
    FROM summed WINDOW s AS (PARTITION BY app, stream ORDER BY minute)
), every AS (
    SELECT *, unnest(range(greatest(minute, {first_minute}),
        least(coalesce(next_minute, minute + 1), {until_minute}))) AS each_minute FROM running
), rows AS (
    SELECT app, stream, each_minute, each_minute = minute AS is_told,
        (CASE WHEN is_told THEN at_end - net + rise ELSE at_end END)::BIGINT AS viewers_peak,
        (at_end * 60000000 - CASE WHEN is_told THEN late_us ELSE 0 END)::BIGINT AS watched_us,
        viewers_unique::BIGINT AS viewers_unique, estimated_views,
        CASE WHEN is_told THEN joins ELSE 0 END AS joins, CASE WHEN is_told THEN leaves ELSE 0 END AS leaves,
        CASE WHEN is_told THEN egress_bytes ELSE 0 END AS egress_bytes
    FROM every
)
SELECT app, stream, make_timestamp(each_minute * 60000000) AS minute, viewers_peak,
    watched_us / 60000000 AS viewers_avg, viewers_unique, joins, leaves, watched_us,
    watched_us / 1000000 AS watch_seconds, egress_bytes, estimated_views > 0 AS is_estimated
FROM rows WHERE viewers_unique + joins + leaves + egress_bytes > 0
"""

VIEW_QUALITY = """
WITH cut_views AS (
    SELECT app, stream, date_trunc('hour', started_at) AS hour_at, is_failed_start, is_exit_before_picture, watched_us,
        stalled_us, bytes_sent, skipped_bytes, unnest([
        {{'dimension': 'all', 'value': 'all'}}, {{'dimension': 'client', 'value': coalesce(client, 'unknown')}},
        {{'dimension': 'protocol', 'value': coalesce(protocol, 'unknown')}},
        {{'dimension': 'server', 'value': server_id}},
        {{'dimension': 'network', 'value': coalesce(provider(network), 'unknown')}}], recursive := true)
    FROM views
), sums AS (
    SELECT app, stream, hour_at, dimension, value, count_if(NOT is_failed_start) AS views,
        count_if(is_failed_start) AS failed_starts,
        count_if(is_exit_before_picture AND NOT is_failed_start) AS exits_before_picture,
        sum(watched_us)::BIGINT AS watched_us, sum(stalled_us)::BIGINT AS stalled_us,
        sum(bytes_sent)::BIGINT AS bytes_sent, sum(skipped_bytes)::BIGINT AS skipped_bytes
    FROM cut_views GROUP BY ALL
), spread AS (
    SELECT app, stream, hour_at, dimension, value, metric, bucket, sum(count) OVER m AS upto,
        sum(count) OVER (PARTITION BY app, stream, hour_at, dimension, value, metric) AS total
    FROM histogram_hours WHERE metric <> 'rtt_us'
    WINDOW m AS (PARTITION BY app, stream, hour_at, dimension, value, metric ORDER BY bucket)
), percentiles AS (
    SELECT app, stream, hour_at, dimension, value,
        (middle(min(bucket) FILTER (metric = 'startup_us' AND upto * 100 >= total * 50)) + 500) // 1000 AS s50,
        (middle(min(bucket) FILTER (metric = 'startup_us' AND upto * 100 >= total * 95)) + 500) // 1000 AS s95,
        (middle(min(bucket) FILTER (metric = 'startup_us' AND upto * 100 >= total * 99)) + 500) // 1000 AS s99,
        middle(min(bucket) FILTER (metric = 'lag_ms' AND upto * 100 >= total * 50)) AS l50,
        middle(min(bucket) FILTER (metric = 'lag_ms' AND upto * 100 >= total * 95)) AS l95
    FROM spread GROUP BY ALL
), losses AS (
    -- The least of nothing and 1000 is 1000 here, so what has nothing to lose is made 0 before.
    SELECT *, least(coalesce(whole((failed_starts + exits_before_picture)::HUGEINT * 1000000,
            (views + failed_starts)::HUGEINT) // 200, 0), 1000) AS failed,
        least(greatest(coalesce(s95, 0) - 1000, 0) * 1000000 // 9000 // 1000, 1000) AS waited,
        least(coalesce(whole(stalled_us::HUGEINT * 1000000, watched_us::HUGEINT) // 100, 0), 1000) AS stalled,
        least(coalesce(whole(skipped_bytes::HUGEINT * 1000000, (bytes_sent + skipped_bytes)::HUGEINT) // 100, 0), 1000)
            AS dropped
    FROM sums LEFT JOIN percentiles USING (app, stream, hour_at, dimension, value)
)
SELECT app, stream, hour_at, dimension, value, views, failed_starts, exits_before_picture, s50 AS startup_ms_p50,
    s95 AS startup_ms_p95, s99 AS startup_ms_p99, l50 AS lag_ms_p50, l95 AS lag_ms_p95, watched_us, stalled_us,
    CASE WHEN watched_us > 0 THEN stalled_us / watched_us ELSE 0 END AS stall_ratio, bytes_sent, skipped_bytes,
    CASE WHEN bytes_sent + skipped_bytes > 0 THEN skipped_bytes / (bytes_sent + skipped_bytes) ELSE 0 END AS drop_rate,
    ((100000 - 30 * failed - 20 * waited - 35 * stalled - 15 * dropped) // 100)::BIGINT / 10 AS score,
    NULL::BIGINT AS player_views, NULL::BIGINT AS player_startup_ms, NULL::BIGINT AS player_played_ms,
    NULL::BIGINT AS player_stalls, NULL::BIGINT AS player_stalled_ms, NULL::DOUBLE AS player_stall_ratio,
    NULL::BIGINT AS player_latency_ms, NULL::BIGINT AS player_dropped_frames
FROM losses
"""

STREAM_HEALTH = """
WITH minutes AS (
    SELECT app, stream, publication_id, epoch_us("at") // 60000000 AS minute, sum(interval_us)::BIGINT AS sampled_us,
        sum(CASE WHEN received_bytes = 0 THEN interval_us ELSE 0 END)::BIGINT AS stalled_us,
        sum(received_bytes)::BIGINT AS ingress_bytes, sum(video_frames)::BIGINT AS video_frames,
        sum(timestamp_jumps)::BIGINT AS timestamp_jumps, max(keyframe_interval_ms) AS keyframe_interval_ms,
        max(av_skew_us) AS skew_max, min(av_skew_us) AS skew_min, max(abs(drift_ms)) AS drift_most,
        max((epoch_us("at") % 60000000) * 137438953472 + drift_ms + 68719476736) AS last_drift, max(viewers) AS viewers
    FROM stream_seconds GROUP BY ALL
), known AS (
    SELECT minutes.*, p.is_estimated AND NOT p.is_open AS is_estimated,
        abs(drift_most) > greatest(((minute + 1) * 60000000 - coalesce(epoch_us(p.started_at), minute * 60000000))
            * 1000 // 600000000, 1000) AS is_drifting
    FROM minutes LEFT JOIN publications p USING (publication_id)
), summed AS (
    SELECT app, stream, minute, sum(sampled_us)::BIGINT AS sampled_us, sum(stalled_us)::BIGINT AS stalled_us,
        sum(ingress_bytes)::BIGINT AS ingress_bytes, sum(video_frames)::BIGINT AS video_frames,
        sum(timestamp_jumps)::BIGINT AS timestamp_jumps, max(keyframe_interval_ms) AS keyframe_interval_ms,
        max(skew_max) AS skew_max, min(skew_min) AS skew_min, max(last_drift) % 137438953472 - 68719476736 AS drift_ms,
        bool_or(coalesce(is_drifting, false)) AS is_drifting, max(viewers) AS viewers, count(*) AS publications,
        bool_or(coalesce(is_estimated, false)) AS is_estimated
    FROM known GROUP BY ALL
), told AS (
    SELECT *, coalesce(whole(ingress_bytes * 8 * 1000000, sampled_us), 0) AS bitrate_bps,
        CASE WHEN abs(skew_min) > abs(skew_max) THEN skew_min ELSE skew_max END AS skew_us FROM summed
), ranked AS (
    SELECT *, row_number() OVER (h ORDER BY bitrate_bps, minute) AS place, (count(*) OVER h + 1) // 2 AS middle_place
    FROM told WINDOW h AS (PARTITION BY app, stream, minute // 60, ingress_bytes > 0)
), judged AS (
    SELECT *, max(CASE WHEN place = middle_place THEN bitrate_bps END)
        OVER (PARTITION BY app, stream, minute // 60, ingress_bytes > 0) AS median_bps FROM ranked
), worded AS (
    SELECT *, concat_ws('; ',
        CASE WHEN stalled_us >= 3000000 THEN 'no data for ' || stalled_us // 1000000 || ' s' END,
        CASE WHEN bitrate_bps * 100 < median_bps * 40 AND ingress_bytes > 0
            THEN 'bitrate fell to ' || whole(bitrate_bps * 100, median_bps) || ' % of the hour''s median' END,
        CASE WHEN keyframe_interval_ms > 5000 THEN 'key frames ' || keyframe_interval_ms // 1000 || '.'
            || keyframe_interval_ms % 1000 // 100 || ' s apart' END,
        CASE WHEN abs(skew_us) > 200000 THEN 'audio and video ' || abs(skew_us) // 1000 || ' ms apart' END,
        CASE WHEN is_drifting THEN 'media time ' || abs(drift_ms) || ' ms '
            || CASE WHEN drift_ms < 0 THEN 'behind' ELSE 'ahead of' END || ' the clock' END,
        CASE WHEN timestamp_jumps = 1 THEN '1 timestamp jump' END,
        CASE WHEN timestamp_jumps > 1 THEN timestamp_jumps || ' timestamp jumps' END) AS wrong
    FROM judged
)
SELECT app, stream, make_timestamp(minute * 60000000) AS minute, bitrate_bps,
    coalesce(video_frames * 1000000 / nullif(sampled_us, 0), 0) AS fps, keyframe_interval_ms,
    skew_us / 1000 AS av_skew_ms, drift_ms, timestamp_jumps, ingress_bytes, video_frames, sampled_us, stalled_us,
    publications, viewers, CASE WHEN wrong = '' THEN 'healthy' ELSE wrong END AS verdict, is_estimated
FROM worded
"""

INCIDENTS = """
WITH timed AS (
    SELECT app, stream, publication_id, epoch_us("at") AS at_us, epoch_us("at") // 3600000000 AS hour, interval_us,
        bitrate_bps, received_bytes, av_skew_us, drift_ms, keyframe_interval_ms, timestamp_jumps, is_last,
        NOT is_last AND fps_milli > 0 AND coalesce(keyframe_interval_ms > 5000, true) AS is_far FROM stream_seconds
), medians AS (
    SELECT app, stream, hour, middle(min(bucket)) AS median_bps FROM (
        SELECT app, stream, hour, bucket, sum(n) OVER (h ORDER BY bucket) * 2 >= sum(n) OVER h AS is_upper_half FROM (
            SELECT app, stream, hour, bucket(bitrate_bps) AS bucket, count(*) AS n FROM timed
            WHERE received_bytes > 0 GROUP BY ALL) WINDOW h AS (PARTITION BY app, stream, hour))
    WHERE is_upper_half GROUP BY ALL
), suspects AS (
    SELECT timed.*, median_bps, received_bytes = 0 AS is_stalled,
        coalesce(bitrate_bps * 100 < median_bps * 40, false) AS is_low,
        coalesce(abs(av_skew_us) > 200000, false) AS is_skewed,
        coalesce(abs(drift_ms) > greatest((at_us - epoch_us(p.started_at)) * 1000 // 600000000, 1000), false) AS is_off
    FROM timed LEFT JOIN medians USING (app, stream, hour)
    LEFT JOIN (SELECT publication_id, started_at FROM publications) p USING (publication_id)
), peaks AS (
    SELECT app, stream, minute, coalesce(max(peak) FILTER (later = 0), 0) AS now,
        coalesce(max(peak) FILTER (later = 1), 0) AS before, coalesce(max(peak) FILTER (later = 2), 0) AS earlier
    FROM (SELECT app, stream, epoch_us(minute) // 60000000 + later AS minute, later, viewers_peak AS peak
        FROM audience, range(3) AS r(later)) GROUP BY ALL
), episodes AS (
    SELECT app, stream, 'ingest_stalled' AS kind, at_us - interval_us AS from_us, at_us AS to_us,
        NULL::BIGINT AS figure, NULL::BIGINT AS reference FROM suspects WHERE is_stalled
    UNION ALL
    SELECT app, stream, 'bitrate_collapse', at_us - interval_us, at_us, bitrate_bps, median_bps
    FROM suspects WHERE is_low
    UNION ALL
    SELECT app, stream, 'av_drift', at_us - interval_us, at_us, CASE WHEN is_skewed THEN abs(av_skew_us) // 1000 END,
        CASE WHEN is_off THEN abs(drift_ms) END FROM suspects WHERE is_skewed OR is_off
    UNION ALL
    SELECT app, stream, 'keyframe_interval', at_us - interval_us, at_us, keyframe_interval_ms, NULL
    FROM suspects WHERE is_far
    UNION ALL
    SELECT app, stream, 'timestamp_jumps', first_us, at_us, NULL, n FROM (
        SELECT app, stream, at_us, min(at_us - interval_us) OVER w AS first_us, sum(timestamp_jumps) OVER w AS n
        FROM timed WHERE NOT is_last AND timestamp_jumps > 0
        WINDOW w AS (PARTITION BY app, stream ORDER BY at_us RANGE BETWEEN 60000000 PRECEDING AND CURRENT ROW))
    WHERE n >= 5
    UNION ALL
    SELECT app, stream, 'viewer_exodus', (minute - CASE WHEN before = greatest(before, earlier) THEN 1 ELSE 2 END)
        * 60000000, (minute + 1) * 60000000, now, greatest(before, earlier)
    FROM peaks JOIN publications USING (app, stream)
    WHERE now * 2 <= greatest(before, earlier) AND greatest(before, earlier) - now >= 5 AND now < before
        AND epoch_us(started_at) <= (minute - 2) * 60000000
        AND epoch_us(coalesce(ended_at, last_seen_at)) >= (minute + 1) * 60000000
    UNION ALL
    SELECT app, stream, 'reconnect_storm', first_us, at_us, NULL, n FROM (
        SELECT app, stream, at_us, min(at_us) OVER w AS first_us, count(*) OVER w AS n
        FROM (SELECT app, stream, epoch_us(started_at) AS at_us FROM publications)
        WINDOW w AS (PARTITION BY app, stream ORDER BY at_us RANGE BETWEEN 300000000 PRECEDING AND CURRENT ROW))
    WHERE n >= 5
    UNION ALL
    SELECT app, stream, 'reconnect_storm', epoch_us(minute), epoch_us(minute) + 60000000, joins, NULL FROM audience
    WHERE joins >= 20 AND joins >= viewers_peak * 3
), islands AS (
    SELECT *, sum(is_apart) OVER (PARTITION BY app, stream, kind ORDER BY from_us, to_us ROWS UNBOUNDED PRECEDING)
        AS island FROM (
        SELECT *, coalesce(from_us > max(to_us) OVER (PARTITION BY app, stream, kind ORDER BY from_us, to_us
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) + 500000, true)::INT AS is_apart FROM episodes)
), found AS (
    SELECT app, stream, kind, min(from_us) AS from_us, max(to_us) AS to_us, min(figure) AS least, max(figure) AS most,
        max(reference) AS reference
    FROM islands GROUP BY app, stream, kind, island
    HAVING NOT (kind = 'ingest_stalled' AND max(to_us) - min(from_us) < 3000000)
        AND NOT (kind IN ('bitrate_collapse', 'keyframe_interval', 'av_drift') AND max(to_us) - min(from_us) < 10000000)
        AND NOT coalesce(kind = 'bitrate_collapse' AND max(figure) = 0, false)
), watched AS (
    SELECT f.*, coalesce(max(viewers_peak), 0) AS viewers FROM found f LEFT JOIN audience a
        ON a.app = f.app AND a.stream = f.stream AND a.minute >= make_timestamp(f.from_us // 60000000 * 60000000)
        AND a.minute <= make_timestamp(greatest(f.to_us - 1, f.from_us))
    GROUP BY ALL
)
SELECT app, stream, kind, make_timestamp(from_us) AS started_at, make_timestamp(to_us) AS ended_at, CASE kind
    WHEN 'ingest_stalled' THEN 'nothing came for ' || (to_us - from_us) // 1000000 || '.'
        || (to_us - from_us) % 1000000 // 100000 || ' s'
    WHEN 'bitrate_collapse' THEN 'bitrate down to ' || least // 1000 || ' kbit/s, ' || whole(least * 100, reference)
        || ' % of the hour''s median of ' || reference // 1000 || ' kbit/s, for ' || (to_us - from_us) // 1000000 || '.'
        || (to_us - from_us) % 1000000 // 100000 || ' s'
    WHEN 'av_drift' THEN concat_ws(' and ', 'audio and video up to ' || most || ' ms apart',
        'media time up to ' || reference || ' ms off the clock') || ' for ' || (to_us - from_us) // 1000000 || '.'
        || (to_us - from_us) % 1000000 // 100000 || ' s'
    WHEN 'keyframe_interval' THEN coalesce(
        'key frames up to ' || most // 1000 || '.' || most % 1000 // 100 || ' s apart',
        'no second key frame') || ' for ' || (to_us - from_us) // 1000000 || '.'
        || (to_us - from_us) % 1000000 // 100000 || ' s'
    WHEN 'timestamp_jumps' THEN reference || ' timestamp jumps within a minute'
    WHEN 'viewer_exodus' THEN 'viewers fell from ' || reference || ' to ' || least
    ELSE concat_ws(' and ', reference || ' publications within 5 minutes', most || ' joins within a minute') END
    AS evidence, viewers AS affected_viewers
FROM watched
"""

USAGE = """
WITH sampled AS (
    SELECT boot_id, server_id, app, stream, max(last_seen_at) AS sampled_at,
        max_by(viewers_sent_bytes, last_seen_at) AS sent_bytes, max_by(viewers_watched_us, last_seen_at) AS watched_us
    FROM publications WHERE end_reason = 'server_lost' GROUP BY ALL
), on_servers AS (
    SELECT s.app, s.stream, s.sent_bytes, s.watched_us,
        max(v.last_seen_at) FILTER (v.end_reason = 'server_lost') AS seen,
        sum(v.bytes_sent) AS told_bytes,
        sum(epoch_us(coalesce(v.ended_at, v.last_seen_at)) - epoch_us(v.started_at)) AS told_us
    FROM sampled s JOIN views v USING (boot_id, server_id, app, stream)
    WHERE NOT v.is_failed_start AND v.started_at <= s.sampled_at
        AND (v.end_reason = 'server_lost' OR coalesce(v.ended_at, v.last_seen_at) > s.sampled_at)
    GROUP BY boot_id, server_id, s.app, s.stream, s.sent_bytes, s.watched_us
), unreported AS (
    SELECT app, stream, date_trunc('minute', seen) AS minute, sum(greatest(sent_bytes - told_bytes, 0)) AS sent_bytes,
        sum(greatest(watched_us - told_us, 0)) AS watched_us
    FROM on_servers GROUP BY ALL
), minutes AS (
    SELECT app, stream, minute::DATE AS day, 0 AS ingress_bytes, egress_bytes + coalesce(sent_bytes, 0) AS egress_bytes,
        audience.watched_us + coalesce(unreported.watched_us, 0) AS watched_us, is_estimated
    FROM audience LEFT JOIN unreported USING (app, stream, minute)
    UNION ALL SELECT app, stream, minute::DATE, ingress_bytes, 0, 0, is_estimated FROM stream_health
), days AS (
    SELECT app, stream, day, sum(ingress_bytes)::BIGINT AS ingress_bytes, sum(egress_bytes)::BIGINT AS egress_bytes,
        sum(watched_us)::BIGINT AS watched_us, bool_or(is_estimated) AS is_estimated,
        list_sort(list(ingress_bytes * 8 // 60) FILTER (ingress_bytes > 0)) AS ins,
        list_sort(list(egress_bytes * 8 // 60) FILTER (egress_bytes > 0)) AS outs
    FROM minutes GROUP BY ALL
)
SELECT app, stream, day, ingress_bytes, egress_bytes, watched_us / 60000000 AS viewer_minutes, watched_us,
    coalesce(ins[greatest((len(ins) * 95 + 99) // 100, 1)], 0)::BIGINT AS ingress_bps_p95,
    coalesce(outs[greatest((len(outs) * 95 + 99) // 100, 1)], 0)::BIGINT AS egress_bps_p95, is_estimated
FROM days
"""

RECORDINGS = """
SELECT path, app, stream, server_id, recording_id, segment, started_at, duration_ms, bytes, video, audio, keyframes,
    gaps, gap_ms, status
FROM recording_segments QUALIFY row_number() OVER (PARTITION BY server_id, path
    ORDER BY closed_at DESC, boot_id DESC, recording_id DESC, segment DESC) = 1
"""

STATEMENTS = {
    "rollup.view_minutes": VIEW_MINUTES,
    "rollup.view_lags": VIEW_LAGS,
    "silver.views": VIEWS,
    "silver.publications": PUBLICATIONS,
    "silver.stream_seconds": STREAM_SECONDS,
    "silver.recording_segments": RECORDING_SEGMENTS,
    "silver.connections": CONNECTIONS,
    "rollup.histogram_hours": HISTOGRAM_HOURS,
    "gold.audience": AUDIENCE,
    "gold.view_quality": VIEW_QUALITY,
    "gold.stream_health": STREAM_HEALTH,
    "gold.incidents": INCIDENTS,
    "gold.usage": USAGE,
    "gold.recordings": RECORDINGS,
}
"""By table, in the order in which they can be made."""
