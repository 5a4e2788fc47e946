import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";

export interface LogPart {
  text: string;
  /** Where to read on, in bytes of the whole log. */
  offset: number;
}

interface Segment {
  data: Buffer;
  /** In the whole log. */
  at: number;
}

/**
 * The log of a deployment from byte `after` on, at most `maxBytes` of it. The whole log is what its build tasks
 * wrote, in the order in which they were made, and then what each attempt of its release command wrote. A reader
 * past the end gets nothing and the offset of the end. Never ends inside a character.
 */
export async function readLog(db: Db, deploymentId: string, after: number, maxBytes: number): Promise<LogPart> {
  const streams = await listStreams(db, deploymentId);
  const total = streams.reduce((sum, { size }) => sum + size, 0);
  if (after >= total) return { text: "", offset: total };
  const end = Math.min(total, after + maxBytes);
  const segments: Segment[] = [];
  let begin = 0;
  for (const { id, size } of streams) {
    if (begin < end && begin + size > after)
      segments.push(...(await readStream(db, id, after - begin, end - begin, begin)));
    begin += size;
  }
  const bytes = Buffer.concat(
    segments.map(({ data, at }) => data.subarray(Math.max(0, after - at), Math.max(0, end - at))),
  );
  const whole = end === total ? bytes : bytes.subarray(0, wholeCharacters(bytes));
  return { text: new TextDecoder("utf-8", { ignoreBOM: true }).decode(whole), offset: after + whole.length };
}

/** Streams with their sizes, oldest first. */
async function listStreams(db: Db, deploymentId: string): Promise<{ id: string; size: number }[]> {
  const { rows } = await sql<{ id: string; size: number }>`
    with stream (id, part, position) as (
      select id::text, 1, epoch from task where owner_id = ${deploymentId} and kind = 'build'
      union all
      select id::text, 2, number from run where owner_id = ${deploymentId} and kind = 'release')
    select stream.id, last."offset" + length(last.data) as size
    from stream, lateral (
      select "offset", data from log_chunk where stream_id = stream.id order by "offset" desc limit 1) as last
    order by part, position`.execute(db);
  return rows;
}

/** Chunks that hold bytes `from` to `to` of a stream which begins at `begin` of the whole log. */
async function readStream(db: Db, streamId: string, from: number, to: number, begin: number): Promise<Segment[]> {
  const rows = await db
    .selectFrom("log_chunk")
    .select(["offset", "data"])
    .where("stream_id", "=", streamId)
    // From the chunk that holds the first byte.
    .where((chunk) =>
      chunk("offset", ">=", (inner) =>
        inner
          .selectFrom("log_chunk as first")
          .select((first) => first.fn.coalesce(first.fn.max("first.offset"), sql<number>`0`).as("offset"))
          .where("first.stream_id", "=", streamId)
          .where("first.offset", "<=", Math.max(0, from)),
      ),
    )
    .where("offset", "<", to)
    .orderBy("offset")
    .execute();
  return rows.map(({ offset, data }) => ({ data, at: begin + offset }));
}

/** How many of `bytes` make whole UTF-8 characters: all but the beginning of one at the end. */
export function wholeCharacters(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}
