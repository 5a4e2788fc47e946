/** What a registry asks for in `WWW-Authenticate`. */
export type Challenge =
  | { scheme: "basic" }
  | { scheme: "bearer"; realm: string; service: string | null; scope: string | null };

/** The first challenge that we can meet, or null. `header` is one or several header values. */
export function parseChallenge(header: string | readonly string[] | undefined): Challenge | null {
  const values = header === undefined ? [] : typeof header === "string" ? [header] : header;
  for (const value of values) {
    const scheme = /^\s*([A-Za-z]+)/.exec(value)?.[1]?.toLowerCase();
    if (scheme === "basic") return { scheme };
    if (scheme !== "bearer") continue;
    const parameters = new Map<string, string>();
    for (const match of value.matchAll(/([A-Za-z_]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/g))
      parameters.set((match[1] ?? "").toLowerCase(), (match[2] ?? match[3] ?? "").replace(/\\(.)/g, "$1"));
    const realm = parameters.get("realm");
    if (realm === undefined) continue;
    return { scheme, realm, service: parameters.get("service") ?? null, scope: parameters.get("scope") ?? null };
  }
  return null;
}

/**
 * Whether our credential may go to `realm`: the registry's own host or one that is known to belong to it, and
 * never from https down to http. A registry must not be able to send it anywhere else. Another port of the same host
 * may be somebody else's, so `exactPort` refuses it too.
 */
export function mayAuthenticateAt(
  realm: string,
  registry: URL,
  authHosts: readonly string[],
  { exactPort = false }: { exactPort?: boolean } = {},
): boolean {
  const url = URL.parse(realm);
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:")) return false;
  if (url.username !== "" || url.password !== "") return false;
  if (url.protocol === "http:" && registry.protocol === "https:") return false;
  const isOwn = exactPort ? url.host === registry.host : url.hostname === registry.hostname;
  return isOwn || authHosts.includes(url.host);
}
