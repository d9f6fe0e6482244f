// Elements out of values. Text becomes text nodes, so that what a peer chose as its name stays text.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    } else if (name === "value" || name === "checked") {
      element[name] = value;
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

/** An element: h("a", {href: "#/"}, "text", child). */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

/** Set an element's text, and touch nothing where it is the same. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Set an attribute, or take it away by null, and touch nothing where it is the same. */
export function setAttribute(element, name, value) {
  if (value === null || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, String(value));
  }
}

/**
 * Children of an element by key: those that stay are updated and moved only if their order changed.
 * `make(item)` returns {element, update(item), close?()}.
 */
export class KeyedList {
  constructor(parent, keyOf, make) {
    this.parent = parent;
    this.keyOf = keyOf;
    this.make = make;
    this.parts = new Map();
  }

  update(items) {
    const keys = new Set(items.map(this.keyOf));
    for (const [key, part] of this.parts) {
      if (keys.has(key)) continue;
      part.close?.();
      part.element.remove();
      this.parts.delete(key);
    }
    let place = this.parent.firstElementChild;
    for (const item of items) {
      const key = this.keyOf(item);
      let part = this.parts.get(key);
      if (part === undefined) {
        part = this.make(item);
        this.parts.set(key, part);
      }
      part.update(item);
      if (part.element === place) place = place.nextElementSibling;
      else this.parent.insertBefore(part.element, place);
    }
  }

  close() {
    for (const part of this.parts.values()) part.close?.();
    this.parts.clear();
    this.parent.replaceChildren();
  }
}
