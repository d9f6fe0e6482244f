// The page: its parts joined, and the view that the address names.

import { Api } from "/page/core/api.js";
import { h } from "/page/core/dom.js";
import { Features } from "/page/core/features.js";
import { Happenings } from "/page/core/happenings.js";
import { Live } from "/page/core/live.js";
import { route } from "/page/core/router.js";
import { Session } from "/page/core/session.js";
import { empty, skeleton } from "/page/parts/empty.js";
import { Links } from "/page/parts/links.js";
import { Thumbnails } from "/page/parts/thumbnails.js";
import { Shell } from "/page/parts/shell.js";
import { signIn } from "/page/views/signin.js";

const PLACES = [
  { name: "streams", title: "Streams", icon: "streams", badge: (live) => String(live.server?.streams || "") },
  { name: "recordings", title: "Recordings", icon: "recordings" },
  { name: "events", title: "Events", icon: "events" },
  { name: "analytics", title: "Analytics", icon: "analytics", isThere: (app) => app.features.has("/analytics") },
  { name: "access", title: "Access", icon: "access" },
  { name: "settings", title: "Settings", icon: "settings" },
  { name: "server", title: "Server", icon: "server" },
  { name: "start", title: "Start here", icon: "start" },
];
const TITLES = Object.fromEntries(PLACES.map(({ name, title }) => [name, title]));

class App {
  constructor() {
    this.session = new Session();
    this.api = new Api(this.session);
    this.features = new Features();
    this.live = new Live(this.api, this.session, this.features);
    this.happenings = new Happenings(this.api, this.session);
    this.links = new Links(this.api, this.features, this.session, this.live);
    this.thumbnails = new Thumbnails(this.links);
    this.shell = new Shell(this, PLACES, { onSignIn: () => signIn(this.session) });
    this.main = document.getElementById("main");
    this.view = null;
    this.turn = 0;
    /** Whether a view is to be opened as soon as the server answers. */
    this.isWaiting = true;
    this.live.listeners.add(() => this.#onLive());
    this.session.listeners.add(() => this.#onSession());
    addEventListener("hashchange", () => this.open());
  }

  async run() {
    this.main.replaceChildren(h("div", { class: "page" }, skeleton(6)));
    await this.live.run();
  }

  /** The view that the address names. An empty server begins with how to start. */
  async open() {
    if (this.isLocked) return;
    const [first, ...rest] = route();
    const name = Object.hasOwn(TITLES, first ?? "") ? first : this.live.server?.streams === 0 ? "start" : "streams";
    this.turn += 1;
    const turn = this.turn;
    const module = name === "streams" && rest.length > 1 ? "stream" : name === "recordings" && rest.length > 0 ? "recording" : name;
    const opening = await import(`/page/views/${module}.js`).catch(() => null);
    if (turn !== this.turn) return;
    // The server is gone: what the address names is opened when it is back.
    this.isWaiting = opening === null;
    if (opening === null) return;
    this.view?.close?.();
    this.view = opening.open(this, rest);
    document.title = rest.length > 0 && module !== name ? `${rest.join("/")} · Penstock` : `${TITLES[name]} · Penstock`;
    this.main.replaceChildren(this.view.element);
    this.shell.select(name);
    scrollTo(0, 0);
    this.live.show(this.view);
  }

  #onLive() {
    if (this.live.state !== "live") return;
    if (this.isWaiting) {
      this.isWaiting = false;
      this.open();
    }
    this.happenings.start();
  }

  #onSession() {
    const { session } = this;
    if (session.wants !== null) {
      signIn(session, session.wants);
      if (session.role === null) this.#lock();
    } else if (this.isLocked) {
      this.isLocked = false;
      this.open();
    } else if (this.view !== null && this.roleKey !== session.role && session.role !== null) {
      // What may be done has changed.
      this.open();
    }
    if (session.role !== null) this.roleKey = session.role;
  }

  #lock() {
    this.isLocked = true;
    this.view?.close?.();
    this.view = null;
    this.turn += 1;
    const button = h("button", { class: "button primary", type: "button", on: { click: () => signIn(this.session, this.session.wants) } }, "Sign in");
    // This machine may read without one, unless the server says otherwise: then it asks for one again.
    const without = h("button", { class: "button", type: "button", on: { click: () => this.session.signOut() } }, "Go on without");
    const actions = h("div", { class: "dialog-actions" }, without, button);
    this.main.replaceChildren(h("div", { class: "page" }, empty("access", "Signed out", h("p", null, this.session.wants), actions)));
  }
}

const app = new App();
app.run();
