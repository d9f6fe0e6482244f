// The one loop that keeps figures up to date: the server, and what the open view asks for, once a second.
// It rests while nobody looks, says when the server is gone, and finds it again.

import { Refused, Unreachable } from "/page/core/api.js";

const EVERY_MS = 1000;
const GONE_EVERY_MS = 1000;

export class Live {
  constructor(api, session, features) {
    this.api = api;
    this.session = session;
    this.features = features;
    /** "connecting", "live", "gone", "refused" or "locked" */
    this.state = "connecting";
    /** Why the server refuses figures. */
    this.refusal = null;
    this.server = null;
    /** When figures last came, by this machine's clock, in ms. */
    this.at = null;
    this.view = null;
    this.listeners = new Set();
    this.wake = () => {};
    document.addEventListener("visibilitychange", () => this.wake());
    session.listeners.add(() => this.now());
  }

  /** Show another view: `poll` of it runs in the loop from now on. */
  show(view) {
    this.view = view;
    this.now();
  }

  /** A turn at once. */
  now() {
    this.isWanted = true;
    this.wake();
  }

  async run() {
    for (;;) {
      this.isWanted = false;
      if (!document.hidden) await this.#turn();
      await this.#rest(this.state === "gone" ? GONE_EVERY_MS : EVERY_MS);
    }
  }

  async #turn() {
    const { api, session } = this;
    if (session.wants !== null) {
      this.#become("locked");
      return;
    }
    try {
      const server = await api.get("/server");
      if (this.server?.life_id !== server.life_id || session.role === null) await this.#meet();
      this.server = server;
      const { view } = this;
      if (view?.poll !== undefined) await view.poll(api);
      this.at = Date.now();
      this.#become("live");
      if (this.view === view) view?.update?.(this);
    } catch (error) {
      this.#failed(error);
    }
  }

  /** A server that was not met before, or started again. */
  async #meet() {
    this.session.is(await this.api.get("/caller"));
    await this.features.learn(this.api);
  }

  #failed(error) {
    if (this.session.wants !== null) this.#become("locked");
    else if (error instanceof Unreachable || (error instanceof Refused && error.status === 503)) this.#become("gone");
    else if (error instanceof Refused) {
      this.refusal = error.message;
      this.view?.refused?.(error);
      this.#become("refused");
    } else {
      // A fault of this page: it is told on the console, and ends nothing.
      reportError(error);
    }
  }

  #become(state) {
    const isOther = this.state !== state;
    this.state = state;
    for (const listener of this.listeners) listener(isOther);
  }

  #rest(ms) {
    if (this.isWanted) return null;
    return new Promise((resolve) => {
      const timer = document.hidden ? null : setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
