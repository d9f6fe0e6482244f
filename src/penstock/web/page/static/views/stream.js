// One stream: its picture, how it does and what to do about it, who watches, what went wrong.

import { Refused } from "/page/core/api.js";
import { serverNow } from "/page/core/clock.js";
import { h, KeyedList, setText } from "/page/core/dom.js";
import { bitrate, bytes, client, clock, count, day, duration, fps, milliseconds, since, tracks } from "/page/core/format.js";
import { follow } from "/page/core/feed.js";
import { icon } from "/page/core/icons.js";
import { hrefTo, streamPath } from "/page/core/router.js";
import { chart, Series } from "/page/parts/chart.js";
import { confirmed } from "/page/parts/dialog.js";
import { empty, skeleton } from "/page/parts/empty.js";
import { figures } from "/page/parts/figures.js";
import { livePlayer } from "/page/parts/player.js";
import { pushTargets } from "/page/parts/pushes.js";
import { table, twoLines } from "/page/parts/table.js";
import { attempt } from "/page/parts/toast.js";
import { kindOf, verdict } from "/page/parts/verdict.js";

const SHOWN_VIEWERS = 200;
const ALONE_AFTER_MS = 4000;
const ALL_IS_SEEN = "Nothing to do: pictures come in time, key frames often enough, sound and picture together.";
const ALL_IS_HEARD = "Nothing to do: sound comes in time. There is no picture in this stream.";

