// The watch page of one stream, which it knows by its own address.
//
// Owns what stands around the player: names, figures, addresses for other players, and how to embed. Names are put in
// as text alone. What lets a viewer in stays in the page's address: it is in none that is shown.

import { StreamAddress, credentialsOf } from "./addresses.js";
import "./element.js";
import { ports } from "./server.js";
import { bitrate, duration } from "./words.js";

const RTMP_PORT = 1935;
const RTMPS_PORT = 443;
const STATES = {
  connecting: "Connecting",
  waiting: "Not live",
  playing: "Live",
  buffering: "Waiting",
  paused: "Paused",
  ended: "Stopped",
  unreachable: "No answer",
  busy: "Full",
  failed: "Trouble",
  denied: "No access",
  blocked: "Ready",
  unsupported: "Not playable",
};

const query = new URLSearchParams(location.search);
const credentials = credentialsOf(location.search);
const page = new StreamAddress(location.pathname);
const address = new StreamAddress(mediaAddress());
const { app, stream } = page.names;
const $ = (id) => document.getElementById(id);

begin();

function begin() {
  const isEmbedded = query.get("embed") === "1";
  document.documentElement.classList.toggle("embed", isEmbedded);
  document.title = stream;
  const element = $("player");
  if (query.get("muted") === "1") element.setAttribute("muted", "");
  const target_ms = Number.parseInt(query.get("target_ms") ?? "", 10);
  if (target_ms > 0) element.setAttribute("target-latency", String(target_ms / 1000));
  element.setAttribute("src", address.page + (credentials === "" ? "" : `?${credentials}`));
  if (isEmbedded) return;
  $("stream").textContent = stream;
  $("app").textContent = app;
  element.addEventListener("state", () => showState(element.player));
  element.addEventListener("stats", () => showStats(element.player));
  showState(element.player);
  $("withheld").hidden = credentials === "";
  showEmbedding();
  showAddresses();
}

function showState(player) {
  const state = $("state");
  state.textContent = STATES[player?.state] ?? "";
  state.hidden = state.textContent === "";
  state.classList.toggle("playing", player?.state === "playing");
}

function showStats(player) {
  const { stats, unplayable } = player;
  const ms = (value) => duration(value === null ? null : value / 1000);
  const texts = {
    latency: ms(stats.latency_ms),
    buffer: ms(stats.buffer_ms),
    picture: stats.width_px === null ? "–" : `${stats.width_px} × ${stats.height_px}`,
    codecs: stats.codecs.map((name) => (unplayable.includes(name) ? `${name} (not playable here)` : name)).join(", "),
    bitrate: bitrate(stats.bitrate_bps),
    stalls: stats.startup_ms === null ? "–" : String(stats.stalls),
    stalled: stats.stalls === 0 ? "the picture has not stood still" : `${ms(stats.stalled_ms)} in all`,
    dropped: stats.frames ? String(stats.dropped_frames) : "–",
    frames: stats.frames ? `of ${stats.frames} that were decoded` : "decoded too late to be shown",
    startup: ms(stats.startup_ms),
  };
  for (const [id, text] of Object.entries(texts)) {
    if ($(id).textContent !== text) $(id).textContent = text;
  }
}

function mediaAddress() {
  const url = new URL(location.pathname, location.href);
  // Where pages have a port of their own.
  if (ports.media !== null) url.port = ports.media;
  return url.href;
}

function showAddresses() {
  const { protocol, hostname } = location;
  const rtmp = (scheme, port, usual) => `${scheme}://${hostname}${port === usual ? "" : `:${port}`}/${app}/${stream}`;
  const found = [
    ...(ports.rtmp ? [["RTMP", rtmp("rtmp", ports.rtmp, RTMP_PORT)]] : []),
    ...(ports.rtmps ? [["RTMPS", rtmp("rtmps", ports.rtmps, RTMPS_PORT)]] : []),
    ["HTTP-FLV", address.open(".flv")],
    ["WebSocket", address.open(".flv").replace(protocol, protocol === "https:" ? "wss:" : "ws:")],
    ["MP4", address.open(".mp4")],
    ["HLS", address.open(".m3u8")],
  ];
  $("addresses").replaceChildren(...found.map(([kind, text]) => line(kind, text)));
}

function line(kind, text) {
  const item = document.createElement("li");
  const label = Object.assign(document.createElement("span"), { className: "kind", textContent: kind });
  const code = Object.assign(document.createElement("code"), { textContent: text, tabIndex: 0 });
  item.append(label, code, copyButton(text, `Copy the address for ${kind}`));
  return item;
}

function showEmbedding() {
  const frame = [
    `<iframe src="${quoted(page.page)}?embed=1"`,
    `  width="960" height="540" style="border:0"`,
    `  allow="autoplay; fullscreen; picture-in-picture"></iframe>`,
  ].join("\n");
  const element = [
    `<script type="module"`,
    `  src="${quoted(location.origin)}/watch/element.js"></script>`,
    `<penstock-player src="${quoted(address.page)}"></penstock-player>`,
  ].join("\n");
  for (const [id, text] of [["frame", frame], ["element", element]]) {
    $(id).textContent = text;
    $(`copy-${id}`).replaceChildren(copyButton(text, "Copy these lines"));
  }
}

/** As it may stand in an attribute. */
function quoted(text) {
  return text.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
}

function copyButton(text, label) {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Copy" });
  button.setAttribute("aria-label", label);
  button.addEventListener("click", async () => {
    button.textContent = (await copied(text)) ? "Copied" : "Select it";
    setTimeout(() => {
      button.textContent = "Copy";
    }, 1500);
  });
  return button;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Over plain HTTP, or in a frame, browsers keep the clipboard to themselves.
    return false;
  }
}
