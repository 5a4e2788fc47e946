import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { databaseProxyFiles, databaseProxyTable } from "@svc/proto/database-proxy";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { indexTable } from "./lookup.ts";
import type { Table } from "./table.ts";

export const tableFile = (dir: string): string => join(dir, databaseProxyFiles.table);
/** Ten thousand entries have some six. */
const tableMaxBytes = 32 * 1024 * 1024;

/**
 * A round of looking at the file that the agent writes: puts what is new there in force. What cannot be read, and what is older
 * than what is in force, leaves that as it is.
 */
export function createTableReader({
  dir,
  table,
  metrics,
  log,
}: {
  dir: string;
  table: Table;
  metrics: Metrics;
  log: Log;
}) {
  const path = tableFile(dir);
  let seen: string | null = null;
  const refuse = (fields: object, why: string): void => {
    metrics.tablesRefused.inc();
    log.error({ ...fields, generation: table.current().generation.toString() }, `${why}: the one in force stays`);
  };
  return async function readTable(): Promise<void> {
    const mark = await markOf(path);
    if (mark === null || mark === seen) return;
    seen = mark;
    const next = await parseTable(path);
    if (next instanceof Error) return refuse({ err: next }, "the table cannot be read");
    const { generation } = table.current();
    if (next.generation === generation) return;
    if (next.generation < generation)
      return refuse({ refused: next.generation.toString() }, "the table is an older one");
    table.replace(next);
    metrics.tableGeneration.set(Number(next.generation));
    log.info({ generation: next.generation.toString(), entries: next.byId.size }, "a table is in force");
  };
}

/** Changes with the file; null while there is none. */
async function markOf(path: string): Promise<string | null> {
  const found = await stat(path, { bigint: true }).catch(() => null);
  return found === null ? null : `${found.ino} ${found.size} ${found.mtimeNs}`;
}

async function parseTable(path: string) {
  try {
    const bytes = await readFile(path);
    if (bytes.length > tableMaxBytes) throw new Error(`it has more than ${tableMaxBytes} bytes`);
    const table = databaseProxyTable.parse(JSON.parse(bytes.toString("utf8")));
    const index = indexTable(table);
    if (index.byId.size !== table.entries.length) throw new Error("it names a database twice");
    return index;
  } catch (cause) {
    return cause instanceof Error ? cause : new Error(String(cause));
  }
}
