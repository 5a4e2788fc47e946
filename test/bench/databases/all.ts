import { startCluster } from "../../cluster.ts";
import { consoleStatements } from "../console.ts";
import type { Row } from "../table.ts";
import { makeRoom } from "./branch.ts";
import { dumpRates } from "./dumps.ts";
import { idleBranches } from "./idle.ts";
import { databasesProxy } from "./proxy.ts";
import { databasesReadOnly } from "./read-only.ts";
import { branchesUntilReady } from "./ready.ts";
import { rotations } from "./rotation.ts";

/** All that is measured of managed databases, each beside the bare work; some minutes. */
export async function databases(times: number): Promise<Row[]> {
  const rows: Row[] = [];
  {
    await using cluster = await startCluster({ agents: 1 });
    await makeRoom(cluster);
    rows.push(...(await branchesUntilReady(cluster, times)), ...(await idleBranches(cluster)));
    rows.push(...(await rotations(cluster, times)), ...(await dumpRates(cluster, times)));
  }
  {
    await using cluster = await startCluster({ agents: 2 });
    rows.push(...(await databasesReadOnly(cluster, times)));
  }
  // Without a platform beside them.
  rows.push(...(await consoleStatements()), ...(await databasesProxy(times)));
  return rows;
}
