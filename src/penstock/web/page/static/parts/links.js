// Links that the server makes for this page: to play and to show pictures without a token in an address. Each is for
// five minutes, and asked for anew before that is over.

const FOR_S = 300;
const SPARE_MS = 45_000;

export class Links {
  constructor(api, features, session, live) {
    this.api = api;
    this.features = features;
    this.live = live;
    this.kept = new Map();
    session.listeners.add(() => this.kept.clear());
  }

  get areThere() {
    return this.features.has("/links", "post");
  }

  ofStream({ app, stream }) {
    return this.#link(JSON.stringify([app, stream]), { app, stream, for_s: FOR_S });
  }

  /** One that has all of its time before it: what plays by a link ends when that is over. */
  newOfStream({ app, stream }) {
    this.kept.delete(JSON.stringify([app, stream]));
    return this.ofStream({ app, stream });
  }

  ofRecording(recording) {
    return this.#link(recording, { recording, for_s: FOR_S });
  }

  /** What the server answered, and until when it is fit for use. */
  async #link(key, order) {
    const kept = this.kept.get(key);
    // A server that was started again knows none of those that it made before.
    const life = this.live.server?.life_id;
    if (kept !== undefined && kept.until > Date.now() && kept.life === life) return kept.link;
    const link = this.api.post("/links", order);
    // By this machine's clock, which may not be the server's.
    this.kept.set(key, { link, life, until: Date.now() + FOR_S * 1000 - SPARE_MS });
    link.catch(() => this.kept.delete(key));
    return link;
  }

  /** How long what plays by a link may go on before it is to be renewed. */
  static get renewAfterMs() {
    return FOR_S * 1000 - SPARE_MS;
  }
}
