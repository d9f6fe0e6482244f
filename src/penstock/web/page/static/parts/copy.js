// Text to copy: the text, and a button.

import { h } from "/page/core/dom.js";
import { icon } from "/page/core/icons.js";
import { tell } from "/page/parts/toast.js";

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // not over plain HTTP from elsewhere: browsers allow it in secure contexts alone
  }
}

/** A block of text with a button; `what` names it for screen readers. */
export function copyable(text, what) {
  const code = h("code", { tabindex: "0" }, text);
  const button = h("button", { class: "button small copy", type: "button", "aria-label": `Copy ${what}` }, icon("copy"), "Copy");
  button.addEventListener("click", async () => {
    if (await copied(code.textContent)) {
      button.replaceChildren(icon("check"), "Copied");
      setTimeout(() => button.replaceChildren(icon("copy"), "Copy"), 2000);
    } else {
      getSelection().selectAllChildren(code);
      tell("Selected. This browser copies by Ctrl+C here.");
    }
  });
  const element = h("div", { class: "snippet" }, h("pre", null, code), button);
  return { element, set: (next) => (code.textContent = next) };
}
