// What the tables say in rows: quality and usage by stream, incidents, what was recorded by day.

import { bitrate, bytes, count, day, duration, milliseconds } from "/page/core/format.js";
import { table, twoLines } from "/page/parts/table.js";

const MOST = 200;
const percent = (share) => (share === null ? "–" : `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`);
const stream = { title: "Stream", kind: "wrap", text: (each) => `${each.app}/${each.stream}` };
const figure = (title, text) => ({ title, kind: "number", text });

/** By part: where its rows are, what tells them apart, and what is shown of each. */
const TABLES = {
  quality: {
    label: "Quality by stream",
    rows: ({ streams = [] }) => streams,
    columns: [
      stream,
      figure("Views", ({ quality }) => count(quality.views)),
      figure("Score of 100", ({ quality }) => count(quality.score)),
      figure("First picture", ({ quality }) => milliseconds(quality.startup_ms_p50)),
      figure("p95", ({ quality }) => milliseconds(quality.startup_ms_p95)),
      figure("Stalled", ({ quality }) => percent(quality.stall_ratio)),
      figure("Skipped", ({ quality }) => percent(quality.drop_rate)),
      figure("Failed starts", ({ quality }) => count(quality.failed_starts)),
    ],
  },
  incidents: {
    label: "Incidents",
    rows: ({ incidents = [] }) => incidents,
    columns: [
      { title: "What", kind: "wrap", cell: twoLines((each) => each.kind.replaceAll("_", " "), (each) => each.evidence) },
      stream,
      { title: "Began", kind: "still", text: (each) => day(each.started_at) },
      figure("For", (each) => (each.ended_at === null ? "goes on" : duration((Date.parse(each.ended_at) - Date.parse(each.started_at)) / 1000))),
      figure("Viewers", (each) => count(each.affected_viewers)),
    ],
  },
  usage: {
    label: "Usage by stream",
    rows: ({ streams = [] }) => streams,
    columns: [
      stream,
      figure("Sent", (each) => `${each.is_estimated ? "≈ " : ""}${bytes(each.egress_bytes)}`),
      figure("Viewer-minutes", (each) => count(each.viewer_minutes)),
      figure("Received", (each) => bytes(each.ingress_bytes)),
      figure("95th percentile sent", (each) => bitrate(each.egress_bps_p95)),
      figure("Days", (each) => count(each.days)),
    ],
  },
  recordings: {
    label: "Recorded by day and app",
    rows: ({ days = [] }) => [...days].reverse(),
    columns: [
      { title: "Day", kind: "still", text: (each) => each.day },
      { title: "App", kind: "wrap", text: (each) => each.app },
      figure("Files", (each) => count(each.files)),
      figure("Length", (each) => duration(each.duration_ms / 1000)),
      figure("Size", (each) => bytes(each.bytes)),
    ],
  },
};

/** The rows of a part as an element; null: it has none. */
export function reportTable(part, figures) {
  if (TABLES[part] === undefined) return null;
  const { label, columns, rows } = TABLES[part];
  const shown = rows(figures).slice(0, MOST).map((each, place) => ({ ...each, place }));
  if (shown.length === 0) return null;
  const made = table({ label, columns, keyOf: ({ place }) => place });
  made.update(shown);
  return made.element;
}
