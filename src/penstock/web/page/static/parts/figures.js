// Figures with their names, in a row.

import { h, setText } from "/page/core/dom.js";

/** `names` is {key: name}; `update({key: text})`. */
export function figures(names, className = "figures") {
  const places = Object.fromEntries(Object.keys(names).map((key) => [key, h("dd", { "data-figure": key })]));
  const element = h("dl", { class: className }, Object.entries(names).map(([key, name]) => h("div", null, h("dt", null, name), places[key])));
  return {
    element,
    update(values) {
      for (const [key, text] of Object.entries(values)) setText(places[key], text);
    },
  };
}
