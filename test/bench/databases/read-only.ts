import { performance } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { databaseEngines } from "@svc/proto";
import type { Cluster } from "../../cluster.ts";
import { beginNight, connectPlatformDatabase } from "../../support/platform-database.ts";
import { waitFor } from "../../support/wait-for.ts";
import { project } from "../deploys.ts";
import type { Row } from "../table.ts";
import { succeeded } from "../together.ts";

const lookMs = 5;
const aim = { text: "<= 1 s", met: (value: number) => value <= 1_000 };

/**
 * From the decision that a branch is read-only, or that it is not any more, until its owner's statements meet it so: a
 * statement that writes is refused by the server, or gets through again.
 */
export async function databasesReadOnly(cluster: Cluster, times: number): Promise<Row[]> {
  await using store = await connectPlatformDatabase(cluster.platform);
  const rows: Row[] = [];
  const { user } = (await succeeded(cluster, "GET", "/me")) as { user: { id: string } };
  for (const [slug, dbSizeMb] of [
    ["bench-roomy", 1_000],
    ["bench-full", 0],
  ] as const) {
    await succeeded(cluster, "POST", "/admin/plans", {
      slug,
      name: slug,
      dbSizeMb,
      dbConnectionLimit: 10,
      maxDatabases: 5,
    });
  }
  for (const engine of databaseEngines) {
    await succeeded(cluster, "POST", `/admin/users/${user.id}/plan`, { plan: "bench-roomy" });
    const { id } = await project(cluster, `Read only ${engine}`, "ssr");
    await succeeded(cluster, "POST", `/projects/${id}/database`, { engine });
    await waitFor("the database", 120_000, async () => (await query(cluster, id, "create table t (n int)")) === "done");
    const samples = { on: [] as number[], off: [] as number[] };
    for (let round = 0; round <= times; round += 1) {
      for (const [name, plan, isReadOnly] of [
        ["on", "bench-full", true],
        ["off", "bench-roomy", false],
      ] as const) {
        await succeeded(cluster, "POST", `/admin/users/${user.id}/plan`, { plan });
        // What the plan changes in the server is done before: this is about the decision alone.
        await settled(store, id);
        await beginNight(store);
        const fromMs = await decided(store, id, isReadOnly);
        const met = isReadOnly ? "refused" : "done";
        while ((await query(cluster, id, "insert into t values (1)")) !== met) await delay(lookMs);
        // The first round loads what the others find loaded.
        if (round > 0) samples[name].push(performance.now() - fromMs);
        await settled(store, id);
      }
    }
    for (const name of ["on", "off"] as const) {
      rows.push({ name: `read-only ${name}, ${engine}`, unit: "ms", samples: samples[name], floor: null, aim });
    }
    await succeeded(cluster, "DELETE", `/projects/${id}`);
  }
  return rows;
}

/** What becomes of a statement; `refused` is the word of the server alone. */
async function query(cluster: Cluster, projectId: string, sql: string): Promise<"done" | "refused" | "away"> {
  const { status, body } = await cluster.api("POST", `/projects/${projectId}/database/query`, { sql });
  if (status === 200) return "done";
  return /read-only/.test(JSON.stringify(body)) ? "refused" : "away";
}

type Store = Awaited<ReturnType<typeof connectPlatformDatabase>>;

/** When the row of the branch said so. */
async function decided(store: Store, projectId: string, isReadOnly: boolean): Promise<number> {
  for (;;) {
    const { rows } = await store.query("select read_only from database where project_id = $1", [projectId]);
    if (rows[0]?.read_only === isReadOnly) return performance.now();
    await delay(lookMs);
  }
}

/** Nothing is left to do for the branch. */
const settled = (store: Store, projectId: string) =>
  waitFor("the branch to settle", 120_000, async () => {
    const { rows } = await store.query(
      `select from work_item join database on work_item.key = 'database/' || database.id
       where project_id = $1 and state in ('queued', 'running')`,
      [projectId],
    );
    return rows.length === 0;
  });
