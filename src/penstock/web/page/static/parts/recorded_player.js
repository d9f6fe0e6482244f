// A recorded file, played from a key frame on: what is asked for is media from some second on, and seeking asks anew.

import { h, setAttribute, setText } from "/page/core/dom.js";
import { duration } from "/page/core/format.js";
import { icon } from "/page/core/icons.js";

const STARTS_AT = "penstock-starts-at-s";

export function recordedPlayer(links, recording, length_s) {
  const video = h("video", { playsinline: true, "aria-label": `Recording of ${recording.app}/${recording.stream}` });
  const words = h("p", { class: "stage-words", role: "status" });
  const play = h("button", { class: "button stage-button", type: "button" }, "Play");
  const place = h("input", { class: "seek", type: "range", min: "0", step: "1", max: String(Math.max(1, Math.floor(length_s))), value: "0", "aria-label": "Place in the recording" });
  const times = h("span", { class: "chip", "data-figure": "place" });
  const full = h("button", { class: "button stage-button", type: "button" }, "Full screen");
  const stage = h("div", { class: "stage" }, video);
  const element = h("div", { class: "player" }, stage, words, h("div", { class: "stage-bar" }, play, place, times, full));
  let [startsAt, isSeeking, turn, begunAt] = [0, false, 0, 0];

  const now = () => startsAt + video.currentTime;

  async function from(second) {
    turn += 1;
    const mine = turn;
    setText(words, "");
    try {
      const { paths } = await links.ofRecording(recording.id);
      const address = `${paths.media}${paths.media.includes("?") ? "&" : "?"}from_s=${second}`;
      const head = await fetch(address, { method: "HEAD", credentials: "omit" });
      if (mine !== turn) return;
      if (!head.ok) throw new Error(head.status === 409 ? "This file has nothing that browsers play." : `The server answers ${head.status}.`);
      startsAt = Number(head.headers.get(STARTS_AT) ?? second);
      video.src = address;
      // From the key frame before on to where it was asked for.
      video.currentTime = Math.max(0, second - startsAt);
      begunAt = video.currentTime;
      await video.play();
    } catch (error) {
      if (mine === turn && error.name !== "AbortError") setText(words, error.message);
    }
  }

  function draw() {
    if (!isSeeking) place.value = String(Math.floor(now()));
    setText(times, `${duration(isSeeking ? Number(place.value) : now())} of ${duration(length_s)}`);
    setAttribute(place, "aria-valuetext", `${duration(Number(place.value))} of ${duration(length_s)}`);
    setText(play, video.paused ? "Play" : "Pause");
  }

  for (const event of ["timeupdate", "play", "pause", "ended"]) video.addEventListener(event, draw);
  video.addEventListener("error", () => {
    if (video.src === "") return;
    // A connection that broke is made anew where it had come to; of one that a pause outlasted, when it is played again.
    if (video.currentTime <= begunAt) setText(words, "The recording cannot be played from here.");
    else if (!video.paused) from(Math.floor(now()));
  });
  video.addEventListener("loadeddata", () => {
    // Sound goes on without a picture, and the browser says nothing of it.
    if (video.videoWidth === 0) setText(words, "Sound alone: there is no picture in this file, or none that this browser can decode.");
  });
  play.addEventListener("click", () => {
    if (video.ended || video.currentSrc === "" || video.error !== null) from(video.ended ? 0 : Number(place.value));
    else if (video.paused) video.play();
    else video.pause();
  });
  place.addEventListener("input", () => {
    isSeeking = true;
    draw();
  });
  place.addEventListener("change", () => {
    isSeeking = false;
    from(Number(place.value));
  });
  full.addEventListener("click", () => (document.fullscreenElement === null ? stage.requestFullscreen() : document.exitFullscreen()));
  draw();
  from(0);

  return {
    element,
    close() {
      turn += 1;
      video.removeAttribute("src");
      video.load();
    },
  };
}
