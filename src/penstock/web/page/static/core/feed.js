// Events as they happen, by fetch, since EventSource sends no token. Finds its place again after a break.

import { Refused } from "/page/core/api.js";

const AGAIN_MS = 2000;

/** Call `onEvent({id, kind, data})` until the signal says stop. `onReset` after a gap, `onState(isOpen)`. */
export async function follow(api, query, { signal, since = null, onEvent, onReset, onState, onPlace }) {
  let last = since;
  while (!signal.aborted) {
    try {
      const answer = await api.open(`/events?${query}`, { signal, headers: last === null ? {} : { "last-event-id": last } });
      onState?.(true);
      for await (const event of events(answer.body)) {
        last = event.id ?? last;
        if (event.kind === "reset") onReset?.();
        else if (event.kind === null) onPlace?.(last);
        else onEvent({ id: event.id, kind: event.kind, data: JSON.parse(event.data) });
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.status !== 503) {
        onState?.(false);
        return;
      }
    }
    onState?.(false);
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

/** The text/event-stream of the HTML standard, as far as this server uses it. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const event = { id: null, kind: null, data: "" };
      for (const line of block.split("\n")) {
        if (line.startsWith("id: ")) event.id = line.slice(4);
        else if (line.startsWith("event: ")) event.kind = line.slice(7);
        else if (line.startsWith("data: ")) event.data += line.slice(6);
      }
      if (event.id !== null || event.kind !== null) yield event;
    }
  }
}
