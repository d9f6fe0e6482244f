// What a viewer saw, told to the server: `POST /beacon`.
//
// Owns when: with the first picture, every ten seconds, when the page is hidden, and when a view ends. A view is what
// the server calls one, by a header of the answer that begins to play (`X-Penstock-View`); without it nothing is told.
// Figures count from the start of a view, so a beacon that is lost costs nothing. No cookies, and no name but the view's.

const EVERY_MS = 10_000;

export class Beacons {
  #address;
  #look;
  #view = null;
  #before = null;
  #hasStarted = false;
  #told_ms = 0;
  #ended = [];
  #listening = new AbortController();

  /** `look` tells the figures of now, as `Player.stats` has them; `address` is where the server is. */
  constructor(origin, look) {
    this.#address = `${origin}/beacon`;
    this.#look = look;
    const { signal } = this.#listening;
    const hidden = () => {
      if (document.visibilityState === "hidden") this.#send();
    };
    document.addEventListener("visibilitychange", hidden, { signal });
  }

  /** A view begins with this answer; the one before it is over. */
  began(response) {
    this.#keepLast();
    this.#view = response.headers.get("x-penstock-view");
    this.#before = this.#look();
    this.#told_ms = performance.now();
  }

  /** Now and then, a few times a second. */
  look() {
    const isFirst = !this.#hasStarted && this.#look().startup_ms !== null;
    this.#hasStarted ||= isFirst;
    if (isFirst || performance.now() - this.#told_ms >= EVERY_MS) this.#send();
  }

  close() {
    this.#send();
    this.#listening.abort();
  }

  #keepLast() {
    const last = this.#beacon();
    // More views than one between two beacons are rare; many more are a server in trouble, which wants no beacons.
    if (last !== null) this.#ended = [...this.#ended, last].slice(-8);
  }

  #send() {
    this.#told_ms = performance.now();
    const now = this.#beacon();
    const beacons = now === null ? this.#ended : [...this.#ended, now];
    this.#ended = [];
    if (beacons.length === 0) return;
    // As text, which another site may post without asking before. What becomes of it is nothing to the viewer.
    fetch(this.#address, {
      method: "POST",
      body: JSON.stringify({ beacons }),
      keepalive: true,
      credentials: "omit",
      referrerPolicy: "no-referrer",
    }).catch(() => {});
  }

  #beacon() {
    if (this.#view === null) return null;
    const now = this.#look();
    const passed = (name) => (now[name] === null ? null : Math.max(0, now[name] - (this.#before[name] ?? 0)));
    return {
      view: this.#view,
      // Of the first view alone: those after it were begun by nobody.
      startup_ms: this.#before.startup_ms === null ? now.startup_ms : null,
      played_ms: passed("played_ms"),
      stalls: passed("stalls"),
      stalled_ms: passed("stalled_ms"),
      latency_ms: now.latency_ms,
      dropped_frames: passed("dropped_frames"),
    };
  }
}
