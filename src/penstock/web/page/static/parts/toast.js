// Short words about what was done, read out by screen readers, gone after a while.

import { h } from "/page/core/dom.js";

const FOR_MS = 6000;
const place = h("div", { class: "toasts", role: "status", "aria-live": "polite" });

export function tell(text, kind = "ok") {
  if (!place.isConnected) document.body.append(place);
  const toast = h("p", { class: `toast ${kind}` }, text);
  place.append(toast);
  setTimeout(() => toast.remove(), FOR_MS);
}

/** Do it, and say what went wrong if something did. Whether it went well. */
export async function attempt(doing, done = null) {
  try {
    await doing();
    if (done !== null) tell(done);
    return true;
  } catch (error) {
    tell(error.message, "bad");
    return false;
  }
}
