// Requests to the API: the token in a header, answers that have not changed asked for by ETag, refusals as errors.

const PREFIX = "/api/v1";
const WITHIN_MS = 10_000;

/** The server said no. */
export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** The server said nothing. */
export class Unreachable extends Error {}

export class Api {
  constructor(session) {
    this.session = session;
    this.known = new Map();
  }

  /** A value. One that did not change is the same object as before. */
  async get(path) {
    const known = this.known.get(path);
    const answer = await this.#ask("GET", path, known === undefined ? {} : { "if-none-match": known.etag });
    if (answer.status === 304) return known.value;
    const value = await answer.json();
    const etag = answer.headers.get("etag");
    if (etag !== null) this.known.set(path, { etag, value });
    if (this.known.size > 40) this.known.delete(this.known.keys().next().value);
    return value;
  }

  /** All items of a list, page by page. */
  async all(path, most = 5000) {
    const items = [];
    let cursor = null;
    do {
      const more = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const page = await this.get(`${path}${path.includes("?") ? "&" : "?"}limit=1000${more}`);
      items.push(...page.items);
      cursor = page.next_cursor;
    } while (cursor !== null && items.length < most);
    return items;
  }

  async put(path, body) {
    return this.#value(await this.#ask("PUT", path, {}, body));
  }

  async post(path, body) {
    return this.#value(await this.#ask("POST", path, {}, body));
  }

  async delete(path) {
    return this.#value(await this.#ask("DELETE", path));
  }

  /** The answer itself, for streams and files. */
  async open(path, { signal, headers } = {}) {
    return this.#ask("GET", path, headers ?? {}, undefined, signal);
  }

  async #value(answer) {
    return answer.status === 204 ? null : answer.json();
  }

  async #ask(method, path, headers, body, signal = AbortSignal.timeout(WITHIN_MS)) {
    const { token } = this.session;
    const told = { ...headers };
    if (token !== null) told.authorization = `Bearer ${token}`;
    const isText = typeof body === "string";
    if (body !== undefined) told["content-type"] = isText ? "application/toml" : "application/json";
    let answer;
    try {
      answer = await fetch(PREFIX + path, {
        method,
        headers: told,
        body: body === undefined || isText ? body : JSON.stringify(body),
        signal,
        credentials: "omit",
        cache: "no-store",
      });
    } catch (error) {
      throw new Unreachable(error.message);
    }
    if (answer.ok || answer.status === 304) return answer;
    const problem = await answer.json().catch(() => ({}));
    // Of a token that was not sent any more, the answer says nothing about the one that is.
    if (token === this.session.token) this.#onRefusal(method, answer.status, problem.detail);
    throw new Refused(answer.status, problem.detail ?? `${answer.status} ${answer.statusText}`);
  }

  #onRefusal(method, status, detail) {
    const { session } = this;
    if (status === 403 && session.isSignedIn && detail === "This token is not known here.") {
      session.signOut("That token is not known here, or not any more.");
    } else if (status === 401 && method === "GET") {
      session.signOut("This server asks for a token.");
    }
  }
}
