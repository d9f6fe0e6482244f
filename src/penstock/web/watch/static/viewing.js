// What a viewer saw: when the first picture came, how often it stood still and for how long, and what was lost.
//
// Owns the counting. A stall is a picture that stood still for want of media after it had begun, for longer than a few
// frames; one that waits because the stream itself is over, or because somebody paused it, is none.

const BITRATE_OVER_MS = 4_000;
const LEAST_STALL_MS = 80;

export class Viewing {
  #video;
  #began_ms = null;
  #startup_ms = null;
  #playsSince_ms = null;
  #played_ms = 0;
  #stalledSince_ms = null;
  #stalled_ms = 0;
  #stalls = 0;
  #bytes = 0;
  #samples = [];
  #isJumping = false;
  #waits = false;

  constructor(video) {
    this.#video = video;
  }

  /** Somebody wants to see it. */
  begin() {
    this.#began_ms = performance.now();
    this.#startup_ms = null;
    this.#played_ms = this.#stalled_ms = this.#stalls = this.#bytes = 0;
    this.#samples = [];
    this.#isJumping = this.#waits = false;
    // By the frame where there is one; sound alone tells by `playing`.
    this.#video.requestVideoFrameCallback?.((now_ms) => this.#first(now_ms));
  }

  end() {
    this.#stops();
  }

  /** Whether there was a picture already. */
  get hasBegun() {
    return this.#startup_ms !== null;
  }

  /** There is no stream yet: what it takes to come is not the player's. */
  waits() {
    this.#waits = true;
  }

  /** The stream is there. */
  answered() {
    if (this.#waits && !this.hasBegun) this.#began_ms = performance.now();
    this.#waits = false;
  }

  received(bytes) {
    this.#bytes += bytes;
  }

  /** The picture runs. Returns whether that ends a stall. */
  plays() {
    const now_ms = performance.now();
    const stallsBefore = this.#stalls;
    this.#unstall(now_ms);
    this.#playsSince_ms ??= now_ms;
    if (this.#video.videoWidth === 0 || this.#video.requestVideoFrameCallback === undefined) this.#first(now_ms);
    return this.#stalls > stallsBefore;
  }

  /** The picture stands still. */
  stalled() {
    if (this.#startup_ms === null || this.#isJumping) return;
    this.#stops();
    this.#stalledSince_ms = performance.now();
  }

  jumped() {
    this.#isJumping = true;
  }

  /** The place that was jumped to is shown. */
  landed() {
    this.#isJumping = false;
  }

  paused() {
    this.#stops();
  }

  /** The stream is over, or the server away: waiting is no stall from here on. */
  interrupted() {
    this.#stops();
  }

  /** Twice a second. */
  measure() {
    const now_ms = performance.now();
    this.#samples.push({ now_ms, bytes: this.#bytes });
    while (now_ms - this.#samples[0].now_ms > BITRATE_OVER_MS) this.#samples.shift();
  }

  figures() {
    const now_ms = performance.now();
    const still_ms = this.#still(now_ms);
    const quality = this.#video.getVideoPlaybackQuality?.();
    return {
      startup_ms: this.#startup_ms,
      played_ms: Math.round(this.#played_ms + since(this.#playsSince_ms, now_ms)),
      stalls: this.#stalls + (still_ms > 0 ? 1 : 0),
      stalled_ms: Math.round(this.#stalled_ms + still_ms),
      frames: quality?.totalVideoFrames ?? null,
      dropped_frames: quality?.droppedVideoFrames ?? null,
      width_px: this.#video.videoWidth || null,
      height_px: this.#video.videoHeight || null,
      bitrate_bps: this.#bitrate(),
    };
  }

  #bitrate() {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)];
    if (first === undefined || last.now_ms === first.now_ms || last.bytes === first.bytes) return null;
    return Math.round(((last.bytes - first.bytes) * 8000) / (last.now_ms - first.now_ms));
  }

  #first(now_ms) {
    if (this.#began_ms !== null) this.#startup_ms ??= Math.max(0, Math.round(now_ms - this.#began_ms));
  }

  #stops() {
    const now_ms = performance.now();
    this.#unstall(now_ms);
    this.#played_ms += since(this.#playsSince_ms, now_ms);
    this.#playsSince_ms = null;
  }

  #unstall(now_ms) {
    const still_ms = this.#still(now_ms);
    if (still_ms > 0) this.#stalls += 1;
    this.#stalled_ms += still_ms;
    this.#stalledSince_ms = null;
  }

  /** How long the stall of now has lasted; 0: it is none. */
  #still(now_ms) {
    const passed_ms = since(this.#stalledSince_ms, now_ms);
    return passed_ms >= LEAST_STALL_MS ? passed_ms : 0;
  }
}

function since(began_ms, now_ms) {
  return began_ms === null ? 0 : now_ms - began_ms;
}
