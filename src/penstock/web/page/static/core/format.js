// Figures as people read them. Widths stay the same where digits are, by tabular numbers in the stylesheet.

const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
/** What each calls itself, the special ones first: nearly all say Chrome or Safari too. */
const BROWSERS = [["Edge", "Edg"], ["Opera", "OPR"], ["Firefox", "Firefox"], ["Chrome", "(?:Headless)?Chrome"], ["Safari", "Version"]];
const UNKNOWN = "–";

function scaled(value, units, step = 1000) {
  let place = 0;
  while (value >= step && place < units.length - 1) {
    value /= step;
    place += 1;
  }
  const digits = value >= 100 || place === 0 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[place]}`;
}

export const count = (value) => (value === null || value === undefined ? UNKNOWN : COUNT.format(value));
export const bitrate = (bps) =>
  bps === null || bps === undefined ? UNKNOWN : scaled(bps / 1000, ["kbit/s", "Mbit/s", "Gbit/s"]);
export const bytes = (value) =>
  value === null || value === undefined ? UNKNOWN : scaled(value, ["B", "kB", "MB", "GB", "TB"]);
export const fps = (value) => (value === null || value === undefined ? UNKNOWN : `${value.toFixed(1)} fps`);

/** 0:04, 12:03, 3:12:03, 2 d 03:12 */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return UNKNOWN;
  const whole = Math.max(0, Math.floor(seconds));
  const two = (value) => String(value).padStart(2, "0");
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days > 0) return `${days} d ${two(hours)}:${two(minutes)}`;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

export const since = (moment, now) => duration((now - Date.parse(moment)) / 1000);
export const clock = (moment) => TIME.format(new Date(moment));
export const day = (moment) => DAY.format(new Date(moment));

/** How old something is, in one unit. */
export function age(moment, now) {
  const seconds = Math.max(0, (now - Date.parse(moment)) / 1000);
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}

export const milliseconds = (value) =>
  value === null || value === undefined ? UNKNOWN : value >= 10000 ? `${(value / 1000).toFixed(1)} s` : `${COUNT.format(value)} ms`;
export const plural = (number, one, many = `${one}s`) => `${COUNT.format(number)} ${number === 1 ? one : many}`;

/** 1280×720 · H.264 · AAC, of what is known. */
export function tracks(stream) {
  const { video, audio } = stream;
  const size = video?.width && video?.height ? `${video.width}×${video.height}` : null;
  const codec = video === null || video === undefined ? null : video.codec.split(" ")[0];
  return [size, codec, audio?.codec].filter(Boolean);
}

/** A browser by its name and version, everything else as it calls itself. */
export function client(text) {
  if (!text?.startsWith("Mozilla/")) return text ?? null;
  for (const [name, mark] of BROWSERS) {
    const version = new RegExp(`${mark}/(\\d+)`).exec(text)?.[1];
    if (version !== undefined) return `${name} ${version}`;
  }
  return text;
}
