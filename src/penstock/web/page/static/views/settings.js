// The settings in force, where each comes from, whether a text could be the file, and reading it anew.

import { h, setText } from "/page/core/dom.js";
import { count, plural } from "/page/core/format.js";
import { icon } from "/page/core/icons.js";
import { confirmed } from "/page/parts/dialog.js";
import { note, skeleton } from "/page/parts/empty.js";
import { attempt } from "/page/parts/toast.js";

const EVERY_MS = 10_000;

export function open(app) {
  const search = h("input", { class: "input", type: "search", placeholder: "Find a setting", "aria-label": "Find a setting" });
  const changed = h("input", { type: "checkbox" });
  const found = h("p", { class: "found", role: "status" });
  const reload = h("button", { class: "button", type: "button" }, icon("refresh"), "Read the file anew");
  const groups = h("div", { class: "stack" }, skeleton(6));
  let [settings, askedAt, shownKey] = [null, 0, null];

  function draw() {
    if (settings === null) return;
    const wanted = search.value.trim().toLowerCase();
    const shown = Object.entries(settings).filter(
      ([key, { value, origin }]) => `${key} ${valueText(value)} ${origin}`.toLowerCase().includes(wanted) && (!changed.checked || origin !== "default"),
    );
    const key = JSON.stringify(shown);
    if (key === shownKey) return;
    shownKey = key;
    const sections = new Map();
    for (const entry of shown) {
      const [section] = entry[0].split(".");
      sections.set(section, [...(sections.get(section) ?? []), entry]);
    }
    groups.replaceChildren(...[...sections].map(group));
    setText(found, shown.length === Object.keys(settings).length ? plural(shown.length, "setting") : `${count(shown.length)} of ${plural(Object.keys(settings).length, "setting")}`);
    if (shown.length === 0) groups.replaceChildren(note(changed.checked ? "Every setting has its default." : "No setting is like that."));
  }
  search.addEventListener("input", draw);
  changed.addEventListener("change", draw);
  reload.addEventListener("click", async () => {
    const text = "Limits, relay, defaults, apps, auth and access of a changed file are taken over, and a renewed certificate. The rest needs a restart.";
    if (!(await confirmed({ title: "Read the configuration anew?", text, action: "Read it" }))) return;
    await attempt(() => app.api.post("/config/reload"), "The configuration was read anew");
    askedAt = 0;
    app.live.now();
  });

  return {
    element: h(
      "div",
      { class: "page" },
      h("header", { class: "page-head" }, h("div", null, h("h1", null, "Settings"), h("p", null, "In force now; secrets are left out.")), h("div", { class: "page-actions" }, app.session.may("admin") ? reload : null)),
      h("div", { class: "tools" }, h("div", { class: "search" }, icon("search"), search), h("label", { class: "check" }, changed, h("span", null, "Only what is set")), found),
      groups,
      app.session.may("operate") ? checker(app) : null,
    ),
    async poll(api) {
      if (Date.now() - askedAt < EVERY_MS) return;
      ({ settings } = await api.get("/config"));
      askedAt = Date.now();
    },
    update: draw,
  };
}

function valueText(value) {
  if (value === null) return "none";
  if (Array.isArray(value) && value.length === 0) return "none";
  return typeof value === "string" ? value : JSON.stringify(value);
}

function group([section, entries]) {
  return h(
    "section",
    { class: "panel" },
    h("h2", { class: "group-title" }, section),
    h(
      "dl",
      { class: "settings" },
      entries.map(([key, { value, origin }]) =>
        h(
          "div",
          { "data-key": key },
          h("dt", null, h("code", null, key)),
          h("dd", null, h("code", { class: "setting-value" }, valueText(value))),
          h("dd", { class: "setting-origin" }, origin === "default" ? h("span", { class: "quiet" }, "default") : h("span", { class: "tag live" }, origin)),
        ),
      ),
    ),
  );
}

function checker(app) {
  const text = h("textarea", { class: "input", id: "config-text", spellcheck: "false", placeholder: '[recording]\nstreams = ["live/*"]' });
  const result = h("div", { role: "status" });
  const button = h("button", { class: "button", type: "submit" }, "Check");
  const form = h("form", { class: "form" }, h("label", { for: "config-text" }, "Text of a configuration file, TOML"), text, h("div", { class: "page-actions" }, button), result);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    await attempt(async () => {
      const { is_valid: isValid, complaint } = await app.api.post("/config/check", text.value);
      result.replaceChildren(note(isValid ? "This could be the configuration. Nothing that it refers to was looked at." : complaint, isValid ? "ok" : "bad"));
    });
  });
  return h("section", { class: "panel checker" }, h("div", { class: "panel-head" }, h("h2", null, "Check a text")), form);
}
