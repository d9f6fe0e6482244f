// How to begin: publish from an encoder, or press one button; and what to do then.

import { asksForKey, rtmpAddress } from "/page/core/addresses.js";
import { h } from "/page/core/dom.js";
import { hrefTo } from "/page/core/router.js";
import { copyable } from "/page/parts/copy.js";
import { skeleton } from "/page/parts/empty.js";
import { snippets } from "/page/parts/snippets.js";
import { tabs } from "/page/parts/tabs.js";
import { testStream } from "/page/parts/test_stream.js";

const NEXT = [
  ["streams", "Watch it", "Each stream shows under Streams, with its picture, its health and who watches."],
  ["access", "Let only your keys publish", "Without rules whoever reaches the port may publish and play. Access shows what is in force."],
  ["recordings", "Keep what is sent", "Run penstock serve --record all, and play, fetch or delete files under Recordings."],
  ["events", "See what happens", "Everything that starts, stops or goes wrong, as it happens."],
];

export function open(app) {
  const appName = h("input", { class: "input", id: "start-app", value: "live", spellcheck: "false", autocomplete: "off" });
  const stream = h("input", { class: "input", id: "start-stream", value: "test", spellcheck: "false", autocomplete: "off" });
  const panel = h("div", { class: "snippets", role: "tabpanel", tabindex: "0" });
  const choice = tabs("Encoder", ["OBS", "FFmpeg", "GStreamer", "Penstock"], show);
  const test = testStream(app);
  let [settings, rtmp, selected] = [null, null, "OBS"];

  function show(name = selected) {
    selected = name;
    panel.setAttribute("aria-label", name);
    if (settings === null) {
      panel.replaceChildren(skeleton(2));
      return;
    }
    if (rtmp === null) {
      panel.replaceChildren(h("p", { class: "note" }, "The address of RTMP is not in the settings: the server's log says where it listens."));
      return;
    }
    const names = { rtmp, app: appName.value || "live", stream: stream.value || "test" };
    const { hint, lines } = snippets({ ...names, key: asksForKey(settings, names.app) })[name];
    panel.replaceChildren(
      h("p", { class: "hint" }, hint),
      ...Object.entries(lines).map(([title, text]) =>
        h("div", { class: "snippet-row" }, h("h3", null, title), copyable(text, `${title} for ${name}`).element),
      ),
      ...(asksForKey(settings, names.app)
        ? [h("p", { class: "note warn" }, "This app asks for a key: put yours in the place of KEY. ", h("code", null, "penstock key make NAME"), " makes one.")]
        : []),
    );
  }
  for (const input of [appName, stream]) input.addEventListener("input", () => show());

  const element = h(
    "div",
    { class: "page" },
    h("header", { class: "page-head" }, h("div", null, h("h1", null, "Start here"), h("p", null, "A picture on this page in ten seconds, from your encoder or from the server itself."))),
    h(
      "div",
      { class: "stack" },
      test.element,
      h(
        "section",
        { class: "panel stack-tight" },
        h("div", { class: "panel-head" }, h("h2", null, "Publish from an encoder"), h("div", { class: "name-form" }, h("label", { for: "start-app" }, "App"), appName, h("label", { for: "start-stream" }, "Stream"), stream)),
        choice.element,
        panel,
      ),
      h(
        "section",
        null,
        h("h2", { class: "section-title" }, "What to do next"),
        h("div", { class: "next" }, NEXT.map(([name, title, text]) => h("a", { class: "next-card", href: hrefTo(name) }, h("h3", null, title), h("p", null, text)))),
      ),
    ),
  );
  choice.select(0, false);

  return {
    element,
    async poll(api) {
      await test.poll(api);
      if (settings !== null) return;
      rtmp = await rtmpAddress(api);
      ({ settings } = await api.get("/config"));
      show();
    },
    update(live) {
      test.update(live);
    },
    close() {},
  };
}
