// The player: a live stream in a <video>, close behind live.
//
//     import { Player } from "/watch/player.js";
//
//     const player = new Player(video, { address: "/live/main", credentials: "key=…", targetLatency: 0.25 });
//     player.addEventListener("state", () => { label.textContent = player.words; });
//     player.addEventListener("stats", () => { meter.textContent = player.stats.latency_ms; });
//     player.start();
//     …
//     player.stop();
//
// new Player(video, options)
//     video            a <video> of the page's own; the player sets its source, time, rate and poster
//     address          of the stream, without a suffix: "/live/main", or with a host; segments are percent-encoded
//     credentials      "key=…", "token=…", "exp=…&sig=…" or URLSearchParams; repeated in addresses of media alone
//     targetLatency    seconds behind live that are aimed at, 0.25 unless told; bad networks get more
//     beacons          whether what the viewer sees is reported to the server; true unless told
//     hasPoster        whether the newest thumbnail is shown before the picture; true unless told
//     prefersHls       whether HLS of the browser's own is taken although MSE is there; false unless told
// start()              begins; where sound is not allowed without a click it begins muted, and isMutedByBrowser says so
// stop()               ends, and lets go of connection and source; start() begins anew
// toLive()             jumps as close to live as it should be
// unmute()             sound on, out of a click
// state                idle | connecting | waiting | playing | buffering | paused | ended | unreachable | busy |
//                      failed | denied | blocked | unsupported. Of `waiting`, `ended`, `unreachable`, `busy` and
//                      `failed` the player finds back by itself; `denied` and `unsupported` want another start(),
//                      `blocked` a click
// unplayable           codecs that this browser cannot decode; a stream plays without its sound if need be
// words                the same as a sentence, empty where there is nothing to say
// stats                see `stats` below; a new object each time
// events               "state" when state or words change, "stats" twice a second. No event has details
//
// Owns how its parts are joined: connection (`follow.js`), boxes, codecs, buffer and pace. Shows nothing of its own.

import { StreamAddress } from "./addresses.js";
import { Beacons } from "./beacons.js";
import { BoxReader } from "./boxes.js";
import { readInit, typeOf } from "./codecs.js";
import { Outcome, follow } from "./follow.js";
import { LeftOut } from "./left_out.js";
import { MediaBuffer, mediaSourceClass } from "./media_buffer.js";
import { NativeHls } from "./native_hls.js";
import { Pace } from "./pace.js";
import { Poster } from "./poster.js";
import { ports } from "./server.js";
import { Viewing } from "./viewing.js";
import { cannotPlay, sentence } from "./words.js";

const TARGET_LATENCY_S = 0.25;
const POSTER_WIDTH_PX = 640;
const LOOK_EVERY_MS = 100;
const STATS_EVERY_LOOKS = 5;
const PAUSE_KEEPS_MS = 5_000;
/** The first bytes are all since the last key frame: the picture waits until they are in, but no longer than this. */
const QUIET_MS = 20;
const SETTLES_WITHIN_MS = 150;
const MAX_ERRORS = 3;
const ERRORS_WITHIN_MS = 15_000;

const STATE_OF = Object.freeze({
  [Outcome.ENDED]: "ended",
  [Outcome.ABSENT]: "waiting",
  [Outcome.DENIED]: "denied",
  [Outcome.BUSY]: "busy",
  [Outcome.UNREACHABLE]: "unreachable",
  [Outcome.FAILED]: "failed",
});

/** There is a place in the stream that the picture is at. */
const RUNNING = new Set(["playing", "buffering", "paused"]);

/** The picture stands still because the viewer, or the browser, wants it so. */
const HELD = new Set(["paused", "blocked"]);

class Unsupported extends Error {}

export class Player extends EventTarget {
  #video;
  #address;
  #options;
  #state = "idle";
  #words = "";
  #isMutedByBrowser = false;
  #viewing;
  #pace;
  #buffer = null;
  #hls = null;
  #connection = null;
  #beacons = null;
  #poster;
  #boxes = null;
  #isFresh = false;
  #isPlaced = false;
  #firstMedia_ms = null;
  #settling = null;
  #letsGo = null;
  #looking = null;
  #looks = 0;
  #errors_ms = [];
  #tracks = [];
  #leftOut = null;
  #unplayable = [];
  #listening = null;

