// What is in an init segment: its tracks, and their names for `MediaSource.isTypeSupported` (RFC 6381).
//
// Owns the forms that codecs define for themselves: ISO 14496-15 annex E (avcC, hvcC), AV1 in ISOBMFF (av1C), VP Codec
// ISO Media File Format Binding (vpcC), ISO 14496-1 (esds). Reads nothing outside of the box it is in; refuses more
// tracks than anybody has.

import { MalformedMedia, kindOf } from "./boxes.js";

const MAX_TRACKS = 16;
const MAX_BOXES = 256;
const VISUAL_ENTRY_BYTES = 86;
const AUDIO_ENTRY_BYTES = 36;

const VIDEO = {
  avc1: ["H.264", "avcC", avc],
  avc3: ["H.264", "avcC", avc],
  hvc1: ["HEVC", "hvcC", hevc],
  hev1: ["HEVC", "hvcC", hevc],
  av01: ["AV1", "av1C", av1],
  vp08: ["VP8", "vpcC", vpx],
  vp09: ["VP9", "vpcC", vpx],
};
const AUDIO = {
  mp4a: ["AAC", "esds", mpeg4Audio],
  Opus: ["Opus", "dOps", () => "opus"],
  fLaC: ["FLAC", "dfLa", () => "flac"],
  "ac-3": ["AC-3", "dac3", () => "ac-3"],
  "ec-3": ["E-AC-3", "dec3", () => "ec-3"],
};

/** Reads ftyp and moov: `{id, isVideo, codec, name}` of each track, as in `{1, true, "avc1.64001f", "H.264"}`. */
export function readInit(bytes) {
  try {
    const moov = child(whole(bytes), "moov");
    return children(moov).filter(({ kind }) => kind === "trak").slice(0, MAX_TRACKS).map(({ view }) => trackOf(view));
  } catch (error) {
    // A DataView refuses what is behind its end.
    throw error instanceof RangeError ? new MalformedMedia("init segment cut short") : error;
  }
}

/** The type for a SourceBuffer of these tracks. */
export function typeOf(tracks) {
  const kind = tracks.some(({ isVideo }) => isVideo) ? "video" : "audio";
  return `${kind}/mp4; codecs="${tracks.map(({ codec }) => codec).join(",")}"`;
}

function trackOf(trak) {
  const table = ["mdia", "minf", "stbl", "stsd"].reduce(child, trak);
  // Version, flags and the number of entries.
  const [entry] = children(part(table, 8));
  if (entry === undefined) throw new MalformedMedia("track without a codec");
  const isVideo = entry.kind in VIDEO;
  const known = VIDEO[entry.kind] ?? AUDIO[entry.kind];
  const id = trackIdOf(trak);
  if (known === undefined) return { id, isVideo: isPicture(trak), codec: entry.kind.trim(), name: entry.kind.trim() };
  const [name, box, codecOf] = known;
  const header = isVideo ? VISUAL_ENTRY_BYTES : AUDIO_ENTRY_BYTES;
  const codec = codecOf(child(part(entry.view, header - 8), box), entry.kind);
  return { id, isVideo, codec, name: codec.startsWith("mp4a.6") ? "MP3" : name };
}

/** The number of a track, by the content of its trak. */
export function trackIdOf(trak) {
  const header = child(trak, "tkhd");
  return header.getUint32(header.getUint8(0) === 1 ? 20 : 12);
}

/** By its handler. */
function isPicture(trak) {
  const handler = child(child(trak, "mdia"), "hdlr");
  return kindOf(handler, 8) === "vide";
}

function avc(view, kind) {
  return `${kind}.${hex(view.getUint8(1))}${hex(view.getUint8(2))}${hex(view.getUint8(3))}`;
}

function hevc(view, kind) {
  const profile = view.getUint8(1);
  // Sent with the flag of profile 0 first, named with it last.
  let compatibility = 0;
  for (let bit = 0; bit < 32; bit += 1) compatibility += ((view.getUint32(2) >>> (31 - bit)) & 1) * 2 ** bit;
  const constraints = [6, 7, 8, 9, 10, 11].map((at) => view.getUint8(at));
  while (constraints.at(-1) === 0) constraints.pop();
  return [
    kind,
    `${["", "A", "B", "C"][profile >> 6]}${profile & 0x1f}`,
    compatibility.toString(16).toUpperCase(),
    `${profile & 0x20 ? "H" : "L"}${view.getUint8(12)}`,
    ...constraints.map((byte) => byte.toString(16).toUpperCase()),
  ].join(".");
}

function av1(view) {
  const levels = view.getUint8(1);
  const flags = view.getUint8(2);
  const depth = !(flags & 0x40) ? 8 : flags & 0x20 ? 12 : 10;
  return `av01.${levels >> 5}.${two(levels & 0x1f)}${flags & 0x80 ? "H" : "M"}.${two(depth)}`;
}

function vpx(view, kind) {
  // Behind version and flags.
  return `${kind}.${two(view.getUint8(4))}.${two(view.getUint8(5) || 10)}.${two(view.getUint8(6) >> 4)}`;
}

function mpeg4Audio(view) {
  const config = descriptor(part(descriptor(part(view, 4), 3), 3), 4);
  const objectType = config.getUint8(0);
  if (objectType !== 0x40) return `mp4a.${hex(objectType)}`;
  const info = descriptor(part(config, 13), 5);
  const short = info.getUint8(0) >> 3;
  return `mp4a.40.${short === 31 ? 32 + ((info.getUint16(0) >> 5) & 0x3f) : short}`;
}

/** What is in a descriptor of this tag, which is the first of its place (ISO 14496-1, section 8.3.3). */
function descriptor(view, tag) {
  if (view.getUint8(0) !== tag) throw new MalformedMedia(`descriptor ${view.getUint8(0)} where ${tag} should be`);
  let size = 0;
  let at = 1;
  for (let more = true; more && at <= 4; at += 1) {
    const byte = view.getUint8(at);
    size = size * 128 + (byte & 0x7f);
    more = byte >= 0x80;
  }
  return part(view, at, size);
}

function child(view, kind) {
  const found = children(view).find((box) => box.kind === kind);
  if (found === undefined) throw new MalformedMedia(`no ${kind}`);
  return found.view;
}

/** The boxes in a view, in their order. */
export function children(view) {
  const found = [];
  for (let at = 0; at + 8 <= view.byteLength && found.length < MAX_BOXES; ) {
    const size = view.getUint32(at);
    if (size < 8) throw new MalformedMedia(`box of ${size} bytes`);
    found.push({ kind: kindOf(view, at + 4), view: part(view, at + 8, size - 8) });
    at += size;
  }
  return found;
}

function whole(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function part(view, at, size = view.byteLength - at) {
  if (size < 0 || at + size > view.byteLength) throw new MalformedMedia("init segment cut short");
  return new DataView(view.buffer, view.byteOffset + at, size);
}

function hex(byte) {
  return byte.toString(16).padStart(2, "0");
}

function two(number) {
  return String(number).padStart(2, "0");
}