export function open(app, [appName, streamName]) {
  const names = { app: appName, stream: streamName };
  const path = streamPath(names);
  const may = app.session.may("operate");
  const query = `app=${encodeURIComponent(appName)}&stream=${encodeURIComponent(streamName)}`;
  let [stream, viewers, incidents, isGone] = [null, [], [], false];

  const health = verdict();
  const advice = h("ul", { class: "advice" });
  const recording = recordingSwitch(app, path);
  const kickPublisher = h("button", { class: "button small danger", type: "button" }, "Disconnect publisher");
  const numbers = figures({ viewers: "Viewers", up: "Up", bitrate: "Bitrate", fps: "Frames" });
  const facts = figures(
    { format: "Tracks", keys: "Key frames", skew: "Audio to video", received: "Received", sent: "Sent", publisher: "Publisher", client: "Encoder", worker: "Worker", left_out: "Left out over HTTP" },
    "facts",
  );
  const audience = chart({ title: "Viewers", format: count, isStep: true, least: 4 });
  const rate = chart({ title: "Bitrate", format: bitrate, least: 1000 });
  const [viewerSeries, rateSeries] = [new Series(), new Series()];
  const player = h("div", { class: "player-place" });
  const viewerTable = viewersTable(app, may);
  const viewerNote = h("p", { class: "quiet" });
  const incidentList = h("ul", { class: "incidents" });
  const incidentRows = new KeyedList(incidentList, (each) => `${each.kind}${each.started_at}`, incidentRow);
  const noIncidents = h("p", { class: "quiet" }, "Nothing went wrong lately.");
  const pushes = pushTargets(app, names);
  const content = h("div", { class: "stack", hidden: true });
  const waiting = skeleton(6);
  const over = h("div");
  let [live, life] = [null, null];

  function closePlayer() {
    live?.close();
    live = null;
    player.replaceChildren();
  }

  content.append(
    h(
      "div",
      { class: "stream-top" },
      player,
      h(
        "div",
        { class: "panel health" },
        h("div", { class: "panel-head" }, h("h2", null, "Health"), health.element),
        advice,
        facts.element,
        h("div", { class: "health-actions" }, recording.element, may ? kickPublisher : null),
      ),
    ),
    h("div", { class: "grid" }, h("section", { class: "panel" }, audience.element), h("section", { class: "panel" }, rate.element)),
    h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", null, "Viewers"), viewerNote), viewerTable.element),
    pushes.element,
    h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", null, "Incidents")), noIncidents, incidentList),
  );

  const element = h(
    "div",
    { class: "page" },
    h(
      "header",
      { class: "page-head" },
      h(
        "div",
        { class: "title" },
        h("a", { class: "back", href: hrefTo("streams"), "aria-label": "All streams" }, icon("back")),
        h("h1", null, h("span", { class: "card-app" }, `${appName}/`), streamName),
      ),
      numbers.element,
    ),
    waiting,
    over,
    content,
  );

  kickPublisher.addEventListener("click", async () => {
    const { publisher } = stream ?? {};
    if (!publisher) return;
    const text = `${publisher.peer_addr} publishes ${appName}/${streamName}. Its connection is closed; most encoders connect again.`;
    if (await confirmed({ title: "Disconnect the publisher?", text, action: "Disconnect" })) {
      await attempt(() => app.api.delete(`/connections/${encodeURIComponent(publisher.conn_id)}`), "The publisher is disconnected");
    }
  });

  const stop = new AbortController();
  follow(app.api, `${query}&kind=viewer_sample&samples=true&batch_ms=1000`, {
    signal: stop.signal,
    onEvent: ({ data }) => viewerTable.sampled(data),
  });

  function draw() {
    const now = Date.now();
    health.update(stream);
    setAdvice(advice, stream);
    numbers.update({ viewers: count(stream.viewers), up: since(stream.started_at, serverNow()), bitrate: bitrate(stream.bitrate_bps), fps: fps(stream.video === null ? null : stream.fps) });
    facts.update({
      format: tracks(stream).join(" · ") || "–",
      keys: stream.keyframe_interval_ms === null ? "–" : `every ${(stream.keyframe_interval_ms / 1000).toFixed(1)} s`,
      skew: stream.av_skew_ms === null ? "–" : `${stream.av_skew_ms.toFixed(0)} ms`,
      received: bytes(stream.received_bytes),
      sent: bytes(stream.sent_bytes),
      publisher: stream.publisher === null ? "gone" : (stream.publisher.auth_subject ?? stream.publisher.peer_addr),
      client: client(stream.publisher?.client) ?? "–",
      worker: String(stream.worker),
      left_out: stream.left_out.map(({ what, why }) => `${what}: ${why}`).join("; ") || "nothing",
    });
    recording.update(stream);
    kickPublisher.disabled = stream.publisher === null;
    viewerSeries.add(now, stream.viewers);
    rateSeries.add(now, stream.bitrate_bps);
    audience.update(viewerSeries);
    rate.update(rateSeries);
    viewerTable.update(viewers);
    setText(viewerNote, viewersInWords(stream, viewers));
    incidentRows.update(incidents);
    noIncidents.hidden = incidents.length > 0;
    pushes.update();
  }

  return {
    element,
    async poll(api) {
      try {
        [stream, { items: viewers }, { items: incidents }] = await Promise.all([
          api.get(path),
          api.get(`/viewers?${query}&limit=${SHOWN_VIEWERS}`),
          api.get(`/incidents?${query}&limit=20`),
        ]);
        isGone = false;
      } catch (error) {
        if (!(error instanceof Refused) || error.status !== 404) throw error;
        isGone = true;
      }
      await pushes.poll(api);
    },
    update({ server }) {
      // Players know links of the server that made them.
      if (life !== server.life_id) closePlayer();
      life = server.life_id;
      waiting.remove();
      content.hidden = isGone;
      over.replaceChildren(...(isGone ? [gone(names)] : []));
      if (isGone) {
        closePlayer();
        numbers.update({ viewers: "–", up: "–", bitrate: "–", fps: "–" });
        return;
      }
      if (live !== null && live.hasPicture !== (stream.video !== null)) closePlayer();
      if (live === null && isPlayable(stream) && app.links.areThere) {
        live = livePlayer(app.links, { ...names, hasPicture: stream.video !== null });
        player.replaceChildren(live.element);
      }
      player.hidden = live === null;
      draw();
    },
    refused(error) {
      waiting.remove();
      over.replaceChildren(empty("warning", "This cannot be shown", h("p", null, error.message)));
    },
    close() {
      stop.abort();
      live?.close();
      viewerTable.close();
      pushes.close();
      incidentRows.close();
    },
  };
}

const gone = ({ app, stream }) =>
  empty("streams", "Not published now", h("p", null, `${app}/${stream} shows here as soon as somebody publishes it.`), h("a", { class: "button", href: hrefTo("streams") }, "All streams"));

/** Sound alone is played too, once it is certain that no picture comes with it. */
const isPlayable = (stream) => stream.video !== null || (stream.audio !== null && stream.bitrate_bps > 0 && serverNow() - Date.parse(stream.started_at) > ALONE_AFTER_MS);

function setAdvice(list, stream) {
  const praise = stream.video === null ? ALL_IS_HEARD : ALL_IS_SEEN;
  const wanted = stream.advice.length > 0 ? stream.advice : kindOf(stream) === "ok" ? [praise] : [];
  if (list.childElementCount === wanted.length && wanted.every((text, index) => list.children[index].textContent === text)) return;
  list.replaceChildren(...wanted.map((text) => h("li", null, text)));
  list.dataset.kind = stream.advice.length > 0 ? "warn" : "ok";
}

