import { createHash } from "node:crypto";
import { limits } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../db/pool.ts";

// A deployment's log is several streams: one per build placement, one per attempt of its release command.
// Each agent stream is stored under its own id, with its own offsets, so that appends stay idempotent
// whatever the others do. A reader names the streams in the order in which they happened and sees one text:
// `readLogStreams(db, [logStreamId(buildPlacementId), logStreamId(attemptId)], after, maxBytes)`.

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Where the agent's stream `streamId` is stored: the id itself when it is a uuid, else one made from it. */
export function logStreamId(streamId: string): string {
  if (uuid.test(streamId)) return streamId;
  const hex = createHash("sha256").update(`log stream ${streamId}`).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

const cutMark = Buffer.from("\n[the log is longer than is kept; the rest was dropped]\n");

/** Bytes stored of a stream. More than `limit` only with the mark that says it was cut. */
async function storedLength(db: Db, streamId: string): Promise<number> {
  const row = await db
    .selectFrom("log_chunk")
    .select(["offset", sql<number>`octet_length(data)`.as("bytes")])
    .where("stream_id", "=", streamId)
    .orderBy("offset", "desc")
    .limit(1)
    .executeTakeFirst();
  return row === undefined ? 0 : row.offset + row.bytes;
}

async function insertChunk(db: Db, streamId: string, offset: number, data: Uint8Array): Promise<void> {
  await db
    .insertInto("log_chunk")
    .values({ stream_id: streamId, offset, data: Buffer.from(data) })
    .onConflict((conflict) => conflict.columns(["stream_id", "offset"]).doNothing())
    .execute();
}

/**
 * Appends the part of `data` (which begins at `offset` of the stream) that is not stored yet, and returns where
 * the next append continues. A gap stores nothing and returns the end of what is there. Appends may be repeated
 * and may race: a chunk is only ever inserted at the present end, so one of them wins and the others see it.
 * Past the limit the rest is dropped behind a mark, and taken as stored, so that the sender gets to its end.
 */
export async function appendLog(
  db: Db,
  streamId: string,
  offset: number,
  data: Uint8Array,
  limit: number = limits.buildLogBytesMax,
): Promise<number> {
  const end = offset + data.length;
  const length = await storedLength(db, streamId);
  if (length > limit) return Math.max(end, limit);
  if (offset > length || end <= length) return length;
  const fresh = data.subarray(length - offset, limit - offset);
  if (fresh.length > 0) await insertChunk(db, streamId, length, fresh);
  if (end <= limit) return Math.min(await storedLength(db, streamId), end);
  await insertChunk(db, streamId, limit, cutMark);
  return end;
}

/**
 * Up to `maxBytes` of the streams, one after another in the given order, from byte `after` of the whole.
 * `next` is where to continue. An earlier stream that still grows shifts what follows: name a stream only
 * when those before it have ended.
 */
export async function readLogStreams(
  db: Db,
  streamIds: readonly string[],
  after: number,
  maxBytes: number,
): Promise<{ data: Buffer; next: number }> {
  const parts: Buffer[] = [];
  let before = 0;
  let at = after;
  let room = maxBytes;
  for (const streamId of streamIds) {
    const length = await storedLength(db, streamId);
    while (room > 0 && at < before + length) {
      const chunk = await chunkAt(db, streamId, at - before);
      if (chunk === null) break;
      const piece = chunk.subarray(0, room);
      parts.push(piece);
      at += piece.length;
      room -= piece.length;
    }
    before += length;
  }
  return { data: Buffer.concat(parts), next: at };
}

/** The bytes from `offset` to the end of the chunk that holds it. */
async function chunkAt(db: Db, streamId: string, offset: number): Promise<Buffer | null> {
  const row = await db
    .selectFrom("log_chunk")
    .select(["offset", "data"])
    .where("stream_id", "=", streamId)
    .where("offset", "<=", offset)
    .orderBy("offset", "desc")
    .limit(1)
    .executeTakeFirst();
  return row === undefined || offset >= row.offset + row.data.length ? null : row.data.subarray(offset - row.offset);
}
