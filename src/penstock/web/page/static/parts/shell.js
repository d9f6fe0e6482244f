// The frame around views: navigation that is a side bar or, on a phone, a bar at the bottom; the banner that says when
// figures stopped; who is signed in; light or dark.

import { h, setAttribute, setText } from "/page/core/dom.js";
import { clock, plural } from "/page/core/format.js";
import { icon } from "/page/core/icons.js";
import { hrefTo } from "/page/core/router.js";
import { opened } from "/page/parts/dialog.js";

const THEMES = { auto: ["half", "Automatic"], light: ["sun", "Light"], dark: ["moon", "Dark"] };
const ON_BAR = 4;

export class Shell {
  constructor(app, places, { onSignIn }) {
    this.app = app;
    this.places = places;
    this.live = app.live;
    this.side = document.querySelector(".side");
    this.main = document.getElementById("main");
    this.nav = h("nav", { class: "nav", "aria-label": "Main" });
    this.banner = h("div", { class: "banner", role: "status", "aria-live": "polite" });
    this.account = h("div", { class: "account" });
    this.theme = h("button", { class: "button ghost", type: "button" });
    this.onSignIn = onSignIn;
    this.links = [];
    this.key = null;
    this.theme.addEventListener("click", () => this.#nextTheme());
    // By the fragment alone the address would name another view.
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault();
      this.main.focus();
    });
    this.state = h("p", { class: "server-state" });
    this.side.append(this.nav, h("div", { class: "side-end" }, this.state, this.account, this.theme));
    this.main.before(this.banner);
    this.#showTheme();
    this.live.listeners.add(() => this.update());
    app.session.listeners.add(() => this.update());
    this.update();
  }

  /** The view that is open. */
  select(name) {
    this.selected = name;
    for (const { place, element } of this.links) {
      setAttribute(element, "aria-current", place.name === name ? "page" : null);
    }
    const place = this.links.findIndex((each) => each.place.name === name);
    if (this.more !== undefined) setAttribute(this.more, "aria-current", place >= ON_BAR ? "true" : null);
  }

  update() {
    this.#showNavigation();
    this.#showBanner();
    this.#showServer();
    this.#showAccount();
    document.body.dataset.state = this.live.state;
  }

  #showNavigation() {
    const { live } = this;
    const isEmpty = live.server !== null && live.server.streams === 0;
    const places = this.places.filter((place) => place.isThere?.(this.app) ?? true);
    if (isEmpty) places.sort((a, b) => Number(b.name === "start") - Number(a.name === "start"));
    const key = places.map((place) => place.name).join();
    if (key !== this.key) {
      this.key = key;
      this.links = places.map((place) => {
        const badge = h("span", { class: "badge" });
        const element = h("a", { href: hrefTo(place.name), class: "nav-link" }, icon(place.icon), h("span", null, place.title), badge);
        return { place, element, badge };
      });
      this.more = h("button", { class: "nav-link more", type: "button", "aria-haspopup": "dialog" }, icon("more"), h("span", null, "More"));
      this.more.addEventListener("click", () => this.#openMore(places.slice(ON_BAR)));
      this.nav.replaceChildren(...this.links.map(({ element }) => element), this.more);
      this.select(this.selected);
    }
    for (const { place, badge } of this.links) setText(badge, place.badge?.(live) ?? "");
  }

  #openMore(places) {
    opened("More", (close) =>
      h(
        "nav",
        { class: "sheet", "aria-label": "More" },
        places.map((place) =>
          h("a", { href: hrefTo(place.name), class: "nav-link", on: { click: close } }, icon(place.icon), h("span", null, place.title)),
        ),
        this.app.session.isSignedIn
          ? h("button", { class: "nav-link", type: "button", on: { click: () => (close(), this.app.session.signOut()) } }, icon("user"), "Sign out")
          : h("button", { class: "nav-link", type: "button", on: { click: () => (close(), this.onSignIn()) } }, icon("user"), "Sign in"),
        h("button", { class: "nav-link", type: "button", on: { click: () => this.#nextTheme() } }, icon("half"), "Light or dark"),
      ),
    );
  }

  #showBanner() {
    const { live } = this;
    this.firstVersion ??= live.features.version;
    const isOther = this.firstVersion !== live.features.version;
    const text = this.#inWords() || (isOther ? "The server is another version now." : "");
    setAttribute(this.banner, "data-kind", live.state === "gone" || live.state === "refused" ? "bad" : "warn");
    this.banner.hidden = text === "";
    // Read out when it changes, and not once a second.
    if (this.bannerText === text) return;
    this.bannerText = text;
    this.banner.replaceChildren(text, ...(isOther && text !== "" ? [" ", h("a", { href: "/" }, "Load its page")] : []));
  }

  #inWords() {
    const { live } = this;
    const since = live.at === null ? "" : ` Figures are those of ${clock(live.at)}.`;
    if (live.state === "gone") return `No connection to the server.${since} Looking for it…`;
    if (live.state === "refused") return `The server refuses figures: ${live.refusal}${since}`;
    return live.state === "locked" ? "" : (live.server?.complaint ?? "");
  }

  #showServer() {
    const { server, state } = this.live;
    const words = { connecting: "Connecting…", gone: "Not reachable", refused: "Refuses figures", locked: "Signed out" }[state];
    const text = words ?? `${server.server_id} · ${server.state}`;
    setText(this.state, text);
    setAttribute(this.state, "data-kind", state === "live" && server.state === "ready" ? "ok" : state === "live" ? "warn" : "bad");
    if (server !== null) setAttribute(this.state, "title", `Penstock ${server.version}, ${plural(server.workers, "worker")}`);
  }

  #showAccount() {
    const { session } = this.app;
    const key = `${session.isSignedIn}${session.name}${session.role}`;
    if (this.accountKey === key) return;
    this.accountKey = key;
    const who = session.name ?? (session.role === null ? "" : "This machine");
    const button = session.isSignedIn
      ? h("button", { class: "button small", type: "button", on: { click: () => session.signOut() } }, "Sign out")
      : h("button", { class: "button small", type: "button", on: { click: () => this.onSignIn() } }, "Sign in");
    this.account.replaceChildren(
      h("span", { class: "who" }, icon("user"), h("span", null, who), session.role && h("span", { class: "muted" }, session.role)),
      button,
    );
  }

  #nextTheme() {
    const names = Object.keys(THEMES);
    const now = document.documentElement.dataset.theme ?? "auto";
    const next = names[(names.indexOf(now) + 1) % names.length];
    document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem("penstock.theme", next);
    } catch {
      // Storage is off: the choice lasts as long as the page.
    }
    this.#showTheme();
  }

  #showTheme() {
    const [name, title] = THEMES[document.documentElement.dataset.theme ?? "auto"];
    this.theme.replaceChildren(icon(name), title);
    this.theme.setAttribute("aria-label", `Colours: ${title}. Change`);
  }
}