function viewersInWords(stream, viewers) {
  const parts = Object.entries(stream.viewers_by_protocol).map(([protocol, number]) => `${number} by ${protocol}`);
  if (viewers.length < stream.viewers) parts.push(`the first ${viewers.length} of ${count(stream.viewers)} are shown`);
  return parts.join(", ") || "Nobody watches now";
}

function recordingSwitch(app, path) {
  const box = h("input", { type: "checkbox", role: "switch" });
  const words = h("span", null, "Record");
  const element = h("label", { class: "check switch" }, box, words);
  let isBusy = false;
  box.disabled = !app.session.may("operate");
  box.addEventListener("change", async () => {
    const wanted = box.checked;
    isBusy = true;
    const isDone = await attempt(() => app.api.put(`${path}/recording`, { is_recording: wanted }), wanted ? "Recording" : "Recording stopped");
    if (!isDone) box.checked = !wanted;
    isBusy = false;
  });
  return {
    element,
    update(stream) {
      if (!isBusy && box.checked !== stream.is_recording) box.checked = stream.is_recording;
    },
  };
}

/** Who watches, with the quality of each as its samples say. */
function viewersTable(app, may) {
  const samples = new Map();
  const sampleOf = (viewer) => samples.get(viewer.view_id);
  const columns = [
    { title: "Who", kind: "wrap", cell: twoLines((each) => each.auth_subject ?? each.peer_addr, (each) => [each.auth_subject && each.peer_addr, client(each.client)].filter(Boolean).join(" · ")) },
    { title: "By", kind: "still", text: (each) => each.protocol },
    { title: "For", kind: "number", text: (each) => duration(each.watched_us / 1e6) },
    { title: "Sent", kind: "number", text: (each) => bytes(each.sent_bytes) },
    { title: "Behind", kind: "number", text: (each) => milliseconds(each.lag_ms) },
    { title: "Round trip", kind: "number", text: (each) => roundTrip(sampleOf(each)) },
    { title: "Skips", kind: "number", text: (each) => count(each.skips) },
    { title: "Quality", cell: quality },
  ];
  if (may) columns.push({ title: "", label: "Orders", kind: "actions", cell: (viewer) => kickButton(app, viewer) });
  const made = table({ label: "Viewers", columns, keyOf: (viewer) => viewer.view_id });
  return {
    ...made,
    sampled(data) {
      samples.set(data.view_id, data);
      if (samples.size > 2 * SHOWN_VIEWERS) samples.delete(samples.keys().next().value);
    },
    update(viewers) {
      made.element.hidden = viewers.length === 0;
      made.update(viewers);
    },
  };
}

function roundTrip(sample) {
  if (sample === undefined) return "–";
  if (sample.rtt_us !== null) return `${(sample.rtt_us / 1000).toFixed(sample.rtt_us < 10_000 ? 1 : 0)} ms`;
  return milliseconds(sample.ping_ms);
}

function quality() {
  const element = h("span", { class: "tag" });
  return {
    element,
    update(viewer) {
      const lag = viewer.lag_ms ?? 0;
      const [kind, text] = viewer.skips > 0 ? ["bad", "lost pictures"] : lag > 2000 ? ["warn", "falls behind"] : ["ok", "smooth"];
      element.className = `tag ${kind}`;
      setText(element, text);
    },
  };
}

function kickButton(app, viewer) {
  const who = viewer.auth_subject ?? viewer.peer_addr;
  const element = h("button", { class: "button small danger", type: "button", "aria-label": `Kick ${who}` }, "Kick");
  element.addEventListener("click", async () => {
    const text = `${who} stops watching ${viewer.app}/${viewer.stream}. A player may come back by itself.`;
    if (!(await confirmed({ title: "Kick this viewer?", text, action: "Kick" }))) return;
    element.disabled = true;
    const isDone = await attempt(() => app.api.delete(`/viewers/${encodeURIComponent(viewer.view_id)}`), `${who} was kicked`);
    element.disabled = isDone;
    app.live.now();
  });
  return { element };
}

function incidentRow() {
  const [when, kind, evidence, tip] = [h("span", { class: "quiet" }), h("strong"), h("span"), h("p", { class: "quiet" })];
  const tag = h("span", { class: "tag" });
  return {
    element: h("li", null, h("p", null, tag, " ", kind, " ", evidence), tip, when),
    update(incident) {
      const isOver = incident.ended_at !== null;
      tag.className = `tag ${isOver ? "" : "warn"}`;
      setText(tag, isOver ? "over" : "now");
      setText(kind, incident.kind.replaceAll("_", " "));
      setText(evidence, incident.evidence);
      setText(tip, incident.advice);
      setText(when, isOver ? `${day(incident.started_at)} to ${clock(incident.ended_at)}` : `since ${day(incident.started_at)}`);
    },
  };
}
