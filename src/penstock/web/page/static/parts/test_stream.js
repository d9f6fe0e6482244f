// One button for a stream of the server's own. Shown where the server can make one.

import { serverNow } from "/page/core/clock.js";
import { h, setText } from "/page/core/dom.js";
import { duration } from "/page/core/format.js";
import { goTo, streamHref } from "/page/core/router.js";
import { attempt, tell } from "/page/parts/toast.js";
import { signIn } from "/page/views/signin.js";

const FOR_S = 600;

export function testStream(app) {
  const isThere = app.features.has("/test-stream", "post");
  const start = h("button", { class: "button primary", type: "button" }, "Start a test stream");
  const end = h("button", { class: "button", type: "button", hidden: true }, "End it");
  const look = h("a", { class: "button primary", hidden: true }, "Watch it");
  const words = h("p", null, "");
  const element = h(
    "section",
    { class: "panel hero", hidden: !isThere },
    h("div", null, h("h2", null, "No encoder at hand?"), words),
    h("div", { class: "page-actions" }, start, look, end),
  );
  let [status, isWanted] = [null, false];
  // Where anybody may publish, whoever reads may start one.
  const may = () => app.session.may(status?.role ?? "operate");

  start.addEventListener("click", async () => {
    if (!may()) {
      signIn(app.session);
      return;
    }
    start.disabled = true;
    isWanted = await attempt(async () => {
      status = await app.api.post("/test-stream", { app: "live", stream: "test", for_s: FOR_S });
    });
    start.disabled = isWanted;
    app.live.now();
  });
  end.addEventListener("click", async () => {
    end.disabled = true;
    await attempt(() => app.api.delete("/test-stream"), "The test stream has ended");
    end.disabled = false;
    app.live.now();
  });

  function draw() {
    const isRunning = status?.state === "running";
    start.hidden = isRunning;
    setText(start, may() ? "Start a test stream" : "Sign in to start one");
    if (!isRunning && !isWanted) start.disabled = false;
    end.hidden = !isRunning || !may();
    look.hidden = !isRunning;
    if (isRunning) {
      look.href = streamHref(status);
      setText(words, `${status.app}/${status.stream} shows a moving picture and a tone. It ends by itself in ${duration((Date.parse(status.ends_at) - serverNow()) / 1000)}.`);
    } else {
      setText(words, "The server publishes a moving picture and a tone to itself for ten minutes: the whole way, as an encoder goes it.");
    }
  }

  return {
    element,
    async poll(api) {
      if (!isThere) return;
      status = await api.get("/test-stream");
      if (!isWanted) return;
      if (status.state !== "running") {
        isWanted = false;
        tell(`The test stream did not last. ${status.words}`, "bad");
        return;
      }
      const { items } = await api.get(`/streams?app=${encodeURIComponent(status.app)}&stream=${encodeURIComponent(status.stream)}`);
      if (items.some((each) => each.video !== null)) {
        isWanted = false;
        goTo("streams", status.app, status.stream);
      }
    },
    update: draw,
  };
}
