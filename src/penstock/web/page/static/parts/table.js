// Tables whose rows stay while their figures change.

import { h, KeyedList, setText } from "/page/core/dom.js";

/**
 * `columns`: {title, kind, text(item)} or {title, kind, cell(item) -> {element, update(item)}}. `kind` is a class such
 * as "number". A column without a title has one for screen readers by `label`.
 */
export function table({ label, columns, keyOf }) {
  const body = h("tbody");
  const rows = new KeyedList(body, keyOf, (item) => row(columns, item));
  const heads = columns.map((column) =>
    h("th", { scope: "col", class: column.kind ?? null }, column.title === "" ? h("span", { class: "unseen" }, column.label) : column.title),
  );
  const element = h(
    "div",
    { class: "table-frame", role: "region", "aria-label": label, tabindex: "0" },
    h("table", null, h("thead", null, h("tr", null, heads)), body),
  );
  return { element, update: (items) => rows.update(items), close: () => rows.close() };
}

function row(columns, item) {
  const parts = columns.map((column) => {
    if (column.cell !== undefined) return column.cell(item);
    const element = h("span");
    return { element, update: (now) => setText(element, column.text(now)) };
  });
  return {
    element: h("tr", null, parts.map((part, index) => h("td", { class: columns[index].kind ?? null }, part.element))),
    update(now) {
      for (const part of parts) part.update?.(now);
    },
    close() {
      for (const part of parts) part.close?.();
    },
  };
}

/** A text with a smaller one below it. */
export function twoLines(first, second) {
  return () => {
    const [upper, lower] = [h("span"), h("span", { class: "sub" })];
    return {
      element: h("span", null, upper, lower),
      update(item) {
        setText(upper, first(item));
        setText(lower, second(item));
      },
    };
  };
}
