// What happens as it happens, the newest first, by kind and by stream.

import { h, KeyedList, setText } from "/page/core/dom.js";
import { clock, plural } from "/page/core/format.js";
import { icon } from "/page/core/icons.js";
import { hrefTo } from "/page/core/router.js";
import { inWords } from "/page/core/wording.js";
import { empty } from "/page/parts/empty.js";

const MOST = 300;
const GROUPS = {
  all: ["Everything", () => true],
  publish: ["Publishing", (kind) => kind.startsWith("publish") || kind.startsWith("push") || kind.startsWith("pull")],
  play: ["Viewers", (kind) => kind.startsWith("play") || kind.startsWith("beacon")],
  incident: ["Incidents and limits", (kind) => /^(incident|limit|protocol|recording_gap)/.test(kind)],
  recording: ["Recordings", (kind) => kind.startsWith("recording")],
  connection: ["Connections", (kind) => kind.startsWith("connection")],
  server: ["Server", (kind) => kind.startsWith("server") || kind.startsWith("clock")],
};

export function open(app) {
  const { happenings } = app;
  const group = h("select", { class: "input", "aria-label": "Kind" }, Object.entries(GROUPS).map(([key, [title]]) => h("option", { value: key }, title)));
  const search = h("input", { class: "input", type: "search", placeholder: "Find by stream, address or word", "aria-label": "Find events" });
  const pause = h("button", { class: "button", type: "button", "aria-pressed": "false" }, "Pause");
  const found = h("p", { class: "found", role: "status" });
  const list = h("ol", { class: "events" });
  const rows = new KeyedList(list, (event) => event.id, row);
  const nothing = h("div");
  const panel = h("section", { class: "panel only-table" }, list);
  let [isPaused, kept] = [false, []];

  function draw() {
    if (!isPaused) kept = happenings.events;
    const [, isWanted] = GROUPS[group.value];
    const wanted = search.value.trim().toLowerCase();
    const shown = [];
    for (let place = kept.length - 1; place >= 0 && shown.length < MOST; place -= 1) {
      const event = kept[place];
      if (isWanted(event.kind) && (wanted === "" || textOf(event).includes(wanted))) shown.push(event);
    }
    rows.update(shown);
    setText(found, happenings.isOpen ? (shown.length === MOST ? `The newest ${MOST}` : plural(shown.length, "event")) : "Not connected");
    panel.hidden = shown.length === 0;
    const said = shown.length > 0 ? "" : kept.length > 0 ? "unlike" : "none";
    if (nothing.dataset.said === said) return;
    nothing.dataset.said = said;
    nothing.replaceChildren(...(said === "" ? [] : [saidOf(said)]));
  }

  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    if (isPaused) kept = [...happenings.events];
    pause.setAttribute("aria-pressed", String(isPaused));
    setText(pause, isPaused ? "Go on" : "Pause");
    draw();
  });
  group.addEventListener("change", draw);
  search.addEventListener("input", draw);
  happenings.listeners.add(draw);
  draw();

  return {
    element: h(
      "div",
      { class: "page" },
      h("header", { class: "page-head" }, h("h1", null, "Events"), h("div", { class: "page-actions" }, pause)),
      h("div", { class: "tools" }, h("div", { class: "search" }, icon("search"), search), group, found),
      nothing,
      panel,
    ),
    close() {
      happenings.listeners.delete(draw);
      rows.close();
    },
  };
}

function saidOf(what) {
  return what === "unlike"
    ? empty("search", "Nothing found", h("p", null, "No event is like that."))
    : empty("events", "Nothing happened yet", h("p", null, "Everything that starts, stops or goes wrong shows here at once."));
}

function textOf(event) {
  event.text ??= `${event.kind} ${event.data.app ?? ""}/${event.data.stream ?? ""} ${inWords(event).join(" ")}`.toLowerCase();
  return event.text;
}

function row(event) {
  const { data } = event;
  const [title, details, kind] = inWords(event);
  const name = data.stream ? h("a", { class: "event-stream", href: hrefTo("streams", data.app, data.stream) }, `${data.app}/${data.stream}`) : h("span", { class: "event-stream" });
  const fields = h("dl", { class: "fields" });
  const more = h(
    "details",
    { class: "event" },
    h(
      "summary",
      null,
      h("time", { class: "event-time", datetime: new Date(data.at_us / 1000).toISOString() }, clock(data.at_us / 1000)),
      h("span", { class: "event-dot", "data-kind": kind, "aria-hidden": "true" }),
      h("span", { class: "event-title" }, title),
      h("span", { class: "event-details" }, details),
    ),
    fields,
  );
  more.addEventListener("toggle", () => {
    if (fields.firstChild !== null) return;
    fields.append(...Object.entries(data).map(([key, value]) => h("div", null, h("dt", null, key), h("dd", null, value === null ? "–" : String(value)))));
  });
  return { element: h("li", null, more, name), update() {} };
}
