// How fast a live picture has to run to stay as far behind as it should, and no further.
//
// Owns the estimate of where "live" is, and the margin that a network needs. Live is where a picture would be that had
// come as soon as the quickest of the last half minute: `clock - offset`, with the least offset of arrivals to times in
// the stream. The margin is the least that was ahead of the picture in the last two seconds; it may not fall below a
// reserve, which grows with every stall and shrinks while there are none. Takes seconds, gives a rate or a place to jump
// to; knows no element and no clock of its own.

const RESERVE_S = 0.08;
const MAX_RESERVE_S = 2;
const RESERVE_GROWS = 2;
const RESERVE_SHRINKS_PER_S = 0.01;
const LIVE_WINDOW_S = 30;
const MARGIN_WINDOW_S = 2;
const TOLERANCE_S = 0.03;
const FASTEST = 0.2;
const SLOWEST = 0.04;
/** Of what is too much, made good in a second. */
const GAIN = 0.25;
const JUMPS_ABOVE_S = 1.2;
/** A picture begins closer than it should be: until it runs, more comes. */
const BEGINS_AT = 0.5;
const TOO_CLOSE = 0.6;

/** The least of the last `window_s` seconds, or a little longer. */
class LeastOf {
  #window_s;
  #began_s = -Infinity;
  #now = Infinity;
  #before = Infinity;

  constructor(window_s) {
    this.#window_s = window_s;
  }

  add(value, now_s) {
    if (now_s - this.#began_s >= this.#window_s) {
      this.#before = now_s - this.#began_s < 2 * this.#window_s ? this.#now : Infinity;
      this.#now = Infinity;
      this.#began_s = now_s;
    }
    this.#now = Math.min(this.#now, value);
  }

  get value() {
    return Math.min(this.#now, this.#before);
  }
}

export class Pace {
  #target_s;
  #reserve_s = RESERVE_S;
  #offset = new LeastOf(LIVE_WINDOW_S);
  #margin = new LeastOf(MARGIN_WINDOW_S);
  #looked_s = null;

  constructor(target_s) {
    this.#target_s = target_s;
  }

  /** Media up to `end_s` of the stream came at `now_s`. */
  arrived(end_s, now_s) {
    this.#offset.add(now_s - end_s, now_s);
  }

  /** The picture stood still for want of media. */
  stalled() {
    this.#reserve_s = Math.min(MAX_RESERVE_S, this.#reserve_s * RESERVE_GROWS);
    this.#margin = new LeastOf(MARGIN_WINDOW_S);
  }

  /** The stream begins anew, maybe at another time. */
  restart() {
    this.#offset = new LeastOf(LIVE_WINDOW_S);
    this.#margin = new LeastOf(MARGIN_WINDOW_S);
  }

  /** The picture is somewhere else than it was: what was ahead of it counts no longer. */
  jumped() {
    this.#margin = new LeastOf(MARGIN_WINDOW_S);
  }

  /** How far a picture is behind live, in seconds; null: nothing came yet. */
  latency(at_s, now_s) {
    const offset = this.#offset.value;
    return offset === Infinity ? null : Math.max(0, now_s - offset - at_s);
  }

  /** Where a picture should be that is shown now, of a range that can be shown. */
  place(range) {
    return Math.max(range.start, range.end - Math.max(this.#target_s * BEGINS_AT, this.#reserve_s));
  }

  /** What to do about a picture at `at_s` with media up to `end_s`: `{rate}` or `{jumpsTo}`. */
  look(at_s, range, now_s) {
    this.#shrink(now_s);
    this.#margin.add(range.end - at_s, now_s);
    const latency_s = this.latency(at_s, now_s);
    const margin_s = this.#margin.value;
    const excess_s = Math.min(latency_s - this.#target_s, margin_s - this.#reserve_s);
    if (excess_s > JUMPS_ABOVE_S) return { jumpsTo: this.place(range) };
    if (excess_s > TOLERANCE_S) return { rate: 1 + rounded(Math.min(FASTEST, excess_s * GAIN)) };
    if (margin_s < this.#reserve_s / 2 || latency_s < this.#target_s * TOO_CLOSE) return { rate: 1 - SLOWEST };
    return { rate: 1 };
  }

  #shrink(now_s) {
    const passed_s = this.#looked_s === null ? 0 : now_s - this.#looked_s;
    this.#looked_s = now_s;
    this.#reserve_s = Math.max(RESERVE_S, this.#reserve_s - passed_s * RESERVE_SHRINKS_PER_S);
  }
}

/** In steps, since each change of the rate costs the sound a little. */
function rounded(share) {
  return Math.ceil(share * 50) / 50;
}
