// Where this server is reached: from where it listens, and from the address that this page came by.

const EVERYWHERE = new Set(["", "0.0.0.0", "::", "[::]", "*"]);

/** rtmp://HOST[:PORT] as others reach it; null: it is not known. */
export async function rtmpAddress(api) {
  const { listening } = await api.get("/server");
  const { settings } = await api.get("/config");
  const rtmp = listening?.rtmp ?? settings["rtmp.listen"]?.value;
  return addressOf("rtmp", rtmp, 1935) ?? addressOf("rtmps", listening?.rtmps ?? settings["tls.listen"]?.value, 443);
}

function addressOf(scheme, listen, usual) {
  if (typeof listen !== "string") return null;
  const [, host, port] = /^(.*):(\d+)$/.exec(listen) ?? [null, listen, String(usual)];
  if (port === "0") return null;
  const name = EVERYWHERE.has(host) ? location.hostname : host;
  return `${scheme}://${name}${Number(port) === usual ? "" : `:${port}`}`;
}

/** Whether publishing to an app asks for a key. */
export function asksForKey(settings, app) {
  const rules = settings[`access.${app}.publish`] ?? settings["access.*.publish"] ?? settings['access."*".publish'];
  return JSON.stringify(rules?.value ?? []).includes('"key"');
}
