// Addresses of a stream: its media, and what of a page's address is for them.
//
// Owns which credentials go where: all that a page's query has, but for the page's own settings and what media take,
// is repeated in addresses of media, and in nothing else.

const OWN = new Set(["embed", "muted", "target_ms"]);
const OF_MEDIA = new Set(["wait_s", "w", "ll"]);

/** What of a query (text, or URLSearchParams) is for the server to decide who may watch; as it was written. */
export function credentialsOf(query) {
  const isKept = (pair) => {
    const [name] = pair.split("=", 1);
    return name !== "" && !OWN.has(name) && !OF_MEDIA.has(name) && !name.startsWith("_HLS_");
  };
  return String(query).replace(/^\?/, "").split("&").filter(isKept).join("&");
}

export class StreamAddress {
  #base;
  #credentials;

  /** `address` is a stream's, without a suffix: `/live/main`, or with a host. */
  constructor(address, credentials = "") {
    const url = new URL(address, document.baseURI);
    this.#credentials = credentialsOf([String(credentials).replace(/^\?/, ""), url.search.slice(1)].join("&"));
    url.search = "";
    url.hash = "";
    this.#base = url.href;
  }

  /** The watch page, without credentials. */
  get page() {
    return this.#base;
  }

  /** Where the server is. */
  get origin() {
    return new URL(this.#base).origin;
  }

  /** App and stream as text. */
  get names() {
    const [app = "", stream = ""] = new URL(this.#base).pathname.split("/").slice(-2).map(decoded);
    return { app, stream };
  }

  /** An address of media, such as that of ".mp4", with credentials and what else is asked. */
  media(suffix, more = {}) {
    const pairs = Object.entries(more).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
    const query = [this.#credentials, ...pairs].filter((part) => part !== "").join("&");
    return `${this.#base}${suffix}${query === "" ? "" : `?${query}`}`;
  }

  /** The same as anybody may see it. */
  open(suffix) {
    return `${this.#base}${suffix}`;
  }
}

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    // Not UTF-8: shown as it is written.
    return segment;
  }
}
