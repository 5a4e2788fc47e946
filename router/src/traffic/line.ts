// @pure
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
  /** Empty where the log does not say. */
  method: string;
  said: Said;
}

/** Who asked and how, for analytics: never on a disk, and never sent anywhere. Empty where the log does not say. */
export interface Said {
  address: string;
  userAgent: string;
  /** Of the request, without query: as it was sent, so perhaps with escapes. Cut off where it was long. */
  path: string;
  /** Scheme and host of the page that led here. */
  referrer: string;
  /** What the browser wants it for: `Sec-Fetch-Dest`. */
  destination: string;
  /** Asks not to be tracked, by `Sec-GPC` or `DNT`. */
  optsOut: boolean;
}

/**
 * Between the parts of what a request says of itself, in the order of `parseLine`. No header and no address has it: HTTP
 * forbids control characters there.
 */
export const saidSeparator = "\x7f";

/** In the place of a user: Caddy asked itself for the certificate of a full handshake. No visitor's line has letters first there. */
export const handshakeMark = "tls";
const handshakeField = `"user_id":"${handshakeMark}"`;
/** What a visitor says has its quotes escaped. */
export const isHandshake = (line: string): boolean => line.includes(handshakeField);

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
  const request = field(entry, "request");
  const host = field(request, "host");
  const said = text(field(entry, "user_id")).split(saidSeparator);
  const [announced = "", destination = "", gpc, dnt, path = "", userAgent = "", referrer = ""] = said;
  const seconds = field(entry, "ts");
  if (typeof host !== "string" || typeof seconds !== "number" || !Number.isFinite(seconds)) return null;
  const duration = field(entry, "duration");
  return {
    host,
    hour: Math.floor(seconds / secondsPerHour),
    status: count(field(entry, "status")),
    bytesIn: count(field(entry, "bytes_read") ?? credible(entry, announced)),
    bytesOut: count(field(entry, "size")),
    seconds: typeof duration === "number" && duration >= 0 ? duration : 0,
    method: text(field(request, "method")),
    said: {
      // Behind something that is trusted to tell it, only `client_ip` is the visitor's.
      address: text(field(request, "client_ip")) || text(field(request, "remote_ip")),
      optsOut: gpc === "1" || dnt === "1",
      ...{ destination, path, userAgent, referrer },
    },
  };
}

/** The host of a request as the table spells it. */
export const hostOf = (said: string): string => said.toLowerCase().replace(/:\d*$/, "").replace(/\.$/, "");

/**
 * Caddy before 2.7 does not say what it read; what was announced is then where a user would be. Anybody can announce
 * anything, and must not be able to use up a stranger's bandwidth that way.
 */
function credible(entry: unknown, announced: string): number {
  if (unanswered.has(field(entry, "status"))) return 0;
  return Math.min(Number(announced), announcedBytesMax);
}

const field = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;

const text = (value: unknown): string => (typeof value === "string" ? value : "");

const count = (value: unknown): number => (Number.isSafeInteger(value) && Number(value) > 0 ? Number(value) : 0);
