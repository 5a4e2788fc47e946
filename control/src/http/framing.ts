/** What is judged of a request before anything else: parts that HTTP's parser leaves as they came. */
export interface RequestHead {
  /** The target as it stands in the request line. */
  target: string;
  httpVersion: string;
  /** Names and values in turns, in the order and the spelling of the request. */
  rawHeaders: readonly string[];
}

export interface FramingProblem {
  status: 400 | 431;
  message: string;
}

/** More than any client of ours or any chain of proxies sends. */
export const headersMax = 100;

/**
 * Headers that say one thing. Of two, the parser would keep the first and a proxy before us may have gone by the
 * second.
 */
const singular = new Set(["host", "authorization", "content-type", "origin", "sec-fetch-site", "idempotency-key"]);

const hostPattern = /^([a-z0-9._-]+|\[[0-9a-f:.]+\])(:\d{1,5})?$/i;

const bad = (message: string): FramingProblem => ({ status: 400, message });

/** Why a request is not even looked at; null when it may be. */
export function framingProblem({ target, httpVersion, rawHeaders }: RequestHead): FramingProblem | null {
  if (rawHeaders.length > 2 * headersMax)
    return { status: 431, message: `The request has more than ${headersMax} headers.` };
  // A client that sends a whole address takes us for a proxy.
  if (!target.startsWith("/")) return bad("The request's target must be a path.");
  const seen = new Set<string>();
  let host: string | null = null;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? "").toLowerCase();
    if (!singular.has(name)) continue;
    if (seen.has(name)) return bad(`The header ${name} may be sent once.`);
    seen.add(name);
    if (name === "host") host = rawHeaders[at + 1] ?? "";
  }
  if (host === null) return httpVersion === "1.0" ? null : bad("The header host is missing.");
  return hostPattern.test(host) ? null : bad("The header host does not name a host.");
}
