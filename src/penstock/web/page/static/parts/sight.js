// What is in view, or nearly: one observer for all that ask.

export class Sight {
  constructor(margin = "200px") {
    this.told = new Map();
    this.observer = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) this.told.get(entry.target)?.(entry.isIntersecting);
      },
      { rootMargin: margin },
    );
  }

  /** Call `tell(isIn)` whenever it changes. Returns how to stop. */
  watch(element, tell) {
    this.told.set(element, tell);
    this.observer.observe(element);
    return () => {
      this.observer.unobserve(element);
      this.told.delete(element);
    };
  }

  close() {
    this.observer.disconnect();
    this.told.clear();
  }
}
