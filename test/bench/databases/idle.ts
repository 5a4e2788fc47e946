import { setTimeout as delay } from "node:timers/promises";
import { createTestDatabase } from "@svc/agent/testing/database";
import { type DatabaseEngine, databaseEngines } from "@svc/proto";
import type Docker from "dockerode";
import type { Cluster } from "../../cluster.ts";
import type { Row } from "../table.ts";
import { dropProject, emptyProject, makeBranch, serverOf } from "./branch.ts";

const channels = ["production", "preview", "dev"];
const projectsOf: Record<DatabaseEngine, number> = { postgres: 10, mariadb: 1 };
const aimsMb: Record<DatabaseEngine, number> = { postgres: 25, mariadb: 80 };
/** What starts a server is over by then, and so is its first checkpoint. */
const settleMs = 5_000;

const promised = { branches: 300, ofMb: 16 * 1024 };

/** As the engine's own tools count it: without what the kernel can drop at once. */
async function memoryMb(container: Docker.Container): Promise<number> {
  const { memory_stats: memory } = await container.stats({ stream: false });
  const { stats } = memory as { stats: Record<string, number> };
  return (memory.usage - (stats["total_inactive_file"] ?? stats["inactive_file"] ?? 0)) / 1024 ** 2;
}

async function bareMemoryMb(docker: Docker, engine: DatabaseEngine): Promise<number> {
  await using server = createTestDatabase(engine);
  await server.run();
  await server.serves();
  await delay(settleMs);
  // Before the server is gone.
  return await memoryMb(docker.getContainer(server.name));
}

/** What servers hold of which nobody asks anything: as many at once as a small node would have. */
export async function idleBranches(cluster: Cluster): Promise<Row[]> {
  const rows: Row[] = [];
  for (const engine of databaseEngines) {
    const projects: string[] = [];
    const branches = [];
    for (let made = 0; made < projectsOf[engine]; made += 1) {
      const projectId = await emptyProject(cluster);
      projects.push(projectId);
      branches.push(
        ...(await Promise.all(channels.map((channel) => makeBranch(cluster, projectId, { engine, channel })))),
      );
    }
    await delay(settleMs);
    const samples: number[] = [];
    for (const branch of branches) samples.push(await memoryMb(await serverOf(cluster, branch)));
    await Promise.all(projects.map((projectId) => dropProject(cluster, projectId)));
    const floor = { name: "bare container", samples: [await bareMemoryMb(cluster.platform.docker, engine)] };
    const aim = { text: `<= ${aimsMb[engine]} MiB`, met: (value: number) => value <= aimsMb[engine] };
    rows.push({
      name: `databases: memory of each of ${samples.length} idle, ${engine}`,
      unit: "MB",
      samples,
      floor,
      aim,
    });
    if (engine !== "postgres") continue;
    const mean = samples.reduce((sum, each) => sum + each, 0) / samples.length;
    rows.push({
      ...{ name: `databases: memory of ${promised.branches} idle, ${engine}, by these`, unit: "MB", floor: null },
      samples: [mean * promised.branches],
      aim: { text: `<= ${promised.ofMb} MiB`, met: (value) => value <= promised.ofMb },
    });
  }
  return rows;
}
