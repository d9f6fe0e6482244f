// One recorded file: its picture, and what it is.

import { serverNow } from "/page/core/clock.js";
import { h } from "/page/core/dom.js";
import { bytes, day, duration } from "/page/core/format.js";
import { icon } from "/page/core/icons.js";
import { hrefTo } from "/page/core/router.js";
import { download } from "/page/parts/download.js";
import { empty, skeleton } from "/page/parts/empty.js";
import { figures } from "/page/parts/figures.js";
import { recordedPlayer } from "/page/parts/recorded_player.js";
import { attempt } from "/page/parts/toast.js";

export function open(app, [id]) {
  const title = h("h1", null, "Recording");
  const totals = figures({ length: "Length", size: "Size", began: "Began" });
  const place = h("div", null, skeleton(5));
  const fetching = h("button", { class: "button", type: "button", disabled: true }, icon("download"), "Download");
  const more = h("div", { class: "page-actions" }, fetching);
  let [file, isKnown, player] = [null, false, null];
  totals.update({ length: "–", size: "–", began: "–" });
  fetching.addEventListener("click", () => attempt(() => download(app, file)));

  return {
    element: h(
      "div",
      { class: "page" },
      h("header", { class: "page-head" }, h("div", { class: "title" }, h("a", { class: "back", href: hrefTo("recordings"), "aria-label": "All recordings" }, icon("back")), title), totals.element),
      h("div", { class: "stack" }, place, more),
    ),
    async poll(api) {
      if (isKnown) return;
      file = (await api.all("/recordings")).find((each) => each.id === id) ?? null;
    },
    update() {
      if (isKnown) return;
      isKnown = true;
      if (file === null) {
        more.hidden = true;
        place.replaceChildren(empty("recordings", "There is no such recording", h("a", { class: "button", href: hrefTo("recordings") }, "All recordings")));
        return;
      }
      const length_s = file.duration_ms === null ? (serverNow() - Date.parse(file.started_at)) / 1000 : file.duration_ms / 1000;
      title.replaceChildren(h("span", { class: "card-app" }, `${file.app}/`), file.stream);
      totals.update({ length: duration(length_s), size: bytes(file.size_bytes), began: day(file.started_at) });
      fetching.disabled = false;
      player = recordedPlayer(app.links, file, length_s);
      place.replaceChildren(h("div", { class: "cinema" }, player.element));
    },
    close: () => player?.close(),
  };
}
