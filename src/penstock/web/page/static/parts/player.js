// A live stream on the page: the player of the watch page with controls of this one. It plays by a link of the server's,
// which it renews: the next player begins behind the one that plays, and takes its place when its picture moves.

import { h, setAttribute, setText } from "/page/core/dom.js";
import { milliseconds } from "/page/core/format.js";
import { icon } from "/page/core/icons.js";
import { Links } from "/page/parts/links.js";

export function livePlayer(links, stream) {
  const stage = h("div", { class: "stage" });
  const words = h("p", { class: "stage-words", role: "status" });
  const latency = h("span", { class: "chip", "data-figure": "latency", hidden: true });
  const sound = h("button", { class: "button stage-button", type: "button" }, icon("sound"), h("span", null, "Sound"));
  const full = h("button", { class: "button stage-button", type: "button" }, "Full screen");
  const element = h(
    "div",
    { class: stream.hasPicture ? "player" : "player without-picture" },
    stage,
    words,
    h("div", { class: "stage-bar" }, latency, h("span", { class: "stage-space" }), sound, full),
  );
  let [now, next, timer, isClosed, isMuted] = [null, null, null, false, true];

  function tell() {
    if (now === null) return;
    setText(words, now.player.words || (stream.hasPicture ? "" : "Sound alone"));
    const { latency_ms: behind } = now.player.stats;
    latency.hidden = typeof behind !== "number";
    if (!latency.hidden) setText(latency, `${milliseconds(Math.round(behind))} behind live`);
    setAttribute(element, "data-state", now.player.state);
  }

  async function make() {
    const [{ Player }, link] = await Promise.all([import("/watch/player.js"), links.newOfStream(stream)]);
    const video = h("video", { playsinline: true, muted: true, "aria-label": `Picture of ${stream.app}/${stream.stream}` });
    video.muted = isMuted;
    const address = `/${encodeURIComponent(stream.app)}/${encodeURIComponent(stream.stream)}`;
    const player = new Player(video, { address, credentials: link.query, hasPoster: stream.hasPicture && now === null });
    return { video, player };
  }

  function end(part) {
    part.player.stop();
    part.video.remove();
  }

  async function begin() {
    if (isClosed) return;
    try {
      const made = await make();
      if (isClosed) return;
      next = made;
      stage.prepend(made.video);
      if (now === null) swap(made);
      made.player.addEventListener("state", () => (made === now ? tell() : made.player.state === "playing" && swap(made)));
      made.player.addEventListener("stats", () => made === now && tell());
      made.player.start();
      timer = setTimeout(begin, Links.renewAfterMs - 5000);
    } catch (error) {
      setText(words, error.message);
      timer = setTimeout(begin, 5000);
    }
  }

  function swap(made) {
    const before = now;
    now = made;
    next = null;
    if (before !== null) {
      made.video.muted = before.video.muted;
      end(before);
    }
    tell();
  }

  sound.addEventListener("click", () => {
    if (now === null) return;
    isMuted = !now.video.muted;
    now.video.muted = isMuted;
    if (!isMuted) now.player.unmute?.();
    setText(sound.lastElementChild, isMuted ? "Sound" : "Mute");
    setAttribute(sound, "aria-pressed", String(!isMuted));
  });
  full.addEventListener("click", () => (document.fullscreenElement === null ? stage.requestFullscreen() : document.exitFullscreen()));
  begin();

  return {
    element,
    hasPicture: stream.hasPicture,
    close() {
      isClosed = true;
      clearTimeout(timer);
      for (const part of [now, next]) if (part !== null) end(part);
    },
  };
}
