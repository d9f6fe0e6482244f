// Events in words. A kind that is not known here is told by its fields.

import { bitrate, bytes, client, duration, milliseconds, plural } from "/page/core/format.js";

const seconds = (us) => duration(us / 1e6);
const who = (data) => [data.auth_subject, data.peer_addr, client(data.client)].filter(Boolean).join(", ");

const WORDS = {
  server_started: (data) => ["Server started", `Penstock ${data.software_version}, worker ${data.worker ?? "–"}`],
  server_stopped: (data) => ["Server stopped", `after ${seconds(data.uptime_us)}`],
  clock_stepped: (data) => ["Clock stepped", `by ${milliseconds(Math.round(data.step_us / 1000))}`],
  connection_opened: (data) => ["Connection opened", `${data.peer_addr} by ${data.protocol}`],
  connection_closed: (data) => ["Connection closed", `${data.peer_addr}: ${reason(data)}, after ${seconds(data.duration_us)}`],
  publish_started: (data) => ["Publishing", who(data)],
  publish_stopped: (data) => ["Published no more", `${reason(data)}, after ${seconds(data.duration_us)}, ${bytes(data.received_bytes)}`],
  play_started: (data) => ["Viewer joined", `${who(data)} by ${data.protocol}`],
  play_first_keyframe: (data) => ["First picture", `after ${milliseconds(Math.round(data.startup_us / 1000))}`],
  play_stopped: (data) => ["Viewer left", `${who(data)}: ${reason(data)}, watched ${seconds(data.watched_us)}, ${bytes(data.sent_bytes)}`],
  view_beacon: (data) => ["Player told", `first picture after ${milliseconds(data.startup_ms)}, ${plural(data.stalls ?? 0, "stall")}, ${milliseconds(data.latency_ms)} behind`],
  push_started: (data) => ["Sent on", `to ${data.target}, ${data.address}`],
  push_state: (data) => ["Push", [`${data.target}: ${data.state}`, data.last_error, plural(data.attempts, "attempt")].filter(Boolean).join(", ")],
  push_stopped: (data) => ["Sent on no more", `to ${data.target}: ${reason(data)}, after ${seconds(data.duration_us)}, ${bytes(data.sent_bytes)}`],
  recording_segment_closed: (data) => ["Recorded", `${data.path}, ${duration(data.duration_ms / 1000)}, ${bytes(data.size_bytes)}`],
  recording_gap: (data) => ["Gap in a recording", `${milliseconds(data.gap_ms)} in ${data.path}: ${reason(data)}`],
  protocol_violation: (data) => ["Protocol violated", `${data.peer_addr}, ${data.layer}: ${data.detail}`],
  limit_hit: (data) => ["Limit hit", `${data.limit}, ${data.hits} times: ${data.detail}`],
  incident_started: (data) => ["Incident", `${String(data.incident ?? data.incident_kind ?? "").replaceAll("_", " ")} ${data.evidence ?? ""}`.trim()],
  incident_ended: (data) => ["Incident over", `${String(data.incident ?? data.incident_kind ?? "").replaceAll("_", " ")} ${data.evidence ?? ""}`.trim()],
  stream_sample: (data) => ["Sample", `${bitrate(data.bitrate_bps)}, ${data.fps} fps`],
};
const BAD = new Set(["protocol_violation", "limit_hit", "recording_gap", "incident_started"]);
const GOOD = new Set(["publish_started", "server_started", "incident_ended"]);

function reason(data) {
  return String(data.reason ?? "").replaceAll("_", " ");
}

/** [title, details, kind of importance] */
export function inWords({ kind, data }) {
  const title = kind.replaceAll("_", " ");
  const [words, details] = WORDS[kind]?.(data) ?? [title.charAt(0).toUpperCase() + title.slice(1), ""];
  return [words, details, BAD.has(kind) ? "bad" : GOOD.has(kind) ? "ok" : ""];
}
