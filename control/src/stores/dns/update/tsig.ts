import { createHmac, timingSafeEqual } from "node:crypto";
import { BadMessage, nameBytes, type Reply, type Signature, typeTsig, u16, u32 } from "./message.ts";

/** A secret that a server and whoever may change its zone share. */
export interface TsigKey {
  name: string;
  secret: Buffer;
}

const algorithm = nameBytes("hmac-sha256");
const classAny = 255;
const fudgeSeconds = 300;
const countAt = 10;

const u48 = (value: number): Buffer => {
  const bytes = Buffer.alloc(6);
  bytes.writeUIntBE(value, 0, 6);
  return bytes;
};

/** What a signature covers besides the message (RFC 8945, 4.3.3). */
const variables = (
  { name }: TsigKey,
  about: Pick<Signature, "timeSeconds" | "fudgeSeconds" | "error" | "other">,
): Buffer =>
  Buffer.concat([
    ...[nameBytes(name), u16(classAny), u32(0), algorithm, u48(about.timeSeconds), u16(about.fudgeSeconds)],
    ...[u16(about.error), u16(about.other.length), about.other],
  ]);

const macOf = ({ secret }: TsigKey, parts: readonly Buffer[]): Buffer =>
  parts.reduce((hmac, part) => hmac.update(part), createHmac("sha256", secret)).digest();

/** The message with a signature of `now`, and that signature's code, which the answer's one covers. */
export function signMessage(message: Buffer, key: TsigKey, now: Date): { signed: Buffer; mac: Buffer } {
  const about = { timeSeconds: Math.floor(now.getTime() / 1000), fudgeSeconds, error: 0, other: Buffer.alloc(0) };
  const mac = macOf(key, [message, variables(key, about)]);
  const data = Buffer.concat([
    ...[algorithm, u48(about.timeSeconds), u16(fudgeSeconds), u16(mac.length), mac],
    ...[message.subarray(0, 2), u16(about.error), u16(0)],
  ]);
  const record = [nameBytes(key.name), u16(typeTsig), u16(classAny), u32(0), u16(data.length), data];
  return { signed: Buffer.concat([withCount(message, message.readUInt16BE(countAt) + 1), ...record]), mac };
}

/** Throws `BadMessage` unless the answer is signed with the key, for this request, at about this time. */
export function checkReply(
  message: Buffer,
  { signature }: Pick<Reply, "signature">,
  { key, mac, now }: { key: TsigKey; mac: Buffer; now: Date },
): void {
  if (signature === null) throw new BadMessage("the answer is not signed");
  const before = withCount(message.subarray(0, signature.start), message.readUInt16BE(countAt) - 1);
  before.writeUInt16BE(signature.originalId);
  const expected = macOf(key, [u16(mac.length), mac, before, variables(key, signature)]);
  if (signature.mac.length !== expected.length || !timingSafeEqual(signature.mac, expected))
    throw new BadMessage("the signature of the answer is not that of the key");
  const skewSeconds = Math.abs(now.getTime() / 1000 - signature.timeSeconds);
  if (skewSeconds > signature.fudgeSeconds) throw new BadMessage("the server's clock and that of control differ");
}

/** A copy with another number of additional records. */
function withCount(message: Buffer, count: number): Buffer {
  const copy = Buffer.from(message);
  copy.writeUInt16BE(count, countAt);
  return copy;
}
