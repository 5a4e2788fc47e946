// @pure
import { type Refusal, refusalTexts } from "../refusals.ts";

/** Three bytes of length, least significant first, and one with the packet's number in its exchange. */
export const headBytes = 4;

export interface PacketHead {
  bytes: number;
  sequence: number;
}

export const readHead = (head: Buffer): PacketHead => ({ bytes: head.readUIntLE(0, 3), sequence: head.readUInt8(3) });

export function packet(sequence: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(headBytes);
  head.writeUIntLE(payload.length, 0, 3);
  head.writeUInt8(sequence & 0xff, 3);
  return Buffer.concat([head, payload]);
}

/** The first byte of a packet while somebody logs in. */
export const kinds = { ok: 0x00, more: 0x01, switch: 0xfe, error: 0xff } as const;

/** An ERR packet, after which the connection ends. */
export function errorPacket(sequence: number, why: Refusal): Buffer {
  const { message, mariadb } = refusalTexts[why];
  const head = Buffer.alloc(3);
  head.writeUInt8(kinds.error);
  head.writeUInt16LE(mariadb.number, 1);
  return packet(sequence, Buffer.concat([head, Buffer.from(`#${mariadb.state}${message}`)]));
}

/** The number of an ERR packet's error; null when it is another packet. */
export const errorNumber = (payload: Buffer): number | null =>
  payload[0] === kinds.error && payload.length >= 3 ? payload.readUInt16LE(1) : null;

/** Access denied: a wrong password. */
export const isFailedLogin = (number: number | null): boolean => number === 1045;

/** Asks the client to prove itself anew, by `plugin` and with the salt that it is given. */
export const switchRequest = (plugin: string, salt: Buffer): Buffer =>
  Buffer.concat([Buffer.of(kinds.switch), Buffer.from(`${plugin}\0`, "latin1"), salt, Buffer.of(0)]);

/** The plugin that an AuthSwitchRequest names; null when it is another packet, or has no name. */
export function switchedPlugin(payload: Buffer): string | null {
  const end = payload.indexOf(0, 1);
  return payload[0] === kinds.switch && end !== -1 ? payload.toString("latin1", 1, end) : null;
}
