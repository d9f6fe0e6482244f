// A MediaSource and its one SourceBuffer, whose operations wait for each other.
//
// Owns the queue of what is to be appended and removed, the bound on both, and the change from one codec to another.
// What is behind the picture is removed; what is ahead is bounded by whoever appends, who is told that there is too
// much. Knows no network and no clock.

const KEEP_BEHIND_S = 8;
const TRIM_BEHIND_S = 16;
const MAX_QUEUED_BYTES = 48 * 1024 * 1024;

/** The class of this browser, or null: Safari on phones has ManagedMediaSource alone, old ones have neither. */
export function mediaSourceClass() {
  return globalThis.ManagedMediaSource ?? globalThis.MediaSource ?? null;
}

export class MediaBuffer {
  #video;
  #onError;
  #source;
  #address;
  #buffer = null;
  #type = null;
  #queue = [];
  #queuedBytes = 0;
  #isClosed = false;

  /** `onError` is told of what ends this buffer; there has to be another one then. */
  constructor(video, onError) {
    this.#video = video;
    this.#onError = onError;
    const kind = mediaSourceClass();
    this.#source = new kind();
    this.#source.addEventListener("sourceopen", () => this.#work(), { once: true });
    // A managed one is refused as long as the picture could go to another screen, which needs an address.
    video.disableRemotePlayback = true;
    this.#address = URL.createObjectURL(this.#source);
    video.src = this.#address;
  }

  /** Whether a type can be played here at all. */
  static supports(type) {
    return mediaSourceClass().isTypeSupported(type);
  }

  /** Takes an init segment, whose codecs may be others than before. */
  init(type, bytes) {
    this.#put({ type, bytes });
  }

  /** Takes fragments; `done` is called when they are in. Returns whether there was room. */
  append(bytes, done) {
    if (this.#queuedBytes + bytes.length > MAX_QUEUED_BYTES) return false;
    this.#put({ bytes, done });
    return true;
  }

  /** Forgets all that is in: what follows begins anew, maybe at an earlier time. */
  clear() {
    this.#queue = [];
    this.#queuedBytes = 0;
    this.#put({ isClear: true });
  }

  /** The range in which the picture can go on, as `{start, end}` in seconds, or the next one, or null. */
  rangeAt(time_s) {
    const ranges = this.#ranges();
    const here = ranges.find(({ start, end }) => start - 0.05 <= time_s && time_s < end);
    return here ?? ranges.find(({ start }) => start > time_s) ?? null;
  }

  /** The range that ends last, or null. */
  lastRange() {
    return this.#ranges().at(-1) ?? null;
  }

  close() {
    this.#isClosed = true;
    this.#queue = [];
    URL.revokeObjectURL(this.#address);
    if (this.#video.src === this.#address) {
      this.#video.removeAttribute("src");
      this.#video.load();
    }
  }

  #ranges() {
    const ranges = [];
    if (this.#buffer === null || this.#source.readyState === "closed") return ranges;
    const { buffered } = this.#buffer;
    for (let at = 0; at < buffered.length; at += 1) ranges.push({ start: buffered.start(at), end: buffered.end(at) });
    return ranges;
  }

  #put(operation) {
    if (this.#isClosed) return;
    this.#queue.push(operation);
    this.#queuedBytes += operation.bytes?.length ?? 0;
    this.#work();
  }

  #work() {
    if (this.#isClosed || this.#source.readyState !== "open" || this.#buffer?.updating) return;
    try {
      while (this.#queue.length > 0 && !this.#buffer?.updating) {
        if (this.#trims()) return;
        const operation = this.#queue.shift();
        this.#queuedBytes -= operation.bytes?.length ?? 0;
        this.#do(operation);
      }
    } catch (error) {
      // Most of all QuotaExceededError: the browser keeps no more than it wants.
      this.#onError(error);
    }
  }

  #do(operation) {
    if (operation.isClear) {
      if (this.#buffer === null) return;
      this.#buffer.abort();
      if (this.#buffer.buffered.length > 0) this.#buffer.remove(0, Infinity);
      return;
    }
    if (operation.type !== undefined) this.#prepare(operation.type);
    if (operation.done !== undefined) this.#buffer.addEventListener("updateend", operation.done, { once: true });
    this.#buffer.appendBuffer(operation.bytes);
  }

  #prepare(type) {
    if (this.#buffer === null) {
      this.#buffer = this.#source.addSourceBuffer(type);
      this.#buffer.addEventListener("updateend", () => this.#work());
    } else if (this.#type !== type) {
      this.#buffer.changeType(type);
    }
    this.#type = type;
  }

  #trims() {
    const [first] = this.#ranges();
    const now_s = this.#video.currentTime;
    if (first === undefined || this.#video.seeking || now_s - first.start < TRIM_BEHIND_S) return false;
    this.#buffer.remove(0, now_s - KEEP_BEHIND_S);
    return true;
  }
}
