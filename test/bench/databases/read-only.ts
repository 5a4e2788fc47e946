import { performance } from "node:perf_hooks";
import { databaseEngines } from "@svc/proto";
import type { Cluster } from "../../cluster.ts";
import { succeeded, takePlan } from "../../support/api.ts";
import { beginNight, connectPlatformDatabase } from "../../support/platform-database.ts";
import { waitFor } from "../../support/wait-for.ts";
import type { Row } from "../table.ts";
import { dropProject, emptyProject, makeBranch } from "./branch.ts";

const lookMs = 5;
const doneMs = 120_000;
const aim = { text: "<= 1 s", met: (value: number) => value <= 1_000 };

/**
 * From the decision that a branch is read-only, or that it is not any more, until its owner's statements meet it so: a
 * statement that writes is refused by the server, or gets through again.
 */
export async function databasesReadOnly(cluster: Cluster, times: number): Promise<Row[]> {
  await using store = await connectPlatformDatabase(cluster.platform);
  const rows: Row[] = [];
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
    await takePlan(cluster, "bench-roomy");
    const id = await emptyProject(cluster);
    await makeBranch(cluster, id, { engine });
    await succeeded(cluster, "POST", `/projects/${id}/database/query`, { sql: "create table t (n int)" });
    const samples = { on: [] as number[], off: [] as number[] };
    for (let round = 0; round <= times; round += 1) {
      for (const [name, plan, isReadOnly] of [
        ["on", "bench-full", true],
        ["off", "bench-roomy", false],
      ] as const) {
        await takePlan(cluster, plan);
        // What the plan changes in the server is done before: this is about the decision alone.
        await settled(store, id);
        await beginNight(store);
        const fromMs = await decided(store, id, isReadOnly);
        const met = isReadOnly ? "refused" : "done";
        const isMet = async () => (await query(cluster, id, "insert into t values (1)")) === met;
        await waitFor(`a write to be ${met}`, doneMs, isMet, lookMs);
        // The first round loads what the others find loaded.
        if (round > 0) samples[name].push(performance.now() - fromMs);
        await settled(store, id);
      }
    }
    for (const name of ["on", "off"] as const) {
      rows.push({ name: `read-only ${name}, ${engine}`, unit: "ms", samples: samples[name], floor: null, aim });
    }
    await dropProject(cluster, id);
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
  const isDecided = async () => {
    const { rows } = await store.query("select read_only from database where project_id = $1", [projectId]);
    return rows[0]?.read_only === isReadOnly;
  };
  await waitFor("the night to decide", doneMs, isDecided, lookMs);
  return performance.now();
}

/** Nothing is left to do for the branch. */
const settled = (store: Store, projectId: string) =>
  waitFor("the branch to settle", doneMs, async () => {
    const { rows } = await store.query(
      `select from work_item join database on work_item.key = 'database/' || database.id
       where project_id = $1 and state in ('queued', 'running')`,
      [projectId],
    );
    return rows.length === 0;
  });
