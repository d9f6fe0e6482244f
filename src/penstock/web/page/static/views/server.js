// The server as a whole: its workers, processes and load, the limits that were hit, who is connected.

import { serverNow } from "/page/core/clock.js";
import { h, setText } from "/page/core/dom.js";
import { bitrate, bytes, client, count, day, milliseconds, since } from "/page/core/format.js";
import { Rate } from "/page/core/rate.js";
import { confirmed } from "/page/parts/dialog.js";
import { figures } from "/page/parts/figures.js";
import { meter } from "/page/parts/meter.js";
import { table, twoLines } from "/page/parts/table.js";
import { attempt, tell } from "/page/parts/toast.js";

const SHOWN_CONNECTIONS = 50;
const WORDS = { supervisor: "Supervisor", web: "Web", worker: "Worker" };

export function open(app) {
  const totals = figures({ up: "Up", connections: "Connections", viewers: "Viewers", streams: "Streams" });
  const facts = figures({ id: "Server", version: "Version", state: "State", since: "Running since", received: "Received", sent: "Sent", load: "Load, of cores" }, "facts");
  const hasWorkers = app.features.has("/workers");
  const rates = new Rates();
  const workers = table({
    label: "Workers",
    keyOf: (each) => String(each.worker),
    columns: [
      { title: "Worker", cell: twoLines((each) => `Worker ${each.worker}`, (each) => `process ${each.pid}`) },
      { title: "State", cell: stateTag },
      { title: "Busy", cell: () => meter("Busy", (each) => each.busy_share) },
      { title: "Log", cell: () => meter("Log memory", (each) => each.log_bytes / Math.max(1, each.log_budget_bytes), (each) => bytes(each.log_bytes)) },
      { title: "Streams", kind: "number", text: (each) => count(each.streams) },
      { title: "Viewers", kind: "number", text: (each) => count(each.viewers) },
      { title: "In", kind: "number", text: (each) => bitrate(rates.of(`in${each.worker}`, each.received_bytes)) },
      { title: "Out", kind: "number", text: (each) => bitrate(rates.of(`out${each.worker}`, each.sent_bytes)) },
      { title: "Flush", kind: "number", text: (each) => milliseconds(Math.round(each.flush_interval_ms)) },
    ],
  });
  const processes = table({
    label: "Processes",
    keyOf: (each) => String(each.pid),
    columns: [
      { title: "Process", cell: twoLines((each) => `${WORDS[each.role]}${each.worker === null ? "" : ` ${each.worker}`}`, (each) => `process ${each.pid}`) },
      { title: "Up", kind: "number", text: (each) => (each.started_at === null ? "–" : since(each.started_at, serverNow())) },
      { title: "Memory", kind: "number", text: (each) => bytes(each.memory_bytes) },
      { title: "Processor", kind: "number", text: (each) => percent(each.cpu_s === null ? null : rates.perSecond(`cpu${each.pid}`, each.cpu_s)) },
    ],
  });
  const connections = table({
    label: "Connections",
    keyOf: (each) => each.conn_id,
    columns: [
      { title: "From", kind: "wrap", cell: twoLines((each) => each.peer_addr, (each) => client(each.client) ?? "") },
      { title: "By", kind: "still", text: (each) => each.protocol },
      { title: "App", kind: "wrap", text: (each) => each.app ?? "–" },
      { title: "Open for", kind: "number", text: (each) => since(each.opened_at, serverNow()) },
      { title: "Received", kind: "number", text: (each) => bytes(each.received_bytes) },
      { title: "Sent", kind: "number", text: (each) => bytes(each.sent_bytes) },
    ],
  });
  const connectionNote = h("p", { class: "quiet" });
  const limits = h("dl", { class: "facts" });
  const noLimits = h("p", { class: "quiet" }, "No limit was hit since the server started.");
  const limitsPanel = h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", null, "Limits hit")), noLimits, limits);
  const processPanel = h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", null, "Processes")), processes.element);
  let [workerItems, open_, limitsKey] = [[], { items: [] }, null];

  return {
    element: h(
      "div",
      { class: "page" },
      h("header", { class: "page-head" }, h("h1", null, "Server"), totals.element),
      h(
        "div",
        { class: "stack" },
        h("section", { class: "panel" }, facts.element),
        hasWorkers ? h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", null, "Workers")), workers.element) : null,
        h("div", { class: "grid" }, processPanel, limitsPanel),
        h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", null, "Connections"), connectionNote), connections.element),
        app.session.may("admin") ? drainPanel(app) : null,
      ),
    ),
    async poll(api) {
      open_ = await api.get(`/connections?limit=${SHOWN_CONNECTIONS}&sort=-opened_at`);
      if (hasWorkers) workerItems = (await api.get("/workers")).items;
    },
    update({ server }) {
      totals.update({ up: since(server.started_at, serverNow()), connections: count(server.connections), viewers: count(server.viewers), streams: count(server.streams) });
      facts.update({
        id: server.server_id,
        version: server.version,
        state: server.complaint ?? server.state,
        since: day(server.started_at),
        received: bytes(server.received_bytes),
        sent: bytes(server.sent_bytes),
        load: server.load === undefined ? "–" : `${server.load.machine_1min.toFixed(1)} of ${server.load.cores}`,
      });
      if (hasWorkers) workers.update(workerItems);
      processPanel.hidden = server.processes === undefined;
      limitsPanel.hidden = server.limits_hit === undefined;
      processes.update(server.processes ?? []);
      connections.update(open_.items);
      connections.element.hidden = open_.items.length === 0;
      setText(connectionNote, server.connections > open_.items.length ? `the newest ${open_.items.length} of ${count(server.connections)}` : open_.items.length === 0 ? "Nobody is connected" : "");
      const hit = Object.entries(server.limits_hit ?? {}).filter(([, hits]) => hits > 0);
      noLimits.hidden = hit.length > 0;
      const key = JSON.stringify(hit);
      if (key !== limitsKey) limits.replaceChildren(...hit.map(([limit, hits]) => h("div", null, h("dt", null, limit.replaceAll("_", " ")), h("dd", null, count(hits)))));
      limitsKey = key;
    },
    close() {
      for (const each of [workers, processes, connections]) each.close();
    },
  };
}

const percent = (share) => (share === null ? "–" : `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`);

/** How fast counters grow, each by its name. */
class Rates {
  #kept = new Map();

  perSecond(key, value) {
    if (!this.#kept.has(key)) this.#kept.set(key, new Rate());
    return this.#kept.get(key).add(value);
  }

  of(key, byteCount) {
    const rate = this.perSecond(key, byteCount);
    return rate === null ? null : rate * 8;
  }
}

function stateTag() {
  const element = h("span", { class: "tag" });
  return {
    element,
    update({ state }) {
      element.className = `tag ${state === "ready" ? "ok" : "bad"}`;
      setText(element, state);
    },
  };
}

function drainPanel(app) {
  const button = h("button", { class: "button danger", type: "button" }, "Drain and end");
  button.addEventListener("click", async () => {
    const text = "No new connections; the server ends when the last one has gone, or in 30 s. Whoever started it has to start it again.";
    if (!(await confirmed({ title: "End this server?", text, action: "Drain and end" }))) return;
    if (await attempt(() => app.api.post("/drain", { within_s: 30 }))) tell("The server ends when it is empty, or in 30 s");
  });
  return h("section", { class: "panel panel-row" }, h("div", null, h("h2", null, "End the server"), h("p", { class: "quiet" }, "It lets those who are connected finish first.")), button);
}
