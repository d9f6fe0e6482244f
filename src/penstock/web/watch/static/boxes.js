// Boxes of a live MP4 (ISO 14496-12, section 4.2) out of the bytes of a network, whatever way they are cut.
//
// Owns where one box ends and the next begins, and what belongs together: ftyp and moov are an init segment, moof and
// mdat a fragment. Gives whole ones only, those that came together as one piece. Refuses boxes that are too large, that
// have no end, and an mdat without its moof.

const HEADER_BYTES = 8;
const LONG_HEADER_BYTES = 16;
const MAX_BOX_BYTES = 32 * 1024 * 1024;

export class MalformedMedia extends Error {}

export class BoxReader {
  #bytes = new Uint8Array(256 * 1024);
  #filled = 0;
  #inFragment = false;
  #scanned = 0;

  /**
   * Takes bytes as they came. Returns what is whole by now, in its order: `{isInit, bytes}`, where `bytes` is an init
   * segment, or one fragment or several.
   */
  push(chunk) {
    this.#take(chunk);
    const pieces = [];
    let begin = 0;
    for (let box = this.#next(); box !== null; box = this.#next()) {
      this.#scanned = box.end;
      if (box.kind === "moof") this.#inFragment = true;
      if (box.kind !== "moov" && box.kind !== "mdat") continue;
      const isInit = box.kind === "moov";
      if (!isInit && !this.#inFragment) throw new MalformedMedia("mdat without moof");
      this.#inFragment = false;
      const last = pieces.at(-1);
      if (isInit || last === undefined || last.isInit) pieces.push({ isInit, begin, end: box.end });
      else last.end = box.end;
      begin = box.end;
    }
    const whole = pieces.map((each) => ({ isInit: each.isInit, bytes: this.#bytes.slice(each.begin, each.end) }));
    this.#bytes.copyWithin(0, begin, this.#filled);
    this.#filled -= begin;
    this.#scanned -= begin;
    return whole;
  }

  #next() {
    const left = this.#filled - this.#scanned;
    if (left < HEADER_BYTES) return null;
    const view = new DataView(this.#bytes.buffer, this.#scanned, left);
    let size = view.getUint32(0);
    if (size === 1) {
      if (left < LONG_HEADER_BYTES) return null;
      size = Number(view.getBigUint64(8));
      if (size < LONG_HEADER_BYTES) throw new MalformedMedia(`box of ${size} bytes`);
    }
    if (size < HEADER_BYTES || size > MAX_BOX_BYTES) throw new MalformedMedia(`box of ${size} bytes`);
    if (size > left) return null;
    return { kind: kindOf(view, 4), end: this.#scanned + size };
  }

  #take(chunk) {
    const needed = this.#filled + chunk.length;
    // A box and what came behind it in one chunk; a fragment is a moof beside its mdat.
    if (needed > 2 * MAX_BOX_BYTES + chunk.length) throw new MalformedMedia("fragment without an end");
    if (needed > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(needed, 2 * this.#bytes.length));
      larger.set(this.#bytes.subarray(0, this.#filled));
      this.#bytes = larger;
    }
    this.#bytes.set(chunk, this.#filled);
    this.#filled = needed;
  }
}

/** The four letters of a box. */
export function kindOf(view, at) {
  return String.fromCharCode(view.getUint8(at), view.getUint8(at + 1), view.getUint8(at + 2), view.getUint8(at + 3));
}
