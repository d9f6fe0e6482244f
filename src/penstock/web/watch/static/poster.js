// The newest thumbnail of a stream, shown until there is a picture.
//
// Owns how it is fetched: without cookies and passwords of the browser's own, which an <img> would send and ask for.

const WITHIN_MS = 3_000;

export class Poster {
  #video;
  #shown = null;
  #loading = null;

  constructor(video) {
    this.#video = video;
  }

  /** Shows the picture at an address as soon as it is there; without one, nothing. */
  async show(address) {
    if (this.#loading !== null) return;
    this.#loading = new AbortController();
    const { signal } = this.#loading;
    try {
      const answer = await fetch(address, {
        credentials: "omit",
        referrerPolicy: "no-referrer",
        signal: AbortSignal.any?.([signal, AbortSignal.timeout(WITHIN_MS)]) ?? signal,
      });
      const picture = answer.ok ? await answer.blob() : null;
      if (picture === null || signal.aborted) return;
      this.#shown = URL.createObjectURL(picture);
      this.#video.poster = this.#shown;
    } catch {
      // A stream can be watched without.
    }
  }

  /** Takes it away. */
  close() {
    this.#loading?.abort();
    this.#loading = null;
    if (this.#shown === null) return;
    URL.revokeObjectURL(this.#shown);
    this.#shown = null;
    this.#video.removeAttribute("poster");
  }
}
