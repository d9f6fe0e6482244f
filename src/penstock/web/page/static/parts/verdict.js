// How a stream does, as a dot and words: colour is never all that says it.

import { h, setAttribute, setText } from "/page/core/dom.js";

const NOT_SAMPLED = "not sampled yet";

export function kindOf({ verdict, state }) {
  if (state === "waiting") return "idle";
  if (verdict === "healthy") return "ok";
  if (verdict === NOT_SAMPLED) return "idle";
  return /^no data/.test(verdict) ? "bad" : "warn";
}

const wordsOf = ({ verdict, state }) => (state === "waiting" ? "waits for its publisher" : verdict);

export function verdict() {
  const words = h("span");
  const element = h("span", { class: "verdict" }, h("span", { class: "dot", "aria-hidden": "true" }), words);
  return {
    element,
    update(stream) {
      setText(words, wordsOf(stream));
      setAttribute(element, "data-kind", kindOf(stream));
    },
  };
}
