// Line icons on a grid of 20, drawn for this page.

import { s } from "/page/core/dom.js";

const PATHS = {
  streams: "M3 4.5h14v8.5H3zM7 16.5h6M8.5 6.8v3.9l3.3-1.95z",
  recordings: "M3.5 4.5h13v11h-13zM3.5 8h13M7 4.5v3.5M13 4.5v3.5M8.7 10v3.5l3-1.75z",
  events: "M2.5 10h3l2-5.5 4.5 11 2-5.5h3.5",
  analytics: "M3.5 16.5v-5M8 16.5V7M12.5 16.5v-7M17 16.5V3.5",
  access: "M7 13.5a3.5 3.5 0 1 1 3.2-4.9h7.3v2.9h-2v1.9h-2.5v-1.9h-2.8A3.5 3.5 0 0 1 7 13.5zM7 10h.01",
  settings: "M3 5.5h7M14 5.5h3M10 3.5v4h4v-4zM3 14.5h3M10 14.5h7M6 12.5v4h4v-4z",
  server: "M3.5 3.5h13v5.5h-13zM3.5 11h13v5.5h-13zM6.5 6.25h.01M6.5 13.75h.01M10 6.25h4M10 13.75h4",
  start: "M10 2.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15zM8.3 6.8v6.4l5-3.2z",
  more: "M4 10h.01M10 10h.01M16 10h.01",
  copy: "M7 7h9.5v9.5H7zM13 7V3.5H3.5V13H7",
  check: "M4 10.5l4 4 8-9",
  close: "M5 5l10 10M15 5L5 15",
  back: "M12 4.5L6.5 10l5.5 5.5",
  eye: "M1.8 10S4.8 4.8 10 4.8 18.2 10 18.2 10 15.2 15.2 10 15.2 1.8 10 1.8 10zM10 7.8a2.2 2.2 0 1 0 0 4.4 2.2 2.2 0 0 0 0-4.4z",
  search: "M9 3.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM13 13l4 4",
  sun: "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM10 1.5v2M10 16.5v2M1.5 10h2M16.5 10h2M4 4l1.4 1.4M14.6 14.6L16 16M16 4l-1.4 1.4M5.4 14.6L4 16",
  moon: "M16.5 12A7 7 0 0 1 8 3.5a7 7 0 1 0 8.5 8.5z",
  half: "M10 2.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15zM10 2.5v15",
  user: "M10 3.5a3.25 3.25 0 1 0 0 6.5 3.25 3.25 0 0 0 0-6.5zM3.5 16.5c.6-3.2 3.2-4.5 6.5-4.5s5.9 1.3 6.5 4.5",
  warning: "M10 3L1.8 16.5h16.4zM10 8v4M10 14.3h.01",
  download: "M10 3v9.5M6 9l4 4 4-4M3.5 16.5h13",
  trash: "M3.5 5.5h13M8 5.5v-2h4v2M5.5 5.5l.8 11h7.4l.8-11",
  refresh: "M16.5 10a6.5 6.5 0 1 1-2-4.7M16.5 2.5V6H13",
  sound: "M3 8v4h3l4 3.5v-11L6 8zM13 7.5a3.5 3.5 0 0 1 0 5M15 5a7 7 0 0 1 0 10",
  link: "M8.5 11.5a3 3 0 0 0 4.3 0l3-3a3 3 0 0 0-4.3-4.3l-1 1M11.5 8.5a3 3 0 0 0-4.3 0l-3 3a3 3 0 0 0 4.3 4.3l1-1",
};

/** An icon that says nothing to screen readers: the text beside it does. */
export function icon(name) {
  return s("svg", { class: "icon", viewBox: "0 0 20 20", "aria-hidden": "true" }, s("path", { d: PATHS[name] }));
}
