// The pictures on buttons, as shapes on a field of 24 by 24.

const SHAPES = {
  play: "M8 5.5v13a1 1 0 0 0 1.5.86l10.5-6.5a1 1 0 0 0 0-1.72L9.5 4.64A1 1 0 0 0 8 5.5z",
  pause: "M7 5h3.5v14H7zM13.5 5H17v14h-3.5z",
  sound: "M4 9.5v5h3.2L12 18.5v-13L7.2 9.5zM14.5 8.6a4.5 4.5 0 0 1 0 6.8l1.2 1.5a6.4 6.4 0 0 0 0-9.8zM17 5.4a8.6 8.6 0 0 1 0 13.2l1.2 1.5a10.5 10.5 0 0 0 0-16.2z",
  muted: "M4 9.5v5h3.2L12 18.5v-13L7.2 9.5zM20.6 9.4l-1.3-1.3L17 10.4l-2.3-2.3-1.3 1.3 2.3 2.3-2.3 2.3 1.3 1.3 2.3-2.3 2.3 2.3 1.3-1.3-2.3-2.3z",
  full: "M4 4h6v2H6v4H4zM14 4h6v6h-2V6h-4zM4 14h2v4h4v2H4zM18 14h2v6h-6v-2h4z",
  small: "M8 4h2v6H4V8h4zM14 4h2v4h4v2h-6zM4 14h6v6H8v-4H4zM14 14h6v2h-4v4h-2z",
  apart: "M3 5h18v14H3zm2 2v10h14V7zm6 4h6.5v4.5H11z",
};

/** One of them as an element that is no part of what is read aloud. */
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", "0 0 24 24");
  picture.setAttribute("aria-hidden", "true");
  const shape = document.createElementNS(space, "path");
  shape.setAttribute("d", SHAPES[name]);
  shape.setAttribute("fill-rule", "evenodd");
  picture.append(shape);
  return picture;
}
