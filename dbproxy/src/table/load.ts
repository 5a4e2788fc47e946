import { join } from "node:path";
import { databaseProxyFiles, databaseProxyGone, databaseProxyTable } from "@svc/proto/database-proxy";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { createFileReader, createNewestReader } from "../newest-file.ts";
import { indexTable } from "./lookup.ts";
import type { Table } from "./table.ts";

export const tableFile = (dir: string): string => join(dir, databaseProxyFiles.table);
/** Ten thousand entries have some six. */
const tableMaxBytes = 32 * 1024 * 1024;

export const goneFile = (dir: string): string => join(dir, databaseProxyFiles.gone);
/** Ten thousand ids have some 0.4. */
const goneMaxBytes = 4 * 1024 * 1024;

/** A round of looking at the file that the agent writes: puts what is new there in force. */
export const createTableReader = ({
  dir,
  table,
  metrics,
  log,
}: {
  dir: string;
  table: Table;
  metrics: Metrics;
  log: Log;
}): (() => Promise<void>) =>
  createNewestReader({
    ...{ path: tableFile(dir), what: "table", bytesMax: tableMaxBytes, log },
    parse(text) {
      const file = databaseProxyTable.parse(JSON.parse(text));
      const index = indexTable(file);
      if (index.byId.size !== file.entries.length) throw new Error("it names a database twice");
      return index;
    },
    inForce: () => table.current().generation,
    use(next) {
      table.replace(next);
      metrics.tableGeneration.set(Number(next.generation));
      log.info({ generation: next.generation.toString(), entries: next.byId.size }, "a table is in force");
    },
    refused: () => metrics.tablesRefused.inc(),
  });

/** Likewise at the file that says who is let in no more. It has no generation: what is there is the agent's last word. */
export const createGoneReader = ({ dir, table, log }: { dir: string; table: Table; log: Log }): (() => Promise<void>) =>
  createFileReader({
    ...{ path: goneFile(dir), what: "fenced and removed machines", bytesMax: goneMaxBytes, log },
    parse: (text) => databaseProxyGone.parse(JSON.parse(text)).ids,
    use(ids) {
      table.replace({ gone: new Set(ids) });
      log.info({ machines: ids.length }, "other machines are let in no more");
    },
  });
