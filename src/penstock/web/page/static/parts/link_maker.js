// A link for somebody else: to watch one stream, until it expires.

import { rtmpAddress } from "/page/core/addresses.js";
import { h } from "/page/core/dom.js";
import { day } from "/page/core/format.js";
import { copyable } from "/page/parts/copy.js";
import { attempt } from "/page/parts/toast.js";

/** The server makes none for longer than an hour. */
const LENGTHS = [["300", "5 minutes"], ["1200", "20 minutes"], ["3600", "an hour"]];
const TITLES = { page: "Page", hls: "HLS", "http-flv": "FLV", "http-mp4": "MP4" };

export function linkMaker(app) {
  const appName = h("input", { class: "input", id: "link-app", value: "live", required: true, spellcheck: "false", autocomplete: "off" });
  const stream = h("input", { class: "input", id: "link-stream", placeholder: "test", required: true, spellcheck: "false", autocomplete: "off" });
  const length = h("select", { class: "input", "aria-label": "For how long" }, LENGTHS.map(([value, text]) => h("option", { value }, text)));
  const made = h("div", { class: "snippets", role: "status" });
  const form = h(
    "form",
    { class: "line-form" },
    h("span", { class: "field" }, h("label", { for: "link-app" }, "App"), appName),
    h("span", { class: "field" }, h("label", { for: "link-stream" }, "Stream"), stream),
    length,
    h("button", { class: "button primary", type: "submit" }, "Make a link"),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    await attempt(async () => {
      const order = { app: appName.value.trim(), stream: stream.value.trim(), for_s: Number(length.value) };
      const [link, rtmp] = await Promise.all([app.api.post("/links", order), rtmpAddress(app.api)]);
      const addresses = Object.entries(TITLES).filter(([key]) => link.paths[key] !== undefined).map(([key, title]) => [title, location.origin + link.paths[key]]);
      if (rtmp !== null) addresses.push(["RTMP", `${rtmp}/${order.app}/${order.stream}?${link.query}`]);
      made.replaceChildren(
        h("p", { class: "hint" }, `Whoever has one of these may watch ${order.app}/${order.stream} until ${day(link.expires_at)}; what plays then ends then.`),
        ...addresses.map(([title, address]) => h("div", { class: "snippet-row" }, h("h3", null, title), copyable(address, `the ${title} link`).element)),
      );
    });
  });
  return h("section", { class: "panel stack-tight" }, h("div", { class: "panel-head" }, h("h2", null, "Make a link to watch")), form, made);
}
