// Dialogs: the browser's own, which keep the focus and give it back.

import { h } from "/page/core/dom.js";

function shown(dialog) {
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
  return dialog;
}

/** Ask before something that cannot be undone. Resolves to whether it is wanted. */
export function confirmed({ title, text, action }) {
  return new Promise((resolve) => {
    const no = h("button", { class: "button", type: "button", autofocus: true }, "Cancel");
    const yes = h("button", { class: "button danger", type: "button" }, action);
    const dialog = h(
      "dialog",
      { class: "dialog", "aria-labelledby": "dialog-title" },
      h("h2", { id: "dialog-title" }, title),
      h("p", null, text),
      h("div", { class: "dialog-actions" }, no, yes),
    );
    no.addEventListener("click", () => dialog.close());
    yes.addEventListener("click", () => dialog.close("yes"));
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"));
    shown(dialog);
  });
}

/** A dialog of one's own: `fill(close)` gives its content. */
export function opened(title, fill) {
  const close = () => dialog.close();
  const dialog = h(
    "dialog",
    { class: "dialog", "aria-labelledby": "dialog-title" },
    h("h2", { id: "dialog-title" }, title),
    fill(() => close()),
  );
  dialog.addEventListener("click", (event) => event.target === dialog && close());
  return shown(dialog);
}
