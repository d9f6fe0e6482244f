// Tabs as the ARIA practices have them: arrows move, one panel shows.

import { h, setAttribute } from "/page/core/dom.js";

export function tabs(label, names, onSelect) {
  const buttons = names.map((name) => h("button", { class: "tab", type: "button", role: "tab" }, name));
  const element = h("div", { class: "tabs", role: "tablist", "aria-label": label }, buttons);

  function select(index, isFocused = true) {
    for (const [place, button] of buttons.entries()) {
      setAttribute(button, "aria-selected", String(place === index));
      setAttribute(button, "tabindex", place === index ? "0" : "-1");
    }
    if (isFocused) buttons[index].focus();
    onSelect(names[index]);
  }
  for (const [index, button] of buttons.entries()) {
    button.addEventListener("click", () => select(index));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step !== undefined) select((index + step + names.length) % names.length);
    });
  }
  return { element, select };
}
