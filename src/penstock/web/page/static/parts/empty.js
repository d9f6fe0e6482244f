// What is said where there is nothing, and while something is on its way.

import { h } from "/page/core/dom.js";
import { icon } from "/page/core/icons.js";

export function empty(name, title, ...more) {
  return h("div", { class: "empty" }, h("div", { class: "empty-icon" }, icon(name)), h("h2", null, title), ...more);
}

/** Lines that take the place of what comes. */
export function skeleton(lines = 4) {
  return h(
    "div",
    { class: "skeleton", "aria-hidden": "true" },
    Array.from({ length: lines }, () => h("div", { class: "skeleton-line" })),
  );
}

export const note = (text, kind = "") => h("p", { class: `note ${kind}` }, text);
