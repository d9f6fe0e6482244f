// How fast a counter grows. Workers tell theirs every second or two, so it is looked at over some seconds.

const WINDOW_MS = 8000;
const LEAST_MS = 2500;

export class Rate {
  #samples = [];

  /** A new value of the counter; what it grows by in a second, or null while that is not known. */
  add(value, at = performance.now()) {
    if (value === null || value === undefined) return null;
    // Another life of the process counts from 0 again.
    if (this.#samples.length > 0 && value < this.#samples.at(-1).value) this.#samples = [];
    this.#samples.push({ at, value });
    while (at - this.#samples[0].at > WINDOW_MS) this.#samples.shift();
    const [first] = this.#samples;
    return at - first.at < LEAST_MS ? null : (value - first.value) / ((at - first.at) / 1000);
  }
}