  constructor(video, { address, credentials = "", ...options }) {
    super();
    this.#video = video;
    this.#address = new StreamAddress(address, credentials);
    this.#options = { targetLatency: TARGET_LATENCY_S, beacons: true, hasPoster: true, prefersHls: false, ...options };
    this.#viewing = new Viewing(video);
    this.#poster = new Poster(video);
    this.#pace = new Pace(this.#options.targetLatency);
  }

  get state() {
    return this.#state;
  }

  get words() {
    return this.#words;
  }

  /** Names of codecs that this browser cannot decode: of a sound that is left out, or why nothing plays. */
  get unplayable() {
    return [...this.#unplayable];
  }

  /** Whether the browser lets it play without sound alone, until somebody clicks. */
  get isMutedByBrowser() {
    return this.#isMutedByBrowser && this.#video.muted;
  }

  /**
   * What is known of the picture; null is "not known".
   *
   * `protocol` ("http-mp4" or "hls"), `codecs` (names), `width_px`, `height_px`, `bitrate_bps` (of what came),
   * `startup_ms` (from start(), or from the moment that the stream was there, to the first picture), `latency_ms`
   * (behind the newest that this server had sent, by the quickest arrival of the last half minute; what the way from the
   * camera to the server takes is not in it), `buffer_ms` (that is here already), `rate`, `frames`, `dropped_frames`
   * (that were decoded too late), `stalls`, `stalled_ms`, `played_ms`. Counted from start().
   */
  get stats() {
    const range = this.#buffer?.rangeAt(this.#video.currentTime) ?? null;
    const latency_s = this.#latency();
    return {
      ...this.#viewing.figures(),
      protocol: this.#hls !== null ? "hls" : "http-mp4",
      codecs: this.#tracks.map(({ name }) => name),
      latency_ms: latency_s === null ? null : Math.round(latency_s * 1000),
      buffer_ms: range === null ? null : Math.max(0, Math.round((range.end - this.#video.currentTime) * 1000)),
      rate: this.#video.playbackRate,
    };
  }

  #latency() {
    if (this.#hls !== null) return this.#hls.latency();
    return RUNNING.has(this.#state) ? this.#pace.latency(this.#video.currentTime, now_s()) : null;
  }

  start() {
    this.stop();
    this.#viewing.begin();
    this.#errors_ms = [];
    this.#unplayable = [];
    this.#listen();
    this.#looking = setInterval(() => this.#look(), LOOK_EVERY_MS);
    if (this.#options.beacons) this.#beacons = new Beacons(beaconOrigin(this.#address.origin), () => this.stats);
    if (this.#options.prefersHls || mediaSourceClass() === null) this.#startHls();
    else this.#connect();
  }

  stop() {
    this.#beacons?.close();
    this.#beacons = null;
    this.#listening?.abort();
    clearInterval(this.#looking);
    this.#poster.close();
    this.#disconnect();
    this.#hls?.close();
    this.#hls = null;
    this.#buffer?.close();
    this.#buffer = null;
    this.#viewing.end();
    this.#tell("idle");
  }

  toLive() {
    const range = this.#buffer?.lastRange();
    if (this.#hls !== null) this.#hls.toLive();
    else if (this.#isPlaced && range) this.#jump(this.#pace.place(range));
    if (this.#video.paused) void this.#play();
  }

  unmute() {
    this.#video.muted = false;
    this.#isMutedByBrowser = false;
    if (this.#video.paused) void this.#play();
  }

  #startHls() {
    this.#tell("connecting");
    if (!NativeHls.isSupported(this.#video)) {
      this.#tell("unsupported");
      return;
    }
    this.#hls = new NativeHls(this.#video, this.#address, {
      began: (response) => {
        this.#beacons?.began(response);
        void this.#play();
      },
      tell: (state) => this.#tell(state),
    });
  }

  // The connection.

  #connect() {
    this.#disconnect();
    this.#isPlaced = false;
    this.#tell("connecting");
    this.#buffer ??= new MediaBuffer(this.#video, () => this.#renew());
    this.#connection = new AbortController();
    const on = {
      began: (response) => this.#began(response),
      bytes: (chunk) => this.#take(chunk),
      outcome: (outcome) => this.#over(outcome),
    };
    void follow(this.#address, on, this.#connection.signal);
  }

  #disconnect() {
    this.#connection?.abort();
    this.#connection = null;
    clearTimeout(this.#settling);
    clearTimeout(this.#letsGo);
  }

  #began(response) {
    this.#beacons?.began(response);
    if (this.#options.hasPoster && !this.#viewing.hasBegun) {
      void this.#poster.show(this.#address.media(".jpg", { w: POSTER_WIDTH_PX }));
    }
    this.#boxes = new BoxReader();
    this.#isFresh = true;
    this.#viewing.answered();
    if (this.#state !== "playing" && !HELD.has(this.#state)) this.#tell("connecting");
  }

  #take(chunk) {
    this.#viewing.received(chunk.length);
    const arrived_s = now_s();
    for (const { isInit, bytes } of this.#boxes.push(chunk)) {
      if (isInit) {
        this.#init(bytes);
        continue;
      }
      this.#leftOut?.media(bytes);
      if (!this.#buffer.append(bytes, () => this.#appended(arrived_s))) {
        throw new Error("more than the browser takes");
      }
    }
  }

  #init(bytes) {
    this.#tracks = readInit(bytes);
    const [playable, others] = parted(this.#tracks, (track) => MediaBuffer.supports(typeOf([track])));
    const hasPicture = playable.some(({ isVideo }) => isVideo) || !others.some(({ isVideo }) => isVideo);
    if (playable.length === 0 || !hasPicture || !MediaBuffer.supports(typeOf(playable))) throw new Unsupported();
    this.#leftOut = others.length === 0 ? null : new LeftOut(others);
    this.#leftOut?.init(bytes);
    this.#unplayable = others.map(({ name }) => name);
    if (this.#isFresh) {
      this.#isFresh = false;
      this.#isPlaced = false;
      this.#firstMedia_ms = null;
      this.#pace.restart();
      this.#buffer.clear();
    }
    this.#buffer.init(typeOf(playable), bytes);
  }

  #over({ kind, error }) {
    if (error instanceof Unsupported) {
      this.#unplayable = this.#tracks.filter((track) => !MediaBuffer.supports(typeOf([track]))).map(({ name }) => name);
      this.#disconnect();
      this.#tell("unsupported", cannotPlay(this.#unplayable));
    } else if (HELD.has(this.#state)) {
      // Nobody is to be told now; who goes on asks anew.
      if (kind === Outcome.DENIED) this.#disconnect();
    } else {
      this.#viewing.interrupted();
      if (kind === Outcome.ABSENT) this.#viewing.waits();
      this.#tell(kind === Outcome.ABSENT && this.#viewing.hasBegun ? "ended" : STATE_OF[kind]);
    }
  }

  /** After an error of the decoder or the buffer, both begin anew. */
  #renew() {
    const now_ms = performance.now();
    this.#errors_ms = [...this.#errors_ms.filter((at_ms) => now_ms - at_ms < ERRORS_WITHIN_MS), now_ms];
    this.#disconnect();
    this.#buffer?.close();
    this.#buffer = null;
    if (this.#errors_ms.length < MAX_ERRORS) this.#connect();
    else this.#tell("unsupported", cannotPlay([]));
  }

  // The picture.

  #appended(arrived_s) {
    const range = this.#buffer?.lastRange();
    if (!range) return;
    this.#pace.arrived(range.end, arrived_s);
    if (this.#isPlaced) return;
    this.#firstMedia_ms ??= performance.now();
    const left_ms = this.#firstMedia_ms + SETTLES_WITHIN_MS - performance.now();
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => this.#place(), Math.max(0, Math.min(QUIET_MS, left_ms)));
  }

  #place() {
    const range = this.#buffer?.lastRange();
    if (!range) return;
    this.#isPlaced = true;
    this.#jump(this.#pace.place(range));
    if (!HELD.has(this.#state)) void this.#play();
  }

  #jump(to_s) {
    this.#pace.jumped();
    this.#viewing.jumped();
    this.#video.currentTime = to_s;
  }

  async #play() {
    try {
      await this.#video.play();
    } catch (error) {
      // Else another source was set meanwhile, or somebody paused.
      if (error.name !== "NotAllowedError") return;
      if (this.#video.muted) {
        this.#tell("blocked");
        this.#letGo();
        return;
      }
      this.#video.muted = true;
      this.#isMutedByBrowser = true;
      await this.#play();
    }
  }

  #look() {
    const video = this.#video;
    const range = this.#buffer?.rangeAt(video.currentTime);
    if (this.#isPlaced && range && !video.paused && !video.seeking) {
      const last = this.#buffer.lastRange();
      if (range.start > video.currentTime + 0.05 || range.end < last.end) {
        // Something is missing: the picture does not wait for what will never come.
        this.#jump(Math.max(range.start, this.#pace.place(last)));
      } else {
        const { rate, jumpsTo } = this.#pace.look(video.currentTime, range, now_s());
        if (jumpsTo !== undefined) this.#jump(jumpsTo);
        else if (rate !== video.playbackRate) video.playbackRate = rate;
      }
    }
    this.#looks += 1;
    if (this.#looks % STATS_EVERY_LOOKS === 0) {
      this.#viewing.measure();
      this.#beacons?.look();
      this.dispatchEvent(new Event("stats"));
    }
  }

  #listen() {
    this.#listening = new AbortController();
    const { signal } = this.#listening;
    const on = (name, handle) => this.#video.addEventListener(name, handle, { signal });
    on("playing", () => {
      if (this.#viewing.plays()) this.#pace.stalled();
      this.#tell("playing");
    });
    on("seeked", () => this.#viewing.landed());
    on("waiting", () => {
      if (this.#state !== "playing" || this.#video.seeking) return;
      this.#viewing.stalled();
      this.#tell("buffering");
    });
    on("pause", () => this.#paused());
    on("play", () => this.#resumed());
    on("error", () => this.#failed());
    on("ended", () => this.#hls?.ended());
  }

  #paused() {
    const isOver = this.#video.ended || this.#video.error !== null;
    if (isOver || this.#state === "unsupported" || this.#state === "denied") return;
    this.#viewing.paused();
    this.#tell("paused");
    this.#letGo();
  }

  /** What is not watched is not fetched for long; the picture that is shown stays. */
  #letGo() {
    clearTimeout(this.#letsGo);
    if (this.#hls === null) this.#letsGo = setTimeout(() => this.#disconnect(), PAUSE_KEEPS_MS);
  }

  #resumed() {
    clearTimeout(this.#letsGo);
    if (!HELD.has(this.#state)) return;
    if (this.#hls === null && this.#connection === null) {
      this.#connect();
      return;
    }
    // Until it plays, which may be long where the stream ended meanwhile.
    this.#tell("buffering");
    this.toLive();
  }

  #failed() {
    if (this.#hls !== null) this.#hls.ended();
    else if (this.#buffer !== null) this.#renew();
  }

  #tell(state, words = sentence(state)) {
    if (state === this.#state && words === this.#words) return;
    this.#state = state;
    this.#words = words;
    this.dispatchEvent(new Event("state"));
  }
}

function parted(all, isFirst) {
  return [all.filter(isFirst), all.filter((each) => !isFirst(each))];
}

/** The server of a stream; where its pages, and with them this module, have a port of their own, that one. */
function beaconOrigin(streamOrigin) {
  const { origin } = new URL(import.meta.url);
  const media = new URL(origin);
  if (ports.media !== null) media.port = ports.media;
  return streamOrigin === media.origin ? origin : streamOrigin;
}

function now_s() {
  return performance.now() / 1000;
}
