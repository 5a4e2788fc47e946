// @pure
import { z } from "zod";
import { type RunValue, runValue } from "../cluster/keys.ts";

interface Entry {
  key: string;
  value: string;
  modRevision: bigint;
}

/** A record of an attempt as it stands in etcd. */
interface RunRecord {
  key: string;
  modRevision: bigint;
  run: RunValue;
}

/** Whose an attempt is. */
export type RunOwner = Pick<RunValue, "ownerId" | "projectId">;

/** Of a record of a kind or shape that this version does not know, as far as that can be read. */
const ownerValue = z.object({ ownerId: z.string(), projectId: z.string() });

interface RunRecords {
  known: RunRecord[];
  /** A newer control wrote these, which alone knows what may be done about them: null of one that does not say whose it is. */
  unknown: (RunOwner | null)[];
}

/** Reads each record by itself: one that nobody here knows hides none of the others. */
export function readRecords(entries: readonly Entry[]): RunRecords {
  const records: RunRecords = { known: [], unknown: [] };
  for (const { key, value, modRevision } of entries) {
    const json = parseJson(value);
    const run = runValue.safeParse(json);
    if (run.success) records.known.push({ key, modRevision, run: run.data });
    else records.unknown.push(ownerValue.safeParse(json).data ?? null);
  }
  return records;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
