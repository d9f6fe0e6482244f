// Addresses of views, behind the #: "#/streams/live/main" is ["streams", "live", "main"].

export function route() {
  const [path] = location.hash.replace(/^#\/?/, "").split("?");
  return path === "" ? [] : path.split("/").map(decoded);
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const hrefTo = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;
export const streamHref = ({ app, stream }) => hrefTo("streams", app, stream);
export const streamPath = ({ app, stream }) => `/streams/${encodeURIComponent(app)}/${encodeURIComponent(stream)}`;

export function goTo(...parts) {
  location.hash = hrefTo(...parts);
}
