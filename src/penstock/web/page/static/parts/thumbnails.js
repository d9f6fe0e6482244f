// Pictures of live streams, asked for again while they are in view and the page is looked at.

import { serverNow } from "/page/core/clock.js";
import { h } from "/page/core/dom.js";
import { icon } from "/page/core/icons.js";

const EVERY_MS = 5000;
const AGAIN_MS = 15_000;
/** A stream that has just begun has no picture yet. */
const YOUNG_MS = 4000;

export class Thumbnails {
  constructor(links) {
    this.links = links;
  }

  /** A place for the picture of a stream: `show(stream)` says of which, `see(isIn)` whether it is in view. */
  picture() {
    const none = h("div", { class: "thumb-none" }, icon("streams"));
    const image = h("img", { alt: "", hidden: true });
    const element = h("div", { class: "thumb" }, none, image);
    let [stream, address, isSeen, dueAt, isAsked] = [null, null, false, 0, false];

    const drop = () => {
      if (address !== null) URL.revokeObjectURL(address);
      address = null;
    };

    const ask = async () => {
      isAsked = true;
      try {
        const { paths } = await this.links.ofStream(stream);
        if (paths.thumbnail === undefined) return;
        const path = `${paths.thumbnail}${paths.thumbnail.includes("?") ? "&" : "?"}w=320`;
        const answer = await fetch(path, { credentials: "omit", cache: "no-cache" });
        dueAt = Date.now() + (answer.ok ? EVERY_MS : AGAIN_MS);
        if (!answer.ok) return;
        const blob = await answer.blob();
        if (!isSeen) return;
        const before = address;
        address = URL.createObjectURL(blob);
        image.src = address;
        await image.decode();
        image.hidden = false;
        if (before !== null) URL.revokeObjectURL(before);
      } catch {
        dueAt = Date.now() + AGAIN_MS;
      } finally {
        isAsked = false;
      }
    };

    return {
      element,
      show: (now) => {
        stream = now;
        const isThere = now.state === "live" && now.video !== null && serverNow() - Date.parse(now.started_at) > YOUNG_MS;
        if (isThere && isSeen && !isAsked && Date.now() >= dueAt && this.links.areThere) ask();
      },
      see: (isIn) => {
        isSeen = isIn;
        if (isIn) return;
        image.hidden = true;
        image.removeAttribute("src");
        dueAt = 0;
        drop();
      },
    };
  }
}
