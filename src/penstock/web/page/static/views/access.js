// Who may publish and play, who was let in by which rule, who is kept out, and links for others.

import { h, KeyedList, setText } from "/page/core/dom.js";
import { day, plural } from "/page/core/format.js";
import { confirmed } from "/page/parts/dialog.js";
import { note } from "/page/parts/empty.js";
import { linkMaker } from "/page/parts/link_maker.js";
import { table } from "/page/parts/table.js";
import { attempt } from "/page/parts/toast.js";

export function open(app) {
  const hasRules = app.features.has("/access");
  const may = app.session.may("operate");
  const rules = h("div", { class: "stack" });
  const letIn = table({
    label: "Who is here by which rule",
    keyOf: (each) => JSON.stringify([each.action, each.app, each.rule]),
    columns: [
      { title: "What", text: (each) => (each.action === "publish" ? "publishes" : "plays") },
      { title: "App", kind: "wrap", text: (each) => each.app },
      { title: "By", text: (each) => (each.rule === "server" ? "a link of this server" : (each.rule ?? "no rule")) },
      { title: "Now", kind: "number", text: (each) => String(each.count) },
      { title: "Who", kind: "wrap", text: (each) => each.subjects.map(({ subject, count }) => `${subject ?? "nobody named"}${count > 1 ? ` (${count})` : ""}`).join(", ") },
    ],
  });
  const nobody = h("p", { class: "quiet" }, "Nobody publishes or plays now.");
  const blocks = h("ul", { class: "plain-list" });
  const noBlocks = h("p", { class: "quiet" }, "Nobody is kept out.");
  const blockRows = new KeyedList(blocks, (each) => each.id, (each) => blockRow(app, each, may));
  let [access, blocked, rulesKey] = [null, [], null];

  return {
    element: h(
      "div",
      { class: "page" },
      h("header", { class: "page-head" }, h("div", null, h("h1", null, "Access"), h("p", null, "Who may publish and play, and who does."))),
      h(
        "div",
        { class: "stack" },
        hasRules ? rules : null,
        hasRules ? h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", null, "Let in now")), nobody, letIn.element) : null,
        app.links.areThere ? linkMaker(app) : null,
        h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", null, "Kept out")), noBlocks, blocks, may ? blockForm(app) : null),
      ),
    ),
    async poll(api) {
      if (hasRules) access = await api.get("/access");
      blocked = (await api.get("/blocks?limit=1000")).items;
    },
    update() {
      blockRows.update(blocked);
      noBlocks.hidden = blocked.length > 0;
      if (access === null) return;
      letIn.update(access.let_in);
      letIn.element.hidden = access.let_in.length === 0;
      nobody.hidden = access.let_in.length > 0;
      const key = JSON.stringify([access.is_open, access.apps]);
      if (key === rulesKey) return;
      rulesKey = key;
      rules.replaceChildren(...(access.is_open ? [openNote()] : [...access.apps].sort(byName).map(appRules)));
    },
    close() {
      letIn.close();
      blockRows.close();
    },
  };
}

/** What holds for all other apps comes after them. */
const byName = (a, b) => Number(a.app === "*") - Number(b.app === "*");

function openNote() {
  return h(
    "section",
    { class: "panel" },
    h("div", { class: "panel-head" }, h("h2", null, "Rules"), h("span", { class: "tag warn" }, "open")),
    h("p", null, "There are no rules: whoever reaches this server may publish and play. ", h("code", null, "[access.live]"), " in the configuration makes some; ", h("code", null, "penstock key make NAME"), " makes a key."),
  );
}

function appRules({ app, publish, play, keys, aliases }) {
  const list = (title, rules) =>
    h(
      "div",
      { class: "rules" },
      h("h3", null, title),
      rules.length === 0
        ? h("p", { class: "quiet" }, "nobody")
        : h("ul", null, rules.map(({ rule, words }) => h("li", null, h("span", { class: "tag" }, rule), " ", words))),
    );
  return h(
    "section",
    { class: "panel", "data-app": app },
    h("div", { class: "panel-head" }, h("h2", null, app === "*" ? "All other apps" : `App ${app}`), h("span", { class: "quiet" }, keys.length === 0 ? "" : `${plural(keys.length, "key")}: ${keys.join(", ")}`)),
    h("div", { class: "grid" }, list("May publish", publish), list("May play", play)),
    aliases.length === 0 ? null : note(aliases.map(({ key, stream }) => `${key} publishes ${stream} and nothing else`).join("; ")),
  );
}

function blockRow(app, block, may) {
  const what = block.address ?? block.subject;
  const until = h("span", { class: "quiet" });
  const lift = h("button", { class: "button small", type: "button", "aria-label": `Let ${what} in again` }, "Let in again");
  lift.addEventListener("click", async () => {
    await attempt(() => app.api.delete(`/blocks/${encodeURIComponent(block.id)}`), `${what} may come again`);
    app.live.now();
  });
  return {
    element: h("li", null, h("strong", null, what), until, may ? lift : null),
    update: ({ ends_at: endsAt }) => setText(until, `until ${day(endsAt)}`),
  };
}

function blockForm(app) {
  const who = h("input", { class: "input", id: "block-who", placeholder: "203.0.113.7", autocomplete: "off", spellcheck: "false", required: true });
  const kind = h("select", { class: "input", "aria-label": "What it is" }, h("option", { value: "address" }, "Address"), h("option", { value: "subject" }, "Subject"));
  const hours = h("select", { class: "input", "aria-label": "For how long" }, [["3600", "for an hour"], ["86400", "for a day"], ["2592000", "for 30 days"]].map(([value, text]) => h("option", { value }, text)));
  const form = h("form", { class: "line-form" }, h("label", { for: "block-who" }, "Keep out"), kind, who, hours, h("button", { class: "button danger", type: "submit" }, "Keep out"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = `What ${who.value} has open ends at once.`;
    if (!(await confirmed({ title: `Keep ${who.value} out?`, text, action: "Keep out" }))) return;
    const isDone = await attempt(() => app.api.post("/blocks", { [kind.value]: who.value.trim(), for_s: Number(hours.value) }), `${who.value} is kept out`);
    if (isDone) who.value = "";
    app.live.now();
  });
  return form;
}
