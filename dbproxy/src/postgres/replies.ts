// @pure
import type { CancelKey } from "../sessions/cancel-keys.ts";

/** What a server of Postgres says while somebody logs in, so far as it concerns us. */
export type Reply = { kind: "key"; key: CancelKey } | { kind: "refused"; state: string } | { kind: "ready" };

/** Reads along with a server's bytes until the login is over. */
export interface ReplyReader {
  /** What the next bytes brought. After `ready` or `refused` it brings nothing more. */
  push(chunk: Buffer): Reply[];
}

const headBytes = 5;
/** More of a message is not looked at: a key has 264 bytes at most, and an error begins with its state. */
const keptBytes = 512;
const looked = { key: "K".charCodeAt(0), error: "E".charCodeAt(0), ready: "Z".charCodeAt(0) };
const isLooked = (type: number): boolean => Object.values(looked).includes(type);

export function createReplyReader(): ReplyReader {
  let head = Buffer.alloc(0);
  let body = Buffer.alloc(0);
  let left = 0;
  let isOver = false;

  const take = (chunk: Buffer, count: number): [Buffer, Buffer] => [chunk.subarray(0, count), chunk.subarray(count)];

  /** One message, or as much of it as there is; null when more bytes are needed. */
  function next(chunk: Buffer): { type: number; body: Buffer; rest: Buffer } | null {
    let rest = chunk;
    let part: Buffer;
    if (head.length < headBytes) {
      [part, rest] = take(rest, headBytes - head.length);
      head = Buffer.concat([head, part]);
      if (head.length < headBytes) return null;
      left = Math.max(0, head.readUInt32BE(1) - 4);
      body = Buffer.alloc(0);
    }
    [part, rest] = take(rest, left);
    left -= part.length;
    if (isLooked(head[0] ?? 0) && body.length < keptBytes) {
      body = Buffer.concat([body, part.subarray(0, keptBytes - body.length)]);
    }
    if (left > 0) return null;
    const message = { type: head[0] ?? 0, body, rest };
    head = Buffer.alloc(0);
    return message;
  }

  return {
    push(chunk) {
      const replies: Reply[] = [];
      let message = isOver ? null : next(chunk);
      while (message !== null) {
        const reply = readReply(message);
        if (reply !== null) replies.push(reply);
        isOver = reply !== null && reply.kind !== "key";
        message = isOver || message.rest.length === 0 ? null : next(message.rest);
      }
      return replies;
    },
  };
}

function readReply({ type, body }: { type: number; body: Buffer }): Reply | null {
  if (type === looked.ready) return { kind: "ready" };
  if (type === looked.error) return { kind: "refused", state: stateOf(body) };
  if (type !== looked.key || body.length < 8) return null;
  return { kind: "key", key: { pid: body.readUInt32BE(0), secret: body.toString("hex", 4) } };
}

/** The SQLSTATE of an ErrorResponse; empty when it has none. */
const stateOf = (body: Buffer): string =>
  body
    .toString("latin1")
    .split("\0")
    .find((field) => field.startsWith("C"))
    ?.slice(1) ?? "";

/** Postgres's words for a wrong password, and for a user that may not come in. */
export const isFailedLogin = (state: string): boolean => state === "28P01" || state === "28000";
