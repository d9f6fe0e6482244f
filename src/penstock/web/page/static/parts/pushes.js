// Where a stream is sent on to, and how that goes. Shown where the server can push.

import { h, setText } from "/page/core/dom.js";
import { bytes, count, milliseconds, plural } from "/page/core/format.js";
import { confirmed } from "/page/parts/dialog.js";
import { table, twoLines } from "/page/parts/table.js";
import { attempt, tell } from "/page/parts/toast.js";

const KINDS = { live: "ok", connecting: "warn", retrying: "warn", stopped: "bad" };

export function pushTargets(app, names) {
  const isThere = app.features.has("/pushes");
  const mayChange = app.session.may("admin") && app.features.has("/pushes", "post");
  const none = h("p", { class: "quiet" }, "This stream is sent nowhere else.");
  const columns = [
    { title: "Target", kind: "wrap", cell: twoLines((each) => each.name, (each) => each.address) },
    { title: "State", cell: stateCell },
    { title: "Sent", kind: "number", text: ({ session }) => bytes(session?.sent_bytes) },
    { title: "Behind", kind: "number", text: ({ session }) => milliseconds(session?.lag_ms) },
    { title: "Skips", kind: "number", text: ({ session }) => count(session?.skips) },
  ];
  if (mayChange) columns.push({ title: "", label: "Orders", kind: "actions", cell: (each) => removal(app, each) });
  const list = table({ label: "Push targets", keyOf: (each) => each.name, columns });
  const element = h(
    "section",
    { class: "panel", hidden: !isThere },
    h("div", { class: "panel-head" }, h("h2", null, "Sent on to")),
    none,
    mayChange ? addition(app, names) : null,
    list.element,
  );
  let targets = [];

  return {
    element,
    async poll(api) {
      if (!isThere) return;
      const { items } = await api.get("/pushes?limit=1000");
      targets = items
        .map((each) => ({ ...each, session: each.sessions.find((session) => session.app === names.app && session.stream === names.stream) ?? null }))
        .filter((each) => each.session !== null || each.streams.some((pattern) => isLike(`${names.app}/${names.stream}`, pattern)));
    },
    update() {
      list.update(targets);
      list.element.hidden = targets.length === 0;
      none.hidden = targets.length > 0;
    },
    close: () => list.close(),
  };
}

/** Patterns as shells have them, of stars and question marks. */
function isLike(name, pattern) {
  const source = pattern.replace(/[.+^${}()|\\[\]]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".");
  return new RegExp(`^${source}$`, "s").test(name);
}

function stateCell() {
  const [tag, words] = [h("span", { class: "tag" }), h("span", { class: "sub" })];
  return {
    element: h("span", null, tag, words),
    update({ session }) {
      tag.className = `tag ${KINDS[session?.state] ?? ""}`;
      setText(tag, session?.state ?? "idle");
      const tries = session !== null && session.attempts > 1 ? plural(session.attempts, "attempt") : null;
      setText(words, [session?.last_error, tries].filter(Boolean).join(", "));
    },
  };
}

function removal(app, each) {
  if (each.origin !== "api") return { element: h("span", { class: "quiet" }, "by the configuration") };
  const element = h("button", { class: "button small danger", type: "button", "aria-label": `Remove ${each.name}` }, "Remove");
  element.addEventListener("click", async () => {
    const text = `Nothing is sent to ${each.address} any more.`;
    if (!(await confirmed({ title: `Remove ${each.name}?`, text, action: "Remove" }))) return;
    await attempt(() => app.api.delete(`/pushes/${encodeURIComponent(each.name)}`), `${each.name} is removed`);
    app.live.now();
  });
  return { element };
}

function addition(app, names) {
  const name = h("input", { class: "input short", id: "push-name", placeholder: "backup", required: true, autocomplete: "off", spellcheck: "false", pattern: "[A-Za-z0-9_\\-]{1,64}", title: "Letters, digits, - and _" });
  const url = h("input", { class: "input", id: "push-url", placeholder: "rtmp://backup.example/live/{stream}", required: true, autocomplete: "off", spellcheck: "false", pattern: "rtmps?://.+/.+", title: "rtmp://HOST/APP/{stream}, or rtmp://HOST/APP and a key" });
  const key = h("input", { class: "input short", id: "push-key", type: "password", autocomplete: "off", placeholder: "if it asks for one" });
  const form = h(
    "form",
    { class: "line-form add-push" },
    h("span", { class: "field" }, h("label", { for: "push-name" }, "Name"), name),
    h("span", { class: "field wide" }, h("label", { for: "push-url" }, "Address"), url),
    h("span", { class: "field" }, h("label", { for: "push-key" }, "Key"), key),
    h("button", { class: "button", type: "submit" }, "Send it there too"),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (key.value !== "" && url.value.includes("{stream}") && !url.value.includes("{key}")) {
      tell("A key goes in the place of {stream}: leave that out of the address.", "bad");
      return;
    }
    const order = { name: name.value, streams: [`${names.app}/${names.stream}`], url: url.value, ...(key.value === "" ? {} : { key: key.value }) };
    const isDone = await attempt(() => app.api.post("/pushes", order), `The stream is sent to ${name.value} too`);
    if (isDone) form.reset();
    app.live.now();
  });
  return form;
}
