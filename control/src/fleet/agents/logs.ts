import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";

// A deployment's log is several streams: one per build placement, one per attempt of its release command.
// Each is stored under the agent's own stream id, with its own offsets, so that appends stay idempotent
// whatever the others do. Who reads a deployment's log puts its streams one after another.

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
  limit: number,
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
