import { performance } from "node:perf_hooks";
import { createTestDatabase } from "@svc/agent/testing/database";
import { type DatabaseEngine, databaseEngines } from "@svc/proto";
import type { Cluster } from "../../cluster.ts";
import type { Row } from "../table.ts";
import { dropProject, emptyProject, makeBranch } from "./branch.ts";

const aims: Record<DatabaseEngine, { text: string; ms: number }> = {
  postgres: { text: "<= 2 s", ms: 2_000 },
  mariadb: { text: "<= 4 s", ms: 4_000 },
};

/** A container of the same image with the same limits, until its new server takes sessions. */
async function bareServer(engine: DatabaseEngine): Promise<number> {
  await using server = createTestDatabase(engine);
  const from = performance.now();
  await server.run();
  await server.serves();
  return performance.now() - from;
}

/** From the request until the branch is `ready`. The first one of an engine warms up and is not counted. */
export async function branchesUntilReady(cluster: Cluster, times: number): Promise<Row[]> {
  const rows: Row[] = [];
  for (const engine of databaseEngines) {
    const [samples, floor]: [number[], number[]] = [[], []];
    for (let round = 0; round <= times; round += 1) {
      floor.push(await bareServer(engine));
      const projectId = await emptyProject(cluster);
      samples.push((await makeBranch(cluster, projectId, { engine })).tookMs);
      await dropProject(cluster, projectId);
    }
    const { text, ms } = aims[engine];
    rows.push({
      ...{ name: `databases: a branch until it is ready, ${engine}`, unit: "ms", samples: samples.slice(1) },
      floor: { name: "bare container until it takes sessions", samples: floor.slice(1) },
      aim: { text, met: (value) => value <= ms },
    });
  }
  return rows;
}
