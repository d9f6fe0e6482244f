// HLS as the browser plays it by itself, where it has no MSE.
//
// Owns what can be known of it: whether there is a stream is asked before, since a <video> tells no reasons; live is by
// the wall clock that the playlist has. Asks again when it ends, and passes over what is left of a stream that is over.

const AGAIN_MS = 3_000;
const TYPE = "application/vnd.apple.mpegurl";
const FETCH = { cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer" };

export class NativeHls {
  #video;
  #address;
  #on;
  #timer = null;
  #hasEnded = false;
  #isClosed = false;

  /**
   * Of `on`, `tell` is called with a state of the player, and `began`, when there is something to play, with the answer
   * that a view begins with.
   */
  constructor(video, address, on) {
    this.#video = video;
    this.#address = address;
    this.#on = on;
    void this.#begin();
  }

  static isSupported(video) {
    return video.canPlayType(TYPE) !== "";
  }

  /** Seconds behind the wall clock, or null where the browser does not tell it. */
  latency() {
    const began_ms = this.#video.getStartDate?.().getTime() ?? Number.NaN;
    return Number.isNaN(began_ms) ? null : Math.max(0, (Date.now() - began_ms) / 1000 - this.#video.currentTime);
  }

  toLive() {
    const { seekable } = this.#video;
    if (seekable.length > 0) this.#video.currentTime = seekable.end(seekable.length - 1);
  }

  /** It was played to its end, or broke. */
  ended() {
    this.#hasEnded = true;
    this.#on.tell("ended");
    this.#again();
  }

  close() {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#video.removeAttribute("src");
    this.#video.load();
  }

  async #begin() {
    const playlist = this.#address.media(".m3u8");
    let answer = null;
    let isOver = false;
    try {
      answer = await fetch(playlist, FETCH);
      isOver = this.#hasEnded && answer.ok && (await namesOver(answer));
    } catch {
      // The server is away.
    }
    const status = answer?.status ?? null;
    if (this.#isClosed) return;
    if (isOver) {
      this.#again();
      return;
    }
    if (status === 200) {
      this.#video.src = playlist;
      this.#on.began(answer);
      return;
    }
    if (status === 401 || status === 403) {
      this.#on.tell("denied");
      return;
    }
    this.#on.tell(status === null ? "unreachable" : status === 404 ? "waiting" : "failed");
    this.#again();
  }

  #again() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#begin(), AGAIN_MS);
  }
}

/** Whether the stream of a multivariant playlist is over: such a one answers for some seconds more. */
async function namesOver(answer) {
  const named = (await answer.text()).split("\n").find((line) => line !== "" && !line.startsWith("#"));
  const media = await fetch(new URL(named ?? "", answer.url), FETCH);
  return (await media.text()).includes("#EXT-X-ENDLIST");
}
