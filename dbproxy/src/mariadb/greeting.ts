// @pure
import { greeted, mysqlBits } from "./capabilities.ts";

/** The plugin that accounts of the platform have: their servers hold its hash and nothing else. */
export const nativePlugin = "mysql_native_password";
export const saltBytes = 20;

/** A server's side of protocol 10, as far as it concerns us. */
export interface Greeting {
  capabilities: bigint;
  /** 20 bytes. */
  salt: Buffer;
}

/** The oldest that is behind the proxy. A client that asks the server itself, with `select version()`, hears of the real one. */
const version = "11.8.0-MariaDB";
/**
 * No server counts as far. The real number is known only once the server is dialled, after this, and a client that sent a
 * KILL with a number of ours would end a session of somebody else; with this one it ends none. Who wants the real
 * one asks for `connection_id()`.
 */
const connectionId = 0x7fff_ffff;
const utf8mb4 = 45;
const autocommit = 2;
const firstSaltBytes = 8;
const low16 = 0xffffn;

/** @param salt 20 bytes without a zero */
export function writeGreeting(salt: Buffer): Buffer {
  const fixed = Buffer.alloc(31);
  let at = fixed.writeUInt32LE(connectionId, 0);
  at += salt.copy(fixed, at, 0, firstSaltBytes) + 1;
  at = fixed.writeUInt16LE(Number(greeted & low16), at);
  at = fixed.writeUInt8(utf8mb4, at);
  at = fixed.writeUInt16LE(autocommit, at);
  at = fixed.writeUInt16LE(Number((greeted >> 16n) & low16), at);
  at = fixed.writeUInt8(saltBytes + 1, at);
  fixed.writeUInt32LE(Number(greeted >> mysqlBits), at + 6);
  return Buffer.concat([
    Buffer.of(10),
    Buffer.from(`${version}\0`, "latin1"),
    fixed,
    salt.subarray(firstSaltBytes),
    Buffer.from(`\0${nativePlugin}\0`, "latin1"),
  ]);
}

/** Null when it is no greeting of protocol 10 with a salt; then it may be an error. */
export function readGreeting(payload: Buffer): Greeting | null {
  const versionEnd = payload.indexOf(0, 1);
  if (payload[0] !== 10 || versionEnd === -1) return null;
  const fixed = payload.subarray(versionEnd + 1);
  const salt2 = fixed.subarray(31, 31 + saltBytes - firstSaltBytes);
  if (salt2.length < saltBytes - firstSaltBytes) return null;
  const low = BigInt(fixed.readUInt16LE(13));
  const high = BigInt(fixed.readUInt16LE(18));
  const own = BigInt(fixed.readUInt32LE(27));
  return {
    capabilities: low | (high << 16n) | (own << mysqlBits),
    salt: Buffer.concat([fixed.subarray(4, 4 + firstSaltBytes), salt2]),
  };
}
