// A chart of the report, drawn by plotly.js, which comes inside a Python package and is loaded when it is first needed.

import { h } from "/page/core/dom.js";

const LIBRARY = "/page/plotly.min.js";
/** Of plotly.js 4: its own, of which page.css has what is needed, and that of maps, of which there are none here. */
const STYLES = ["plotly.js-style-global", "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53"];
let library = null;

function loaded() {
  library ??= new Promise((resolve, reject) => {
    // The library would write styles into the page, which the policy forbids, unless elements of these ids are there.
    document.head.append(...STYLES.map((id) => h("template", { id, class: "no-inline-styles" })));
    const script = h("script", { src: LIBRARY });
    script.addEventListener("load", () => resolve(globalThis.Plotly));
    script.addEventListener("error", () => {
      library = null;
      reject(new Error("What draws charts did not come. It is there if the package plotly is installed on the server."));
    });
    document.head.append(script);
  });
  return library;
}

/** Figures name colours of the style, so that one figure serves light and dark. */
function painted(value, style) {
  if (typeof value === "string") return value.startsWith("var(--") ? style.getPropertyValue(value.slice(4, -1)).trim() : value;
  if (Array.isArray(value)) return value.map((each) => painted(each, style));
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, painted(each, style)]));
  }
  return value;
}

function layoutOf(own, isNarrow, font) {
  const axis = (more) => ({ gridcolor: "var(--line)", linecolor: "var(--line)", zerolinecolor: "var(--line)", automargin: true, fixedrange: isNarrow, ...more });
  return {
    height: 260,
    margin: { l: 46, r: 16, t: 10, b: 8, pad: 4 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: font, size: 12, color: "var(--soft)" },
    hoverlabel: { bgcolor: "var(--surface)", bordercolor: "var(--line)", font: { color: "var(--ink)" }, align: "left" },
    showlegend: false,
    dragmode: isNarrow ? false : "zoom",
    ...own,
    xaxis: axis({ tickangle: 0, nticks: isNarrow ? 5 : 8, ...own.xaxis, ...(isNarrow && own.xaxis?.dtick ? { dtick: 2 * own.xaxis.dtick } : {}) }),
    yaxis: axis({ ...own.yaxis, ...(isNarrow && own.meta ? { ticktext: own.meta.narrow } : {}) }),
  };
}

/** What the report escapes for plotly, as text again. */
const plain = (label) => label.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

export function reportChart(title, figure) {
  const key = h("div", { class: "key" });
  const plot = h("div", { class: "report-plot", role: "img", "aria-label": title });
  const element = h("figure", { class: "report-chart" }, h("figcaption", null, h("h3", null, title)), key, plot);

  function draw(Plotly) {
    if (!plot.isConnected) {
      stop();
      return;
    }
    const style = getComputedStyle(document.documentElement);
    const isNarrow = innerWidth < 760;
    const layout = painted(layoutOf(figure.layout, isNarrow, getComputedStyle(document.body).fontFamily), style);
    const data = painted(figure.data, style);
    key.replaceChildren(...data.filter((each) => each.name).map((each) => swatch(each)));
    Plotly.react(plot, data, layout, { responsive: true, displayModeBar: false, displaylogo: false, topojsonURL: "", plotlyServerURL: "" });
  }

  let stop = () => {};
  loaded().then(
    (Plotly) => {
      const again = () => draw(Plotly);
      const dark = matchMedia("(prefers-color-scheme: dark)");
      const theme = new MutationObserver(again);
      theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
      dark.addEventListener("change", again);
      stop = () => {
        theme.disconnect();
        dark.removeEventListener("change", again);
      };
      requestAnimationFrame(again);
    },
    (error) => plot.replaceChildren(h("p", { class: "quiet" }, error.message)),
  );
  return element;
}

function swatch(trace) {
  const mark = h("span", { class: "swatch", "aria-hidden": "true" });
  mark.style.setProperty("background", (trace.line ?? trace.marker ?? {}).color ?? "currentcolor");
  return h("span", { class: "key-entry" }, mark, plain(trace.name));
}
