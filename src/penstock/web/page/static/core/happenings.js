// What happened on the server lately and what happens: one feed of events, kept for all views.

import { follow } from "/page/core/feed.js";

const MOST = 1000;
const BATCH_MS = 500;
/** How often a later place is looked for where the log does not reach back to its beginning. */
const TRIES = 12;

export class Happenings {
  constructor(api, session) {
    this.api = api;
    /** Newest last: {id, kind, data}. */
    this.events = [];
    this.isOpen = false;
    this.listeners = new Set();
    this.stop = null;
    session.listeners.add(() => this.end());
  }

  /** Follow, if nobody does yet. */
  start() {
    if (this.stop !== null) return;
    this.stop = new AbortController();
    this.#run(this.stop.signal);
  }

  /** Forget all, until somebody starts it again: what another may see is not asked for before the server lets them in. */
  end() {
    if (this.stop === null) return;
    this.stop.abort();
    this.stop = null;
    this.events = [];
  }

  async #run(signal) {
    let since = null;
    let back = 0;
    let place = null;
    while (!signal.aborted) {
      const turn = new AbortController();
      const end = () => turn.abort();
      signal.addEventListener("abort", end);
      await follow(this.api, `batch_ms=${BATCH_MS}`, {
        signal: turn.signal,
        since,
        onPlace: (id) => {
          if (place !== null) return;
          place = id;
          since = placeOf(place, back);
          turn.abort();
        },
        onReset: () => {
          if (this.events.length === 0 && back < TRIES) {
            back += 1;
            since = placeOf(place, back);
            turn.abort();
          } else {
            // Another life of the server: what was numbered before means nothing in it.
            back = TRIES;
          }
        },
        onState: (isOpen) => this.#becomes(isOpen),
        onEvent: (event) => this.#heard(event),
      });
      signal.removeEventListener("abort", end);
      // Refused: what is asked for next is decided by signing in.
      if (!turn.signal.aborted) return;
    }
  }

  #heard(event) {
    this.events.push(event);
    if (this.events.length > MOST + 200) this.events.splice(0, this.events.length - MOST);
    this.#told();
  }

  #becomes(isOpen) {
    this.isOpen = isOpen;
    this.#told();
  }

  #told() {
    if (this.isTelling) return;
    this.isTelling = true;
    requestAnimationFrame(() => {
      this.isTelling = false;
      for (const listener of this.listeners) listener();
    });
  }
}

/** The beginning, then half of the way to the newest, three quarters, and so on. */
function placeOf(newest, tries) {
  const [boot, number] = newest.split(":");
  return `${boot}:${Math.floor(Number(number) * (1 - 2 ** -tries))}`;
}
