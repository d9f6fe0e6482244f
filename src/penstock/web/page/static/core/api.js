// Requests to the API: the token in a header, answers that have not changed asked for by ETag, refusals as errors.

import { heardAt } from "/page/core/clock.js";

const PREFIX = "/api/v1";
const WITHIN_MS = 10_000;
const NO_ANSWER = "The server does not answer.";

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
    const value = await whole(answer);
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
    return answer.status === 204 ? null : whole(answer);
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
    } catch {
      throw new Unreachable(NO_ANSWER);
    }
    heardAt(answer.headers.get("date"));
    if (answer.ok || answer.status === 304) return answer;
    const problem = await answer.json().catch(() => ({}));
    // Of a token that was not sent any more, the answer says nothing about the one that is.
    if (token === this.session.token) this.#onRefusal(method, answer.status, problem.detail);
    throw new Refused(answer.status, faults(problem.errors, body) || problem.detail || `The server answers ${answer.status}.`);
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

/** What an answer says. One that was cut off says nothing. */
async function whole(answer) {
  try {
    return await answer.json();
  } catch {
    throw new Unreachable(NO_ANSWER);
  }
}

/** What is wrong with what was sent, field by field. Where there are several forms of it, each complains of the others'. */
function faults(errors, body) {
  const found = new Map();
  for (const { location, message } of errors ?? []) {
    const field = location.split(".").at(-1);
    if (body?.[field] === undefined || found.has(field) || message.startsWith("Extra inputs")) continue;
    const words = message.startsWith("String should match") ? "is not written as it should be" : message.replace(/^(Value error, |Input |String )/, "");
    found.set(field, `${field} ${words}`);
  }
  return found.size === 0 ? "" : `Not taken: ${[...found.values()].join("; ")}.`;
}
