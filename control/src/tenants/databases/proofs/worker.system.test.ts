import { randomUUID } from "node:crypto";
import { databaseNames, defaultDatabaseImages } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { ObservationValue } from "../../../fleet/cluster/keys.ts";
import { adminSecretAad, openTenantPassword } from "../../../fleet/databases/secrets.ts";
import { verifierOf } from "../../../fleet/databases/verifier.ts";
import { databaseTask } from "../../../fleet/tasks/kinds/database.ts";
import { insertTask } from "../../../fleet/tasks/store.ts";
import { type TestApi, testApi } from "../../../http/testing.ts";
import { createLog } from "../../../log.ts";
import { readDurability } from "../copies/durability.ts";
import { beginCopy } from "../copies/store.ts";
import type { SqlRunner } from "../sql/runner.ts";
import { insertBranch } from "../store.ts";
import { startPostgres } from "../testing/postgres.ts";
import { lineTo, type TestServer, testRunner } from "../testing/server.ts";
import { beginProofs } from "./store.ts";
import { proofWorker } from "./worker.ts";

let server: TestServer;
let runner: SqlRunner;
let api: TestApi;
beforeAll(async () => {
  server = await startPostgres();
  runner = testRunner();
  api = await testApi();
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
  await runner?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

let id = "";
let copyId = "";
/** What nodes said, by placement. */
let said: Map<string, Partial<ObservationValue>>;
beforeEach(async () => {
  const { db, context } = api;
  id = randomUUID();
  said = new Map();
  const [home] = await Promise.all([
    db
      .insertInto("node")
      .values({ role: "node", name: `n-${id}` })
      .returning("id")
      .executeTakeFirstOrThrow(),
  ]);
  const project = await api.newProject(await api.newUser());
  await insertBranch(db, context.secrets, { id, projectId: project.id, channel: "production", engine: "postgres" });
  const admin_secret = context.secrets.seal(Buffer.from(server.admin.password), adminSecretAad(id));
  await db
    .updateTable("database")
    .set({ status: "ready", node_id: home.id, admin_secret })
    .where("id", "=", id)
    .execute();
  const row = await branch();
  const resources = { memoryMb: 64, cpuMillicores: 9, pidsLimit: 64, reservedMemoryMb: 64, reservedCpuMillicores: 9 };
  const wanted = {
    ...resources,
    storageMb: 0,
    image: "db:1",
    sizeMb: 10,
    connections: 20,
    readOnly: false,
    nodeSelector: {},
  };
  const task = await insertTask(db, { ...row, pr_number: null }, databaseTask(row, wanted), { replica: 0 });
  await db.updateTable("task").set({ node_id: home.id }).where("id", "=", task).execute();
  said.set(task, { observed: "running", health: "healthy" });
  const { database, role } = databaseNames(id);
  const verifier = verifierOf("postgres", id, openTenantPassword(context.secrets, row));
  await runner.ask(target(), "createTenant", { database, role, verifier, connectionLimit: 5 });
  copyId = await beginCopy(db, row, { purpose: "keeper", nodeId: home.id });
  const base = { number: 1, at: new Date(Date.now() - 60_000).toISOString(), bytes: 1 };
  await db
    .updateTable("database_copy")
    .set({
      ...{ state: "following", bases: JSON.stringify([base]), covered_at: new Date(Date.now() + 600_000) },
      // By day as well.
      created_at: new Date(Date.now() - 8 * 86_400_000),
    })
    .where("id", "=", copyId)
    .execute();
  await query("create table kept (id int); insert into kept values (1), (2)");
});

const branch = () => api.db.selectFrom("database").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
const target = () => ({
  ...{
    projectId: id,
    ownerId: null,
    engine: "postgres" as const,
    openLine: lineTo(server.socket),
    tenant: null,
    admin: server.admin,
  },
});
const query = async (sql: string) => {
  const { database, role: user } = databaseNames(id);
  const tenant = { user, database, password: openTenantPassword(api.context.secrets, await branch()) };
  return runner.ask({ ...target(), tenant }, "query", { sql, rollback: false, readOnly: false });
};
const proofs = () => api.db.selectFrom("restore_proof").selectAll().where("database_id", "=", id).execute();

async function work(): Promise<void> {
  const [proof] = await proofs();
  const handler = proofWorker({
    ...{ clock: systemClock, db: api.db, secrets: api.context.secrets, sql: runner, log: createLog("silent") },
    fleet: { observation: (_, placementId) => (said.get(placementId) as ObservationValue | undefined) ?? null },
    openLine: (_, signal) => lineTo(server.socket)(signal),
    images: defaultDatabaseImages,
  });
  await handler({ payload: { proofId: proof?.id } } as never, new AbortController().signal);
}

/** The copy's node restores it, and finds so many rows. */
async function restore(rows: number): Promise<void> {
  expect(await beginProofs(api.db)).toBeGreaterThan(0);
  await work();
  const task = await api.db
    .selectFrom("task")
    .selectAll()
    .where("owner_id", "=", copyId)
    .where("kind", "=", "proof")
    .executeTakeFirstOrThrow();
  await api.db.updateTable("task").set({ node_id: task.pinned_to }).where("id", "=", task.id).execute();
  const coveredAt = new Date(Date.now() - 100_000).toISOString();
  const proof = { coveredAt, tookMs: 7, bytes: 9, tables: [{ schema: "public", name: "kept", rows }], isCut: false };
  said.set(task.id, { observed: "completed", failure: null, proof });
  await work();
}

test("a copy that has what the branch has is proven, and people are told", async () => {
  await restore(2);
  expect(await proofs()).toMatchObject([{ verdict: "proven", took_ms: 7, bytes: 9, problem: null }]);
  const { lastProvenRestore } = (await readDurability(api.db, [id])).get(id) ?? {};
  expect(lastProvenRestore).toMatchObject({ tookMs: 7, bytes: 9 });
  // The same base is not proven twice.
  await beginProofs(api.db);
  expect(await proofs()).toHaveLength(1);
});

test("a copy that lacks a row is a failure with its reason, and in the audit", async () => {
  // Until the server has counted what was written.
  const counter = async () => {
    const { database, role: user } = databaseNames(id);
    const tenant = { user, database, password: openTenantPassword(api.context.secrets, await branch()) };
    const asked = { isCounted: false, budgetMs: 0 };
    return (await runner.ask({ ...target(), tenant }, "tables", asked)).given.tables[0]?.counter;
  };
  await expect.poll(counter, { timeout: 20_000 }).toMatch(/^2\//);
  await restore(1);
  expect(await proofs()).toMatchObject([
    { verdict: "failed", problem: expect.stringMatching(/public\.kept has 1 rows/) },
  ]);
  const { project_id } = await branch();
  const lines = await api.db.selectFrom("audit").select("action").where("target", "=", project_id).execute();
  expect(lines).toContainEqual({ action: "database.proof-failed" });
  expect((await readDurability(api.db, [id])).get(id)?.lastProvenRestore).toBeNull();
});
