// @pure
import type { CancelKey } from "../sessions/cancel-keys.ts";

/** The first packet of a connection, as Postgres's protocol 3 has it: four bytes of length, which count themselves. */
export type FirstPacket =
  /** Asks for TLS or GSSAPI; may be answered with N, and another first packet follows. */
  | { kind: "encryption" }
  | { kind: "cancel"; key: CancelKey }
  /** Null: it names no database. */
  | { kind: "startup"; user: string; database: string | null }
  | { kind: "refused"; why: "malformed" | "unsupported" };

const packetMaxBytes = 10 * 1024;
const codes = { cancel: 80877102, tls: 80877103, gssapi: 80877104 };
/** A server picks the minor version that it knows. */
const majorVersion = 3;
const secretMaxBytes = 256;

/** How many bytes the packet has that begins with `head` (four bytes), these included; null when it is none. */
export function packetBytes(head: Buffer): number | null {
  const bytes = head.readUInt32BE(0);
  return bytes >= 8 && bytes <= packetMaxBytes ? bytes : null;
}

/** Reads a whole packet of `packetBytes`. Names are taken byte by byte (latin1), so that they compare as the server's do. */
export function readFirstPacket(packet: Buffer): FirstPacket {
  const code = packet.readUInt32BE(4);
  if (code === codes.tls || code === codes.gssapi) {
    return packet.length === 8 ? { kind: "encryption" } : malformed;
  }
  if (code === codes.cancel) return readCancel(packet);
  if (code >>> 16 !== majorVersion) return unsupported;
  const parameters = readParameters(packet.subarray(8));
  const user = parameters?.get("user");
  if (parameters === null || user === undefined || user === "") return malformed;
  // What a replica or a backup of the whole server speaks: never an app's.
  if (parameters.has("replication")) return unsupported;
  const database = parameters.get("database") ?? "";
  return { kind: "startup", user, database: database === "" ? null : database };
}

const malformed: FirstPacket = { kind: "refused", why: "malformed" };
const unsupported: FirstPacket = { kind: "refused", why: "unsupported" };

function readCancel(packet: Buffer): FirstPacket {
  const secretBytes = packet.length - 12;
  if (secretBytes < 4 || secretBytes > secretMaxBytes) return malformed;
  return { kind: "cancel", key: { pid: packet.readUInt32BE(8), secret: packet.toString("hex", 12) } };
}

/** Names and values, each with a zero behind it, and one more zero. Null when it is not that, or a name comes twice. */
function readParameters(body: Buffer): Map<string, string> | null {
  const texts = body.toString("latin1").split("\0");
  // The last two zeros leave two empty texts; a packet without any parameter is none of a client.
  if (texts.length < 4 || texts.length % 2 !== 0 || texts.at(-1) !== "" || texts.at(-2) !== "") return null;
  const parameters = new Map<string, string>();
  for (let at = 0; at < texts.length - 2; at += 2) {
    const [name = "", value = ""] = texts.slice(at, at + 2);
    // The server stops at an empty name: what follows would be read by one of us only.
    if (name === "" || parameters.has(name)) return null;
    parameters.set(name, value);
  }
  return parameters;
}
