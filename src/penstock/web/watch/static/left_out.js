// Tracks that a browser cannot play, taken out of a stream so that it plays the others.
//
// Owns how: boxes of such a track are renamed to `free` where they stand, which readers pass over. Nothing moves, so no
// offset changes; the track's bytes in mdat belong to nobody then. Needs what `codecs.js` reads.

import { children, trackIdOf } from "./codecs.js";

const FREE = [0x66, 0x72, 0x65, 0x65];

export class LeftOut {
  #ids;

  /** `tracks` as `readInit` tells them. */
  constructor(tracks) {
    this.#ids = new Set(tracks.map(({ id }) => id));
  }

  /** An init segment without them, in its place. */
  init(bytes) {
    for (const moov of inside(bytes, "moov")) {
      for (const { kind, view } of children(moov)) {
        if (kind === "trak") this.#free(view, trackIdOf(view));
        if (kind !== "mvex") continue;
        for (const box of children(view)) if (box.kind === "trex") this.#free(box.view, box.view.getUint32(4));
      }
    }
  }

  /** The same for fragments. */
  media(bytes) {
    for (const moof of inside(bytes, "moof")) {
      for (const { kind, view } of children(moof)) {
        const header = kind === "traf" ? children(view).find((box) => box.kind === "tfhd") : undefined;
        if (header !== undefined) this.#free(view, header.view.getUint32(4));
      }
    }
  }

  #free(view, id) {
    if (this.#ids.has(id)) new Uint8Array(view.buffer).set(FREE, view.byteOffset - 4);
  }
}

function inside(bytes, kind) {
  const all = children(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  return all.filter((box) => box.kind === kind).map(({ view }) => view);
}
