// What the tables say: the report's own charts of the last day, how old they are, and a button for new ones.

import { Refused } from "/page/core/api.js";
import { serverNow } from "/page/core/clock.js";
import { h, setText } from "/page/core/dom.js";
import { age, day } from "/page/core/format.js";
import { icon } from "/page/core/icons.js";
import { reportChart } from "/page/parts/report_chart.js";
import { reportTable } from "/page/parts/report_tables.js";
import { empty, skeleton } from "/page/parts/empty.js";
import { attempt } from "/page/parts/toast.js";

/** Charts have the time of the tables. */
const [DAY, MONTH] = ["last day, charts in UTC", "last 31 days, by UTC day"];
const PARTS = {
  audience: { title: "Audience", span: DAY, none: "Nobody watched.", charts: { audience: "Viewers by stream" } },
  quality: { title: "Quality", span: DAY, none: "Nobody watched.", charts: { startup: "Time to the first picture", stalls: "Stalls" } },
  health: { title: "Health of streams", span: DAY, none: "Nothing was published.", charts: { health: "Health", bitrate: "Bitrate" } },
  incidents: { title: "Incidents", span: "last day", none: "Nothing went wrong.", charts: {} },
  usage: { title: "Usage", span: MONTH, none: "Nothing was received or sent.", charts: { usage: "Sent by day" } },
  recordings: { title: "Recordings", span: MONTH, none: "Nothing was recorded.", charts: { recordings: "Recorded" } },
};
const EVERY_MS = 5000;

export function open(app) {
  const told = h("p", { role: "status" });
  const refresh = h("button", { class: "button", type: "button" }, icon("refresh"), "New figures");
  const place = h("div", { class: "stack" }, skeleton(6));
  const shown = new Map();
  let [state, askedAt, parts] = [null, 0, new Map()];

  refresh.addEventListener("click", async () => {
    refresh.disabled = true;
    await attempt(() => app.api.post("/analytics/refresh"), "The pipeline was asked for new figures");
    askedAt = 0;
    app.live.now();
  });

  async function learn(api) {
    state = await api.get("/analytics");
    for (const { part, as_of: asOf } of state.parts) {
      if (!(part in PARTS) || asOf === null || parts.get(part)?.as_of === asOf) continue;
      try {
        parts.set(part, await api.get(`/analytics/${part}`));
      } catch (error) {
        if (!(error instanceof Refused) || ![404, 409].includes(error.status)) throw error;
      }
    }
  }

  function draw() {
    if (state === null) return;
    const made = state.parts.filter((each) => each.as_of !== null);
    const isBusy = state.refresh.state === "running";
    refresh.disabled = isBusy || !state.pipeline.is_running;
    refresh.replaceChildren(icon("refresh"), isBusy ? "Being made…" : "New figures");
    const newest = made.map((each) => each.as_of).sort().at(-1);
    const words = state.refresh.state === "failed" ? ` The last attempt failed: ${state.refresh.words}` : "";
    setText(told, newest === undefined ? "" : `As of ${day(newest)}, ${age(newest, serverNow())} old.${words}${state.pipeline.is_running ? "" : " The pipeline does not run now."}`);
    if (made.length === 0) {
      place.replaceChildren(nothing(state));
      return;
    }
    for (const name of Object.keys(PARTS)) {
      const part = parts.get(name);
      if (part === undefined || shown.get(name) === part.as_of) continue;
      shown.set(name, part.as_of);
      const panel = section(name, part);
      const before = place.querySelector(`[data-part="${name}"]`);
      if (before !== null) before.replaceWith(panel);
      else {
        place.querySelector(".skeleton")?.remove();
        place.append(panel);
      }
    }
  }

  return {
    element: h(
      "div",
      { class: "page" },
      h("header", { class: "page-head" }, h("div", null, h("h1", null, "Analytics"), told), h("div", { class: "page-actions" }, app.session.may("operate") ? refresh : null)),
      place,
    ),
    async poll(api) {
      if (Date.now() - askedAt < EVERY_MS) return;
      await learn(api);
      askedAt = Date.now();
    },
    update: draw,
    close() {},
  };
}

function section(name, part) {
  const { title, span, none, charts } = PARTS[name];
  const drawn = Object.entries(charts).filter(([key]) => part.charts[key] !== undefined);
  const rows = reportTable(name, part.figures);
  return h(
    "section",
    { class: "panel", "data-part": name },
    h("div", { class: "panel-head" }, h("h2", null, title), h("span", { class: "quiet" }, span)),
    drawn.length === 0 ? null : h("div", { class: drawn.length > 1 ? "grid" : null }, drawn.map(([key, words]) => reportChart(words, part.charts[key]))),
    rows,
    drawn.length === 0 && rows === null ? h("p", { class: "quiet" }, none) : null,
  );
}

function nothing({ pipeline }) {
  return empty(
    "analytics",
    "No figures yet",
    h("p", null, pipeline.is_running ? "The pipeline makes tables of what happens; the first figures come with its first run." : "The pipeline makes them out of what happens: "),
    pipeline.is_running ? null : h("p", null, h("code", null, "penstock up"), " runs it beside the server, ", h("code", null, "penstock pipeline run"), " once."),
  );
}
