/** One answered request, as far as it is counted. */
export interface Visit {
  /** As the visitor spelled it: perhaps with a port, capitals, or a final dot. */
  host: string;
  /** When the answer was complete, in hours since 1970, UTC. */
  hour: number;
  /** 0 when there was no answer. */
  status: number;
  /** Of the bodies. */
  bytesIn: number;
  bytesOut: number;
  /** From the request's head to the answer's end; of a stream until it was closed. */
  seconds: number;
}

const secondsPerHour = 3600;
/** So much of an announced body is believed: what a page weighs, which whoever wants to use up a quota can ask for as well. */
const announcedBytesMax = 64 * 1024;
/** The site did not answer, or not to the end: nobody knows how much of the body it was sent. */
const unanswered: ReadonlySet<unknown> = new Set([0, 499, 502, 503, 504]);

/** A line of Caddy's access log; null for one that is damaged. */
export function parseLine(line: string): Visit | null {
  let entry: unknown;
  try {
    entry = JSON.parse(line);
  } catch {
    return null;
  }
  const host = field(field(entry, "request"), "host");
  const seconds = field(entry, "ts");
  if (typeof host !== "string" || typeof seconds !== "number" || !Number.isFinite(seconds)) return null;
  const duration = field(entry, "duration");
  return {
    host,
    hour: Math.floor(seconds / secondsPerHour),
    status: count(field(entry, "status")),
    bytesIn: count(field(entry, "bytes_read") ?? credible(entry)),
    bytesOut: count(field(entry, "size")),
    seconds: typeof duration === "number" && duration >= 0 ? duration : 0,
  };
}

/** The host of a request as the table spells it. */
export const hostOf = (said: string): string => said.toLowerCase().replace(/:\d*$/, "").replace(/\.$/, "");

/**
 * Caddy before 2.7 does not say what it read; what was announced is then where a user would be. Anybody can announce
 * anything, and must not be able to use up a stranger's bandwidth that way.
 */
function credible(entry: unknown): number {
  if (unanswered.has(field(entry, "status"))) return 0;
  return Math.min(Number(field(entry, "user_id")), announcedBytesMax);
}

const field = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;

const count = (value: unknown): number => (Number.isSafeInteger(value) && Number(value) > 0 ? Number(value) : 0);
