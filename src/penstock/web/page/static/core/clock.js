// The server's clock: how long something has gone on is told by the clock that its beginning was told by.

/** Answers tell whole seconds. */
const COARSE_MS = 2000;
let aheadMs = 0;

/** What an answer of the server said in its header Date. */
export function heardAt(date) {
  const ahead = Date.parse(date) - Date.now();
  if (!Number.isNaN(ahead) && Math.abs(ahead - aheadMs) > COARSE_MS) aheadMs = Math.abs(ahead) > COARSE_MS ? ahead : 0;
}

/** Now, in ms since 1970, as the server has it. */
export const serverNow = () => Date.now() + aheadMs;
