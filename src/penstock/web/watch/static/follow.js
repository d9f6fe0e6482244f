// One stream's live MP4 by HTTP, fetched again whenever it ends.
//
// Owns when to ask: at once after a stream that ran, ever more rarely while the server does not answer, held by the
// server (`wait_s`) while there is no stream. What came is handed on as it came. Refuses to ask again where the answer
// is that this viewer may not watch.

const WAIT_S = 30;
const HEADERS_WITHIN_MS = 15_000;
const SILENT_MS = 15_000;
const LASTED_MS = 5_000;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 8_000;
const LONGEST_RETRY_AFTER_S = 30;

/** What an attempt came to. */
export const Outcome = Object.freeze({
  ENDED: "ended",
  ABSENT: "absent",
  DENIED: "denied",
  BUSY: "busy",
  UNREACHABLE: "unreachable",
  FAILED: "failed",
});

/**
 * Follows a stream until `signal` says so, or access is denied.
 *
 * `address` is a StreamAddress. Of `on`, `began(response)` is called for a stream that is there, `bytes(chunk)` for all
 * that comes, and `outcome({kind, status, retriesIn_ms})` when an attempt is over; what `began` or `bytes` throw ends
 * the attempt as `failed`, with `error`.
 */
export async function follow(address, on, signal) {
  let failures = 0;
  let waits = false;
  while (!signal.aborted) {
    const asked_ms = performance.now();
    const result = await attempt(address, waits, on, signal);
    if (signal.aborted) return;
    const lasted_ms = performance.now() - asked_ms;
    failures = lasted_ms > LASTED_MS && result.kind === Outcome.ENDED ? 0 : failures + 1;
    let pause_ms = pauseAfter(result, failures);
    if (result.kind === Outcome.ABSENT) {
      // Asked to wait, the server has waited already; one that does not wait is asked as often as it says.
      pause_ms = waits && lasted_ms < 1000 ? pause_ms : 0;
      waits = true;
      failures = 0;
    } else if (result.kind === Outcome.ENDED) {
      waits = false;
    }
    on.outcome({ ...result, retriesIn_ms: pause_ms });
    if (result.kind === Outcome.DENIED) return;
    await passed(pause_ms, signal);
  }
}

async function attempt(address, waits, on, signal) {
  const gone = new AbortController();
  const end = () => gone.abort();
  signal.addEventListener("abort", end);
  const watch = new Watch(end);
  try {
    watch.reset(HEADERS_WITHIN_MS + (waits ? WAIT_S * 1000 : 0));
    let response;
    try {
      response = await fetch(address.media(".mp4", waits ? { wait_s: WAIT_S } : {}), {
        cache: "no-store",
        credentials: "omit",
        referrerPolicy: "no-referrer",
        signal: gone.signal,
      });
    } catch {
      return { kind: Outcome.UNREACHABLE };
    }
    if (!response.ok) {
      gone.abort();
      return refusal(response);
    }
    on.began(response);
    return await body(response, on, watch);
  } catch (error) {
    return { kind: Outcome.FAILED, error };
  } finally {
    watch.stop();
    gone.abort();
    signal.removeEventListener("abort", end);
  }
}

async function body(response, on, watch) {
  const reader = response.body.getReader();
  for (;;) {
    watch.reset(SILENT_MS);
    let piece;
    try {
      piece = await reader.read();
    } catch {
      // A body without a length ends however the connection does.
      return { kind: Outcome.ENDED };
    }
    if (piece.done) return { kind: Outcome.ENDED };
    on.bytes(piece.value);
  }
}

function refusal(response) {
  const { status } = response;
  const told = Number.parseInt(response.headers.get("retry-after") ?? "", 10);
  const retryAfter_ms = Number.isNaN(told) ? null : Math.min(Math.max(told, 1), LONGEST_RETRY_AFTER_S) * 1000;
  if (status === 404) return { kind: Outcome.ABSENT, status, retryAfter_ms: retryAfter_ms ?? 2000 };
  if (status === 401 || status === 403) return { kind: Outcome.DENIED, status };
  if (status === 429 || status === 503) return { kind: Outcome.BUSY, status, retryAfter_ms };
  return { kind: Outcome.FAILED, status, retryAfter_ms };
}

function pauseAfter(result, failures) {
  if (result.kind === Outcome.DENIED) return 0;
  const doubled_ms = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.max(0, failures - 1));
  // Not all viewers of a server that comes back at the same moment.
  const spread_ms = doubled_ms * (0.75 + Math.random() / 2);
  if (result.kind === Outcome.ENDED && failures === 0) return 0;
  return Math.max(result.retryAfter_ms ?? 0, spread_ms);
}

function passed(pause_ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(finish, pause_ms);
    function finish() {
      clearTimeout(timer);
      signal.removeEventListener("abort", finish);
      resolve();
    }
    signal.addEventListener("abort", finish);
  });
}

/** Calls somebody when nothing was heard for so long. */
class Watch {
  #timer = null;
  #onSilence;

  constructor(onSilence) {
    this.#onSilence = onSilence;
  }

  reset(silence_ms) {
    this.stop();
    this.#timer = setTimeout(this.#onSilence, silence_ms);
  }

  stop() {
    clearTimeout(this.#timer);
  }
}
