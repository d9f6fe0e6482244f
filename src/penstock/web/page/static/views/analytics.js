// What the tables say: the report's own charts of the last day, how old they are, and a button for new ones.

import { Refused } from "/page/core/api.js";
import { serverNow } from "/page/core/clock.js";
import { h, setText } from "/page/core/dom.js";
import { day, duration } from "/page/core/format.js";
import { icon } from "/page/core/icons.js";
import { reportChart } from "/page/parts/report_chart.js";
import { empty, skeleton } from "/page/parts/empty.js";
import { attempt } from "/page/parts/toast.js";

const PARTS = {
  audience: { title: "Audience", charts: { audience: "Viewers by stream" } },
  quality: { title: "Quality", charts: { startup: "Time to the first picture", stalls: "Stalls" } },
  health: { title: "Health of streams", charts: { health: "Health", bitrate: "Bitrate" } },
  usage: { title: "Usage", charts: { usage: "Sent by day" } },
  recordings: { title: "Recordings", charts: { recordings: "Recorded" } },
};
const EVERY_MS = 5000;

export function open(app) {
  const age = h("p", { role: "status" });
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
    setText(age, newest === undefined ? "" : `As of ${day(newest)}, ${duration((serverNow() - Date.parse(newest)) / 1000)} old.${words}${state.pipeline.is_running ? "" : " The pipeline does not run now."}`);
    if (made.length === 0) {
      place.replaceChildren(nothing(state));
      return;
    }
    for (const [name, { title, charts }] of Object.entries(PARTS)) {
      const part = parts.get(name);
      if (part === undefined || shown.get(name) === part.as_of) continue;
      shown.set(name, part.as_of);
      const panel = section(name, title, charts, part);
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
      h("header", { class: "page-head" }, h("div", null, h("h1", null, "Analytics"), age), h("div", { class: "page-actions" }, app.session.may("operate") ? refresh : null)),
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

function section(name, title, charts, part) {
  const drawn = Object.entries(charts).filter(([key]) => part.charts[key] !== undefined);
  return h(
    "section",
    { class: "panel", "data-part": name },
    h("div", { class: "panel-head" }, h("h2", null, title), h("span", { class: "quiet" }, name === "usage" || name === "recordings" ? "last 31 days" : "last day")),
    drawn.length === 0
      ? h("p", { class: "quiet" }, "Nothing to show in this time.")
      : h("div", { class: drawn.length > 1 ? "grid" : null }, drawn.map(([key, words]) => reportChart(words, part.charts[key]))),
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
