// @pure

/** A change of one zone: a string of TXT that a name is to have, or is not to have any more. */
export interface TextChange {
  /** The zone that has the name. */
  zone: string;
  name: string;
  text: string;
  is: "added" | "removed";
}

/** A name or text that DNS has no room for, or a message that is none. */
export class BadMessage extends Error {
  override readonly name = "BadMessage";
}

const classIn = 1;
const classNone = 254;
const typeSoa = 6;
const typeTxt = 16;
export const typeTsig = 250;
/** Opcode 5 where messages have theirs. */
const updateFlags = 5 << 11;
const ttlSeconds = 60;
const textBytesMax = 255;

export const u16 = (value: number): Buffer => {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
};
export const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};

const labelBytesMax = 63;
const nameBytesMax = 255;

/** A name as it stands in messages, in lower case and never shortened. */
export function nameBytes(name: string): Buffer {
  const labels = name.replace(/\.$/, "").toLowerCase().split(".");
  const parts = labels.map((label) => {
    const bytes = Buffer.from(label, "latin1");
    if (bytes.length === 0 || bytes.length > labelBytesMax) throw new BadMessage(`${name} is no name of DNS`);
    return Buffer.concat([Buffer.from([bytes.length]), bytes]);
  });
  const bytes = Buffer.concat([...parts, Buffer.from([0])]);
  if (bytes.length > nameBytesMax) throw new BadMessage(`${name} is too long for DNS`);
  return bytes;
}

/** The message of a change (RFC 2136), unsigned. A change that is there already is no error to a server. */
export function updateMessage(id: number, { zone, name, text, is }: TextChange): Buffer {
  const value = Buffer.from(text, "latin1");
  if (value.length > textBytesMax) throw new BadMessage("a string of TXT is too long");
  const data = Buffer.concat([Buffer.from([value.length]), value]);
  const isAdded = is === "added";
  return Buffer.concat([
    // One zone, nothing required, one change, nothing besides.
    ...[id, updateFlags, 1, 0, 1, 0].map(u16),
    ...[nameBytes(zone), u16(typeSoa), u16(classIn)],
    ...[nameBytes(name), u16(typeTxt), u16(isAdded ? classIn : classNone), u32(isAdded ? ttlSeconds : 0)],
    ...[u16(data.length), data],
  ]);
}

/** Where in a message its signature begins, and what it says. */
export interface Signature {
  start: number;
  timeSeconds: number;
  fudgeSeconds: number;
  mac: Buffer;
  originalId: number;
  /** 0, or why the other side did not take ours. */
  error: number;
  other: Buffer;
}

export interface Reply {
  id: number;
  rcode: number;
  /** Null: it is not signed. */
  signature: Signature | null;
}

const headerBytes = 12;

/** Reads an answer to a change as far as it matters. Throws `BadMessage`. */
export function readReply(message: Buffer): Reply {
  try {
    const [id, flags, zones, ...counts] = [0, 2, 4, 6, 8, 10].map((at) => message.readUInt16BE(at)) as [
      number,
      number,
      number,
      ...number[],
    ];
    if ((flags & 0x8000) === 0) throw new BadMessage("a question is no answer");
    let at = headerBytes;
    for (let each = 0; each < zones; each += 1) at = afterName(message, at) + 4;
    const records = counts.reduce((sum, count) => sum + count, 0);
    let signature: Signature | null = null;
    for (let each = 0; each < records; each += 1) {
      const start = at;
      const fields = afterName(message, at);
      const bytes = message.readUInt16BE(fields + 8);
      at = fields + 10 + bytes;
      if (at > message.length) throw new BadMessage("an answer of DNS ends early");
      // It covers what is before it, so it is the last one.
      if (message.readUInt16BE(fields) === typeTsig && each === records - 1)
        signature = readSignature(message.subarray(fields + 10, at), start);
    }
    return { id, rcode: flags & 0xf, signature };
  } catch (cause) {
    if (cause instanceof RangeError) throw new BadMessage("an answer of DNS ends early", { cause });
    throw cause;
  }
}

function afterName(message: Buffer, from: number): number {
  let at = from;
  for (;;) {
    const length = message.readUInt8(at);
    if (length === 0) return at + 1;
    // The rest of the name is elsewhere.
    if (length > labelBytesMax) return at + 2;
    at += length + 1;
  }
}

function readSignature(data: Buffer, start: number): Signature {
  let at = afterName(data, 0);
  const timeSeconds = data.readUIntBE(at, 6);
  const fudgeSeconds = data.readUInt16BE(at + 6);
  const macBytes = data.readUInt16BE(at + 8);
  at += 10;
  const mac = data.subarray(at, at + macBytes);
  at += macBytes;
  const [originalId, error, otherBytes] = [0, 2, 4].map((field) => data.readUInt16BE(at + field)) as [
    number,
    number,
    number,
  ];
  return {
    start,
    timeSeconds,
    fudgeSeconds,
    mac,
    originalId,
    error,
    other: data.subarray(at + 6, at + 6 + otherBytes),
  };
}
