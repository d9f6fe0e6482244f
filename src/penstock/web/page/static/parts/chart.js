// A small chart of one figure over time, which moves on with each sample. Its newest value is in the text beside it, so
// that nothing is said by the picture alone.

import { h, s, setAttribute, setText } from "/page/core/dom.js";
import { clock } from "/page/core/format.js";

const [WIDTH, HEIGHT] = [600, 120];
const TOP = 6;

/** The newest samples of a figure: bounded, oldest first. */
export class Series {
  constructor(most = 600) {
    this.most = most;
    this.points = [];
  }

  add(at, value) {
    if (value === null || value === undefined) return;
    this.points.push({ at, value });
    if (this.points.length > this.most) this.points.splice(0, this.points.length - this.most);
  }
}

/** Round up to 1, 2 or 5 times a power of ten, so that the scale rests while the figure moves. */
function ceiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}

export function chart({ title, format, windowMs = 300_000, isStep = false, least = 1 }) {
  const line = s("path", { class: "chart-line" });
  const area = s("path", { class: "chart-area" });
  const mark = s("line", { class: "chart-mark", y1: 0, y2: HEIGHT, visibility: "hidden" });
  const grid = [0.5, 1].map((share) => s("line", { class: "chart-grid", x1: 0, x2: WIDTH, y1: HEIGHT - share * (HEIGHT - TOP), y2: HEIGHT - share * (HEIGHT - TOP) }));
  const picture = s(
    "svg",
    { class: "chart-picture", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    ...grid, area, line, mark,
  );
  const value = h("span", { class: "chart-value" });
  const [most, from, to] = [h("span", { class: "chart-most" }), h("span"), h("span")];
  const element = h(
    "figure",
    { class: "chart" },
    h("figcaption", null, h("span", { class: "chart-title" }, title), value),
    h("div", { class: "chart-plot" }, picture, most),
    h("div", { class: "chart-times", "aria-hidden": "true" }, from, to),
  );
  let shown = [];
  let range = null;

  function point(event) {
    if (shown.length === 0) return;
    const box = picture.getBoundingClientRect();
    const at = range.from + ((event.clientX - box.left) / box.width) * (range.to - range.from);
    const nearest = shown.reduce((best, each) => (Math.abs(each.at - at) < Math.abs(best.at - at) ? each : best));
    const x = ((nearest.at - range.from) / (range.to - range.from)) * WIDTH;
    setAttribute(mark, "x1", x);
    setAttribute(mark, "x2", x);
    setAttribute(mark, "visibility", "visible");
    setText(value, `${format(nearest.value)} at ${clock(nearest.at)}`);
  }

  function unpoint() {
    setAttribute(mark, "visibility", "hidden");
    if (shown.length > 0) setText(value, format(shown.at(-1).value));
  }
  picture.addEventListener("pointermove", point);
  picture.addEventListener("pointerleave", unpoint);

  return {
    element,
    update(series) {
      const last = series.points.at(-1);
      if (last === undefined) return;
      const first = series.points[0].at;
      range = { from: Math.max(last.at - windowMs, Math.min(first, last.at - 30_000)), to: last.at };
      shown = series.points.filter((each) => each.at >= range.from);
      const top = ceiling(Math.max(least, ...shown.map((each) => each.value)));
      const place = ({ at, value: height }) => [
        (((at - range.from) / (range.to - range.from)) * WIDTH).toFixed(1),
        (HEIGHT - (height / top) * (HEIGHT - TOP)).toFixed(1),
      ];
      const places = shown.map(place);
      const path = places.map(([x, y], index) => (index === 0 ? `M${x} ${y}` : isStep ? `H${x}V${y}` : `L${x} ${y}`)).join("");
      setAttribute(line, "d", path);
      setAttribute(area, "d", `${path}V${HEIGHT}H${places[0][0]}Z`);
      setText(most, format(top));
      setText(from, clock(range.from));
      setText(to, clock(range.to));
      if (mark.getAttribute("visibility") === "hidden") setText(value, format(last.value));
    },
  };
}
