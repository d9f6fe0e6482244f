// All streams as cards: found by name, sorted, and drawn as they come into view.

import { h, KeyedList, setText } from "/page/core/dom.js";
import { bitrate, count, plural } from "/page/core/format.js";
import { icon } from "/page/core/icons.js";
import { Rate } from "/page/core/rate.js";
import { hrefTo } from "/page/core/router.js";
import { card } from "/page/parts/card.js";
import { empty, skeleton } from "/page/parts/empty.js";
import { figures } from "/page/parts/figures.js";
import { Sight } from "/page/parts/sight.js";
import { kindOf } from "/page/parts/verdict.js";

const ORDERS = {
  name: ["Name", (a, b) => (a.key < b.key ? -1 : 1)],
  viewers: ["Most viewers", (a, b) => b.viewers - a.viewers || (a.key < b.key ? -1 : 1)],
  bitrate: ["Highest bitrate", (a, b) => b.bitrate_bps - a.bitrate_bps],
  newest: ["Newest", (a, b) => (a.started_at < b.started_at ? 1 : -1)],
};

export function open(app) {
  const sight = new Sight();
  const search = h("input", { class: "input", type: "search", placeholder: "Find a stream", "aria-label": "Find a stream" });
  const order = h("select", { class: "input", "aria-label": "Sort by" }, Object.entries(ORDERS).map(([key, [title]]) => h("option", { value: key }, title)));
  const ailing = h("input", { type: "checkbox" });
  const found = h("p", { class: "found", role: "status" });
  const totals = figures({ streams: "Streams", viewers: "Viewers", in: "In", out: "Out" });
  const grid = h("div", { class: "cards" });
  const nothing = h("div");
  const cards = new KeyedList(grid, (stream) => stream.key, () => card(app.thumbnails, (element, tell) => sight.watch(element, tell)));
  const waiting = skeleton(6);
  let streams = null;
  const [received, sent] = [new Rate(), new Rate()];

  const element = h(
    "div",
    { class: "page" },
    h("header", { class: "page-head" }, h("h1", null, "Streams"), totals.element),
    h("div", { class: "tools" }, h("div", { class: "search" }, icon("search"), search), order, h("label", { class: "check" }, ailing, h("span", null, "Needs attention")), found),
    waiting,
    nothing,
    grid,
  );

  function rates(server) {
    const inPerS = received.add(server.received_bytes);
    const outPerS = sent.add(server.sent_bytes);
    if (inPerS !== null) totals.update({ in: bitrate(inPerS * 8), out: bitrate(outPerS * 8) });
  }

  function draw() {
    if (streams === null) return;
    waiting.remove();
    const wanted = search.value.trim().toLowerCase();
    const shown = streams.filter((each) => each.key.toLowerCase().includes(wanted) && (!ailing.checked || ["warn", "bad"].includes(kindOf(each))));
    shown.sort(ORDERS[order.value][1]);
    cards.update(shown);
    setText(found, shown.length === streams.length ? "" : `${plural(shown.length, "stream")} of ${count(streams.length)}`);
    const isNothing = shown.length === 0;
    if (isNothing === (nothing.firstChild !== null) && nothing.dataset.of === String(streams.length)) return;
    nothing.dataset.of = streams.length;
    nothing.replaceChildren(...(isNothing ? [said(streams.length)] : []));
  }

  function said(number) {
    return number === 0
      ? empty("streams", "No streams now", h("p", null, "A stream shows here as soon as somebody publishes it."), h("a", { class: "button primary", href: hrefTo("start") }, "Start here"))
      : empty("search", "Nothing found", h("p", null, "No stream is like that."));
  }

  search.addEventListener("input", draw);
  order.addEventListener("change", draw);
  ailing.addEventListener("change", draw);
  totals.update({ streams: "–", viewers: "–", in: "–", out: "–" });

  return {
    element,
    async poll(api) {
      streams = (await api.all("/streams")).map((stream) => ({ ...stream, key: `${stream.app}/${stream.stream}` }));
    },
    update(live) {
      totals.update({ streams: count(live.server.streams), viewers: count(live.server.viewers) });
      rates(live.server);
      draw();
    },
    close() {
      cards.close();
      sight.close();
    },
  };
}
