// One stream among others: a picture of it and the figures that matter. Drawn anew only while it is in view.

import { serverNow } from "/page/core/clock.js";
import { h, setAttribute, setText } from "/page/core/dom.js";
import { bitrate, count, fps, since, tracks } from "/page/core/format.js";
import { icon } from "/page/core/icons.js";
import { streamHref } from "/page/core/router.js";
import { verdict } from "/page/parts/verdict.js";

export function card(thumbnails, watch) {
  const name = h("span", { class: "card-name" });
  const app = h("span", { class: "card-app" });
  const link = h("a", { class: "card-link" }, app, name);
  const viewers = h("span", null);
  const unit = h("span", { class: "unseen" });
  const up = h("span", { class: "chip" });
  const recording = h("span", { class: "chip rec" }, h("span", { class: "rec-dot", "aria-hidden": "true" }), "REC");
  const picture = thumbnails.picture();
  const format = h("span", { class: "card-format" });
  const rate = h("span", { class: "card-rate" });
  const health = verdict();
  const element = h(
    "article",
    { class: "card" },
    h(
      "div",
      { class: "card-picture" },
      picture.element,
      h("div", { class: "card-top" }, recording, up),
      h("div", { class: "card-bottom" }, h("span", { class: "chip" }, icon("eye"), viewers, unit)),
    ),
    h("h2", { class: "card-title" }, link),
    h("p", { class: "card-line" }, format, rate),
    health.element,
  );
  let newest = null;
  let isSeen = false;

  function draw() {
    const stream = newest;
    setText(app, `${stream.app}/`);
    setText(name, stream.stream);
    setAttribute(link, "href", streamHref(stream));
    setText(viewers, count(stream.viewers));
    setText(unit, stream.viewers === 1 ? " viewer" : " viewers");
    setText(up, since(stream.started_at, serverNow()));
    recording.hidden = !stream.is_recording;
    setText(format, tracks(stream).join(" · ") || "No tracks yet");
    setText(rate, `${bitrate(stream.bitrate_bps)} · ${fps(stream.video === null ? null : stream.fps)}`);
    health.update(stream);
    picture.show(stream);
  }

  const unwatch = watch(element, (isIn) => {
    isSeen = isIn;
    picture.see(isIn);
    if (isIn && newest !== null) draw();
  });
  return {
    element,
    update(stream) {
      newest = stream;
      // The name at once: it is what searching and screen readers go by.
      if (link.getAttribute("href") === null || isSeen) draw();
    },
    close() {
      unwatch();
      picture.see(false);
    },
  };
}
