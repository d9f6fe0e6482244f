// Signing in: a token, kept in memory unless it is to outlast a reload of this tab.

import { h } from "/page/core/dom.js";
import { opened } from "/page/parts/dialog.js";

/** What a header can carry. */
const SENDABLE = /^[\x21-\x7e]+$/;
let isOpen = false;

export function signIn(session, reason = null) {
  if (isOpen) return;
  isOpen = true;
  const token = h("input", { id: "token", type: "password", class: "input", autocomplete: "off", spellcheck: "false", required: true });
  token.addEventListener("input", () => token.setCustomValidity(""));
  const keep = h("input", { id: "keep", type: "checkbox" });
  const dialog = opened("Sign in", (close) =>
    h(
      "form",
      {
        class: "form",
        method: "dialog",
        on: {
          submit: (event) => {
            event.preventDefault();
            const text = token.value.trim();
            if (!SENDABLE.test(text)) {
              token.setCustomValidity("A token is letters and digits.");
              token.reportValidity();
              return;
            }
            close();
            session.signIn(text, keep.checked);
          },
        },
      },
      reason && h("p", { class: "note warn", role: "alert" }, reason),
      h("label", { for: "token" }, "Token"),
      token,
      h("p", { class: "hint" }, "One that ", h("code", null, "penstock key make NAME --role operate"), " printed; its line is in ", h("code", null, "api.keys"), "."),
      h("label", { class: "check" }, keep, h("span", null, "Keep it in this tab until the tab is closed")),
      h("div", { class: "dialog-actions" }, h("button", { class: "button primary", type: "submit" }, "Sign in")),
    ),
  );
  dialog.addEventListener("close", () => {
    isOpen = false;
  });
  token.focus();
}
