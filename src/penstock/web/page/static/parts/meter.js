// A share of a whole, as a bar with its figure.

import { h, s, setAttribute, setText } from "/page/core/dom.js";

export function meter(label, shareOf, textOf = (item) => `${Math.round(shareOf(item) * 100)} %`) {
  const bar = s("rect", { class: "meter-bar", height: 6, rx: 3 });
  const text = h("span");
  const element = h(
    "span",
    { class: "meter", role: "img" },
    s("svg", { viewBox: "0 0 60 6", class: "meter-picture", "aria-hidden": "true" }, s("rect", { class: "meter-all", width: 60, height: 6, rx: 3 }), bar),
    text,
  );
  return {
    element,
    update(item) {
      const share = Math.min(1, Math.max(0, shareOf(item)));
      setAttribute(bar, "width", Math.max(share > 0 ? 2 : 0, share * 60).toFixed(1));
      setAttribute(element, "data-kind", share > 0.9 ? "bad" : share > 0.7 ? "warn" : "ok");
      setAttribute(element, "aria-label", `${label}: ${textOf(item)}`);
      setText(text, textOf(item));
    },
  };
}
