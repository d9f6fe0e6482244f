// What viewers are told, in words.
//
// Owns the sentences. Names of streams are not in them: who shows one puts it in as text.

const SENTENCES = {
  idle: "",
  connecting: "Connecting",
  waiting: "This stream is not live now. It begins here as soon as it is.",
  playing: "",
  buffering: "Waiting for more of the stream",
  paused: "Paused",
  ended: "The stream has stopped. It goes on here as soon as it is back.",
  unreachable: "The server does not answer. Trying again.",
  busy: "The server takes no more viewers now. Trying again.",
  failed: "This stream cannot be played. Trying again.",
  denied: "You may not watch this stream. The link may have expired, or lacks a key.",
  blocked: "This browser wants a click before it plays.",
  unsupported: "This browser cannot play this stream",
};

export function sentence(state) {
  return SENTENCES[state] ?? "";
}

/** Of codecs that a browser cannot decode: "This browser cannot play HEVC". */
export function cannotPlay(names) {
  return names.length === 0 ? SENTENCES.unsupported : `This browser cannot play ${names.join(" and ")}`;
}

/** Of a stream that plays without: "No sound: this browser cannot play MP3". */
export function withoutSound(names) {
  return `No sound: this browser cannot play ${names.join(" and ")}`;
}

/** A rate of bits as people read it: "2.4 Mbit/s". */
export function bitrate(bps) {
  if (bps === null) return "–";
  return bps >= 1e6 ? `${(bps / 1e6).toFixed(1)} Mbit/s` : `${Math.round(bps / 1e3)} kbit/s`;
}

/** A short time: "340 ms", "2.1 s". */
export function duration(seconds) {
  if (seconds === null) return "–";
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
}
