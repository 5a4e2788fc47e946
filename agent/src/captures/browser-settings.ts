// @pure

/** Where the image's entry point listens in its container, for the browser alone; see deploy/capture/entry.sh. */
const wayIn = "127.0.0.1:3128";

const usualPorts: Readonly<Record<string, string>> = { "http:": "80", "https:": "443" };

/** host:port of a site, as the browser looks it up; null for what is no address of one. */
export function authorityOf(url: string): string | null {
  const { protocol, hostname, port } = URL.parse(url) ?? {};
  if (protocol === undefined || hostname === undefined || !Object.hasOwn(usualPorts, protocol)) return null;
  // What comes after a comma or a space would be a rule of its own.
  if (!/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/.test(hostname)) return null;
  return `${hostname}:${port || usualPorts[protocol]}`;
}

/** What connections to the site name, over TLS; null: its connections are none. */
export function serverNameOf(url: string): string | null {
  const { protocol, hostname } = new URL(url);
  return protocol === "https:" ? hostname : null;
}

/** The edge that is asked, apart; null for what names none. */
export function edgeOf(text: string): { host: string; port: number } | null {
  const [, host = "", digits = ""] = /^(?:\[([0-9a-f:.]+)\]|([0-9.]+)):(\d{1,5})$/.exec(text)?.filter(Boolean) ?? [];
  const port = Number(digits);
  return host !== "" && port > 0 && port < 65_536 ? { host, port } : null;
}

/**
 * What the browser is started with. One name and one port lead to the way out, and no other name or address leads anywhere. It
 * has no sandbox of its own: see ADR 87 for what is around it instead.
 */
export const browserSettings = (authority: string): string[] => [
  ...["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir=/tmp/profile"],
  `--host-resolver-rules=MAP ${authority} ${wayIn}, MAP * ~NOTFOUND`,
  ...["--no-proxy-server", "--disable-quic", "--disable-background-networking", "--disable-component-update"],
  ...["--disable-sync", "--disable-extensions", "--disable-breakpad", "--no-first-run", "--mute-audio"],
  ...["--hide-scrollbars", "--force-color-profile=srgb", "--lang=en-US"],
  "about:blank",
];
