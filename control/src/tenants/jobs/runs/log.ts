import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import { cutMiddle } from "./cut.ts";

/** Bytes of a stream that are read of each end at most; what is between is not read at all. */
const endBytes = 512 * 1024;

/** The output of an attempt, with its middle left out where it is longer than `maxBytes`, and how much that was. */
export async function readAttemptLog(
  db: Db,
  attemptId: string,
  maxBytes: number,
): Promise<{ log: string; omittedBytes: number }> {
  const { rows } = await sql<{ offset: number; size: number }>`
    select "offset", octet_length(data) as size from log_chunk where stream_id = ${attemptId} order by "offset"`.execute(
    db,
  );
  const last = rows.at(-1);
  const total = last === undefined ? 0 : last.offset + last.size;
  const isWanted = ({ offset, size }: { offset: number; size: number }) =>
    total <= maxBytes || offset < endBytes || offset + size > total - endBytes;
  const wanted = rows.filter(isWanted).map(({ offset }) => offset);
  const chunks = await db
    .selectFrom("log_chunk")
    .select(["offset", "data"])
    .where("stream_id", "=", attemptId)
    .where("offset", "=", sql<number>`any(${wanted}::bigint[])`)
    .orderBy("offset")
    .execute();
  return cutMiddle(chunks, total, Math.min(maxBytes, 2 * endBytes));
}
