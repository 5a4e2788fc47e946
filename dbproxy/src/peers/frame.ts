// @pure
import type { z } from "zod";

/** Bytes of length before a frame's JSON. */
export const headBytes = 2;
export const frameMaxBytes = 1024;

export function writeFrame(value: object): Buffer {
  const body = Buffer.from(JSON.stringify(value));
  const head = Buffer.alloc(headBytes);
  head.writeUInt16BE(body.length);
  return Buffer.concat([head, body]);
}

/** How long the JSON is that follows the head; null when it may not be so long. */
export function frameBytes(head: Buffer): number | null {
  const bytes = head.readUInt16BE(0);
  return bytes > 0 && bytes <= frameMaxBytes ? bytes : null;
}

/** What a frame says, if it is what the schema says; else null. */
export function readFrame<T>(body: Buffer, schema: z.ZodType<T>): T | null {
  try {
    return schema.safeParse(JSON.parse(body.toString("utf8"))).data ?? null;
  } catch {
    return null;
  }
}
