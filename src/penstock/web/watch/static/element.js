// <penstock-player src="https://host/live/main">: the player with its buttons, for any page.
//
//     <script type="module" src="https://host/watch/element.js"></script>
//     <penstock-player src="https://host/live/main"></penstock-player>
//
// Attributes: `src`, the address of a stream, whose query (`?token=…`) is for the server to decide who may watch;
// `muted`; `target-latency` in seconds. Its `player` is the Player in it, whose events it has as well.
// Keys: space or K pauses, M mutes, arrows up and down change the volume, L jumps to live, F fills the screen.
//
// Owns buttons and words; what they do is the player's matter.

import { style } from "./element_style.js";
import { icon } from "./icons.js";
import { Player } from "./player.js";
import { duration, withoutSound } from "./words.js";

const QUIET_AFTER_MS = 2_500;
const VOLUME_STEP = 0.1;
const WORKING = new Set(["connecting", "waiting", "buffering", "ended", "unreachable", "busy", "failed"]);
const NEEDS_CLICK = new Set(["denied", "unsupported"]);
/** Behind by less is live; more than a moment is worth a button. */
const LIVE_MS = 2_000;

export class PenstockPlayer extends HTMLElement {
  static observedAttributes = ["src"];

  #parts;
  #player = null;
  #isIn = false;
  #quiet = null;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [style];
    this.#parts = partsOf(root);
    this.#wire();
  }

  /** The Player in it; null as long as there is no `src`. */
  get player() {
    return this.#player;
  }

  get video() {
    return this.#parts.video;
  }

  connectedCallback() {
    this.#isIn = true;
    this.tabIndex = Math.max(this.tabIndex, 0);
    this.#begin();
  }

  disconnectedCallback() {
    this.#isIn = false;
    this.#player?.stop();
    this.#player = null;
  }

  attributeChangedCallback() {
    // An element that was in its page before this script is told its attributes first, and would begin twice.
    if (this.#isIn) this.#begin();
  }

  #begin() {
    this.#player?.stop();
    this.#player = null;
    const address = this.getAttribute("src");
    if (!address) return;
    const target = Number.parseFloat(this.getAttribute("target-latency") ?? "");
    this.#parts.video.muted = this.hasAttribute("muted");
    const player = new Player(this.#parts.video, { address, ...(target > 0 ? { targetLatency: target } : {}) });
    this.#player = player;
    player.addEventListener("state", () => {
      this.#show();
      this.dispatchEvent(new Event("state"));
    });
    player.addEventListener("stats", () => {
      this.#measure();
      this.dispatchEvent(new Event("stats"));
    });
    player.start();
  }

  #wire() {
    const { video, pause, sound, volume, live, apart, full, again, big, soundOff } = this.#parts;
    pause.addEventListener("click", () => this.#toggle());
    video.addEventListener("click", () => this.#toggle());
    sound.addEventListener("click", () => this.#mute());
    soundOff.addEventListener("click", () => this.#player?.unmute());
    volume.addEventListener("input", () => {
      video.volume = volume.valueAsNumber;
      if (video.muted) this.#player?.unmute();
    });
    live.addEventListener("click", () => this.#player?.toLive());
    again.addEventListener("click", () => this.#player?.start());
    big.addEventListener("click", () => this.#player?.unmute());
    apart.addEventListener("click", () => void this.#apart());
    apart.hidden = !document.pictureInPictureEnabled;
    full.addEventListener("click", () => void this.#full());
    for (const event of ["volumechange", "play", "pause"]) video.addEventListener(event, () => this.#show());
    this.addEventListener("fullscreenchange", () => this.#show());
    this.addEventListener("keydown", (event) => this.#key(event));
    for (const event of ["pointermove", "pointerdown", "focusin", "keydown"]) {
      this.addEventListener(event, () => this.#wake());
    }
    this.addEventListener("pointerleave", () => this.#rest());
  }

  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    // A button or slider that has the focus takes space and arrows for itself.
    const inner = this.shadowRoot.activeElement;
    const isOnButton = inner instanceof HTMLButtonElement;
    const isOnSlider = inner instanceof HTMLInputElement;
    const { video } = this.#parts;
    const louder = (step) => {
      video.volume = Math.min(1, Math.max(0, video.volume + step));
    };
    const actions = {
      " ": isOnButton ? null : () => this.#toggle(),
      k: () => this.#toggle(),
      m: () => this.#mute(),
      l: () => this.#player?.toLive(),
      f: () => void this.#full(),
      arrowup: isOnSlider ? null : () => louder(VOLUME_STEP),
      arrowdown: isOnSlider ? null : () => louder(-VOLUME_STEP),
    };
    const act = actions[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
  }

  #toggle() {
    const { video } = this.#parts;
    if (this.#player?.state === "blocked") this.#player.unmute();
    else if (video.paused) video.play().catch(() => {});
    else video.pause();
  }

  #mute() {
    const { video } = this.#parts;
    if (video.muted) this.#player?.unmute();
    else video.muted = true;
  }

  async #full() {
    const { video } = this.#parts;
    try {
      if (document.fullscreenElement) await document.exitFullscreen();
      else if (this.requestFullscreen) await this.requestFullscreen();
      else video.webkitEnterFullscreen();
    } catch {
      // A frame without the permission: the button does nothing there.
    }
  }

  async #apart() {
    try {
      if (document.pictureInPictureElement) await document.exitPictureInPicture();
      else await this.#parts.video.requestPictureInPicture();
    } catch {
      // Not before there is a picture.
    }
  }

  #show() {
    const { video, veil, words, spinner, again, big, pause, sound, volume, soundOff, note, full, bar } = this.#parts;
    const state = this.#player?.state ?? "idle";
    const isPlaying = state === "playing" || state === "idle" || state === "paused";
    veil.hidden = isPlaying;
    bar.hidden = NEEDS_CLICK.has(state);
    veil.classList.toggle("at-once", !["connecting", "buffering"].includes(state));
    words.textContent = state === "connecting" ? "" : (this.#player?.words ?? "");
    spinner.hidden = !WORKING.has(state);
    again.hidden = !NEEDS_CLICK.has(state);
    big.hidden = state !== "blocked";
    const unplayable = this.#player?.unplayable ?? [];
    note.hidden = unplayable.length === 0 || !isPlaying;
    note.textContent = note.hidden ? "" : withoutSound(unplayable);
    soundOff.hidden = !(this.#player?.isMutedByBrowser && isPlaying);
    put(pause, video.paused ? "play" : "pause", video.paused ? "Play" : "Pause");
    put(sound, video.muted || video.volume === 0 ? "muted" : "sound", video.muted ? "Sound on" : "Sound off");
    const isFull = document.fullscreenElement !== null;
    put(full, isFull ? "small" : "full", isFull ? "Leave full screen" : "Full screen");
    volume.value = String(video.muted ? 0 : video.volume);
    this.#wake();
  }

  #measure() {
    const { live, behind } = this.#parts;
    const { latency_ms } = this.#player.stats;
    const isNow = this.#player.state === "playing" && latency_ms !== null && latency_ms < LIVE_MS;
    live.classList.toggle("now", isNow);
    behind.textContent = latency_ms === null ? "" : `${duration(latency_ms / 1000)} behind`;
  }

  #wake() {
    this.classList.remove("quiet");
    clearTimeout(this.#quiet);
    this.#quiet = setTimeout(() => this.#rest(), QUIET_AFTER_MS);
  }

  #rest() {
    // Who came by keys has to see where the focus is.
    const hasFocus = this.shadowRoot.activeElement?.matches(":focus-visible") ?? false;
    if (!this.#parts.video.paused && !hasFocus) this.classList.add("quiet");
  }
}

function partsOf(root) {
  const make = (name, classes, more = {}) =>
    Object.assign(document.createElement(name), { className: classes, ...more });
  const button = (classes, label) => {
    const made = make("button", classes, { type: "button" });
    made.setAttribute("aria-label", label);
    return made;
  };
  const video = make("video", "", { playsInline: true });
  const spinner = make("div", "spinner");
  const words = make("p", "words");
  words.setAttribute("role", "status");
  const again = make("button", "again", { type: "button", textContent: "Try again" });
  const big = button("big", "Play");
  big.append(icon("play"));
  const veil = make("div", "veil", { hidden: true });
  veil.append(spinner, big, words, again);
  const soundOff = make("button", "sound-off", { type: "button", hidden: true });
  soundOff.append(icon("muted"), "Turn sound on");
  const note = make("p", "note", { hidden: true });
  note.setAttribute("role", "status");
  const pause = button("pause", "Pause");
  const sound = button("sound", "Sound off");
  const volume = make("input", "volume", { type: "range", min: "0", max: "1", step: "0.05" });
  volume.setAttribute("aria-label", "Volume");
  const behind = make("span", "behind");
  const live = make("button", "live", { type: "button", title: "Jump to live" });
  live.append("LIVE", behind);
  const apart = button("apart", "Picture in picture");
  apart.append(icon("apart"));
  const full = button("full", "Full screen");
  const bar = make("div", "bar");
  bar.append(pause, sound, volume, live, make("span", "space"), apart, full);
  root.append(video, veil, soundOff, note, bar);
  return { video, veil, spinner, words, again, big, soundOff, note, pause, sound, volume, live, behind, apart, full, bar };
}

function put(button, name, label) {
  if (button.dataset.icon === name && button.getAttribute("aria-label") === label) return;
  button.dataset.icon = name;
  button.setAttribute("aria-label", label);
  button.title = label;
  button.replaceChildren(icon(name));
}

customElements.define("penstock-player", PenstockPlayer);
