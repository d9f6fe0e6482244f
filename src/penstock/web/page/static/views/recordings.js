// What was recorded: found, played, fetched, deleted.

import { h, setText } from "/page/core/dom.js";
import { bytes, count, day, duration, plural } from "/page/core/format.js";
import { icon } from "/page/core/icons.js";
import { hrefTo } from "/page/core/router.js";
import { confirmed } from "/page/parts/dialog.js";
import { download } from "/page/parts/download.js";
import { empty, skeleton } from "/page/parts/empty.js";
import { figures } from "/page/parts/figures.js";
import { table } from "/page/parts/table.js";
import { attempt } from "/page/parts/toast.js";

const MOST = 2000;
/** A list longer than this is a few hundred kilobytes: it is asked for every MANY_EVERY_MS, not with each turn. */
const MANY = 200;
const MANY_EVERY_MS = 10_000;
const KINDS = { open: ["live", "recording"], closed: ["", "whole"], repaired: ["warn", "repaired"], failed: ["bad", "failed"] };

export function open(app) {
  const search = h("input", { class: "input", type: "search", placeholder: "Find by stream or file", "aria-label": "Find a recording" });
  const found = h("p", { class: "found", role: "status" });
  const totals = figures({ files: "Files", length: "Length", size: "Size" });
  const waiting = skeleton(6);
  const nothing = h("div");
  const list = table({
    label: "Recordings",
    keyOf: (each) => each.id,
    columns: [
      { title: "Stream", kind: "wrap", cell: (each) => nameCell(app, each) },
      { title: "Began", kind: "still", text: (each) => day(each.started_at) },
      { title: "Length", kind: "number", text: (each) => (each.duration_ms === null ? "goes on" : duration(each.duration_ms / 1000)) },
      { title: "Size", kind: "number", text: (each) => bytes(each.size_bytes) },
      { title: "State", cell: stateCell },
      { title: "", label: "Orders", kind: "actions", cell: (each) => actions(app, each, changed) },
    ],
  });
  const panel = h("section", { class: "panel only-table", hidden: true }, list.element);
  let files = null;
  let askedAt = -Infinity;
  const changed = () => {
    askedAt = -Infinity;
    app.live.now();
  };

  function draw() {
    if (files === null) return;
    waiting.remove();
    const wanted = search.value.trim().toLowerCase();
    const shown = files.filter((each) => `${each.app}/${each.stream} ${each.path}`.toLowerCase().includes(wanted));
    list.update(shown);
    panel.hidden = shown.length === 0;
    setText(found, shown.length === files.length ? "" : `${plural(shown.length, "file")} of ${count(files.length)}`);
    const said = files.length === 0 ? "none" : shown.length === 0 ? "unlike" : "";
    if (nothing.dataset.said === said) return;
    nothing.dataset.said = said;
    nothing.replaceChildren(...(said === "" ? [] : [saidOf(said)]));
  }
  search.addEventListener("input", draw);
  totals.update({ files: "–", length: "–", size: "–" });

  return {
    element: h(
      "div",
      { class: "page" },
      h("header", { class: "page-head" }, h("h1", null, "Recordings"), totals.element),
      h("div", { class: "tools" }, h("div", { class: "search" }, icon("search"), search), found),
      waiting,
      nothing,
      panel,
    ),
    async poll(api) {
      if (files?.length > MANY && performance.now() - askedAt < MANY_EVERY_MS) return;
      askedAt = performance.now();
      files = await api.all("/recordings?sort=-started_at", MOST);
    },
    update() {
      const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);
      totals.update({
        files: count(files.length),
        length: duration(sum(files.map((each) => each.duration_ms)) / 1000),
        size: bytes(sum(files.map((each) => each.size_bytes))),
      });
      draw();
    },
    close: () => list.close(),
  };
}

function saidOf(what) {
  return what === "unlike"
    ? empty("search", "Nothing found", h("p", null, "No file is like that."))
    : empty(
        "recordings",
        "No recordings yet",
        h("p", null, "Streams that recording.streams names are written to files while they are published: ", h("code", null, "penstock serve --record all"), "."),
        h("a", { class: "button", href: hrefTo("settings") }, "Settings in force"),
      );
}

function nameCell(app, each) {
  const name = [h("span", { class: "card-app" }, `${each.app}/`), h("strong", null, each.stream)];
  const canPlay = app.features.has("/recordings/{id}/media.mp4") && app.links.areThere;
  const link = canPlay ? h("a", { class: "row-link", href: hrefTo("recordings", each.id) }, name) : h("span", null, name);
  return { element: h("span", null, link, h("span", { class: "sub" }, each.path)) };
}

function stateCell() {
  const element = h("span", { class: "tag" });
  return {
    element,
    update({ status }) {
      const [kind, text] = KINDS[status];
      element.className = `tag ${kind}`;
      setText(element, text);
    },
  };
}

function actions(app, each, changed) {
  const name = `${each.app}/${each.stream} of ${day(each.started_at)}`;
  const fetching = h("button", { class: "button small", type: "button", "aria-label": `Download ${name}` }, icon("download"));
  fetching.addEventListener("click", () => attempt(() => download(app, each)));
  const remove = h("button", { class: "button small danger", type: "button", "aria-label": `Delete ${name}` }, icon("trash"));
  remove.addEventListener("click", async () => {
    const text = `${each.path} is deleted from the disk of the server for good.`;
    if (!(await confirmed({ title: "Delete this recording?", text, action: "Delete" }))) return;
    await attempt(() => app.api.delete(`/recordings/${encodeURIComponent(each.id)}`), `${each.path} is deleted`);
    changed();
  });
  const mayDelete = app.session.may("admin");
  return {
    element: h("span", { class: "row-actions" }, fetching, mayDelete ? remove : null),
    update({ status }) {
      remove.disabled = status === "open";
    },
  };
}
