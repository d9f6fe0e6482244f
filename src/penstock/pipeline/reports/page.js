(() => {
  "use strict";
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const narrow = matchMedia("(max-width: 760px)");
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // Figures name colours of the style, so that one figure serves light and dark.
  const painted = (value, style) => {
    if (typeof value === "string") {
      return value.startsWith("var(--") ? style.getPropertyValue(value.slice(4, -1)).trim() : value;
    }
    if (Array.isArray(value)) return value.map((each) => painted(each, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, painted(each, style)]));
    }
    return value;
  };

  const axis = (own) => ({
    gridcolor: "var(--line)", linecolor: "var(--line)", zerolinecolor: "var(--line)", automargin: true,
    fixedrange: narrow.matches, ...own,
  });

  const yaxis = (own) => (narrow.matches && own.meta ? { ...own.yaxis, ticktext: own.meta.narrow } : own.yaxis);

  // A phone has room for half of the ticks.
  const xaxis = (own) => (narrow.matches && own.dtick ? { ...own, dtick: 2 * own.dtick } : own);

  const layoutOf = (own) => ({
    height: narrow.matches ? 240 : 300,
    margin: { l: 46, r: 20, t: 10, b: 8, pad: 4 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: "var(--soft)" },
    hoverlabel: { bgcolor: "var(--surface)", bordercolor: "var(--line)", font: { color: "var(--ink)" }, align: "left" },
    showlegend: false,
    // A finger on a chart scrolls the page.
    dragmode: narrow.matches ? false : "zoom",
    ...own,
    xaxis: axis({ tickangle: 0, nticks: narrow.matches ? 5 : 10, ...xaxis(own.xaxis) }),
    yaxis: axis(yaxis(own)),
  });

  const text = (label) => label.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

  // The key of a chart stands above it as text of the page, which wraps where plotly's own would scroll.
  const key = (name, traces) => {
    const place = document.getElementById(`key-${name}`);
    place.replaceChildren(...traces.flatMap((trace, index) => {
      if (!trace.name) return [];
      const entry = document.createElement("button");
      entry.type = "button";
      entry.textContent = text(trace.name);
      entry.style.setProperty("--swatch", (trace.line || trace.marker).color);
      entry.setAttribute("aria-pressed", "true");
      entry.addEventListener("click", () => {
        const shown = entry.getAttribute("aria-pressed") !== "true";
        entry.setAttribute("aria-pressed", String(shown));
        Plotly.restyle(`chart-${name}`, { visible: shown }, [index]);
      });
      return [entry];
    }));
  };

  const draw = () => {
    const style = getComputedStyle(document.documentElement);
    for (const [name, figure] of Object.entries(figures)) {
      key(name, painted(figure.data, style));
      Plotly.react(`chart-${name}`, painted(figure.data, style), painted(layoutOf(figure.layout), style), {
        responsive: true, displayModeBar: false, displaylogo: false, topojsonURL: "", plotlyServerURL: "",
      });
    }
  };

  draw();
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);
})();
