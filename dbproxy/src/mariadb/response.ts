// @pure
import { capability, mysqlBits } from "./capabilities.ts";

/** HandshakeResponse41: how a client answers a greeting. Names are taken byte by byte (latin1). */
export interface Response {
  capabilities: bigint;
  packetMaxBytes: number;
  charset: number;
  user: string;
  auth: Buffer;
  /** Null: it names none. */
  database: string | null;
  /** Empty: it names none. */
  plugin: string;
  /** As they were sent, with the length before them; null when there are none. */
  attributes: Buffer | null;
}

export const responseMaxBytes = 10 * 1024;
const fixedBytes = 32;
const ownAt = 28;

/** Reads what a client answered, to the last byte; null when it is not that. */
export function readResponse(payload: Buffer): Response | null {
  if (payload.length <= fixedBytes || payload.length > responseMaxBytes) return null;
  const mysql = BigInt(payload.readUInt32LE(0));
  const knowsMariadb = (mysql & capability.mysql) === 0n;
  const capabilities = knowsMariadb ? mysql | (BigInt(payload.readUInt32LE(ownAt)) << mysqlBits) : mysql;
  const has = (bit: bigint) => (capabilities & bit) !== 0n;
  const read = reader(payload, fixedBytes);
  const user = read.text();
  const auth = has(capability.lengthEncodedAuth)
    ? read.counted(read.lengthEncoded())
    : read.counted(has(capability.secureConnection) ? read.byte() : null);
  const database = has(capability.connectWithDb) ? read.text() : "";
  const plugin = has(capability.pluginAuth) ? read.text() : "";
  const attributesAt = read.at();
  if (has(capability.connectAttributes)) read.counted(read.lengthEncoded());
  if (user === null || user === "" || auth === null || database === null || plugin === null || !read.isAtEnd())
    return null;
  return {
    ...{ capabilities, packetMaxBytes: payload.readUInt32LE(4), charset: payload.readUInt8(8), user, auth, plugin },
    database: database === "" ? null : database,
    attributes: has(capability.connectAttributes) ? payload.subarray(attributesAt) : null,
  };
}

/** The same answer for a server: its fields are those that `capabilities` says. */
export function writeResponse(response: Response): Buffer {
  const { capabilities, packetMaxBytes, charset, user, auth, plugin, attributes } = response;
  const has = (bit: bigint) => (capabilities & bit) !== 0n;
  const fixed = Buffer.alloc(fixedBytes);
  fixed.writeUInt32LE(Number(capabilities & ((1n << mysqlBits) - 1n)), 0);
  fixed.writeUInt32LE(packetMaxBytes, 4);
  fixed.writeUInt8(charset, 8);
  fixed.writeUInt32LE(Number(capabilities >> mysqlBits), ownAt);
  const text = (value: string) => Buffer.from(`${value}\0`, "latin1");
  return Buffer.concat([
    fixed,
    text(user),
    // Below 251 bytes a length is the same in both ways of writing it.
    Buffer.of(auth.length),
    auth,
    ...(has(capability.connectWithDb) ? [text(response.database ?? "")] : []),
    text(plugin),
    ...(has(capability.connectAttributes) ? [attributes ?? Buffer.of(0)] : []),
  ]);
}

/** Reads on from an offset. Once something is not there, nothing after it is. */
function reader(payload: Buffer, from: number) {
  let at: number | null = from;
  const advance = (to: number): void => {
    at = to;
  };
  const byte = (): number | null => {
    if (at === null || at >= payload.length) {
      at = null;
      return null;
    }
    const value = payload.readUInt8(at);
    advance(at + 1);
    return value;
  };
  const counted = (bytes: number | null): Buffer | null => {
    if (bytes === null || at === null || at + bytes > payload.length) {
      at = null;
      return null;
    }
    const value = payload.subarray(at, at + bytes);
    advance(at + bytes);
    return value;
  };
  return {
    byte,
    counted,
    at: () => at ?? payload.length,
    isAtEnd: () => at === payload.length,
    /** Up to a zero, which is left away. */
    text(): string | null {
      const end = at === null ? -1 : payload.indexOf(0, at);
      const bytes = counted(end === -1 || at === null ? null : end - at);
      byte();
      return bytes === null ? null : bytes.toString("latin1");
    },
    /** Lengths that fit in a packet of ours: one byte, or three with the two last of them. */
    lengthEncoded(): number | null {
      const first = byte();
      if (first === null || first < 0xfb) return first;
      return first === 0xfc ? (counted(2)?.readUInt16LE(0) ?? null) : null;
    },
  };
}
