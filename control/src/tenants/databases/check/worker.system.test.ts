import { databaseNames, keeperUser } from "@svc/proto";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { adminSecretAad, keeperSecretAad, openTenantPassword } from "../../../fleet/databases/secrets.ts";
import { verifierOf } from "../../../fleet/databases/verifier.ts";
import { databaseTask } from "../../../fleet/tasks/kinds/database.ts";
import { insertTask } from "../../../fleet/tasks/store.ts";
import { type TestApi, testApi } from "../../../http/testing.ts";
import { createLog } from "../../../log.ts";
import type { Branch } from "../../../stores/db/tables.ts";
import { findServer } from "../find-ready.ts";
import type { SqlRunner } from "../sql/runner.ts";
import { insertBranch } from "../store.ts";
import { startMariadb } from "../testing/mariadb.ts";
import { startPostgres } from "../testing/postgres.ts";
import { lineTo, type TestServer, testRunner, verifierFor } from "../testing/server.ts";
import { enqueueNightly, enqueueSoft } from "./nights.ts";
import { checkWorker } from "./worker.ts";

const engines = { postgres: startPostgres, mariadb: startMariadb };

for (const engine of ["postgres", "mariadb"] as const) {
  let server: TestServer;
  let runner: SqlRunner;
  let api: TestApi;
  let id = "";
  beforeAll(async () => {
    server = await engines[engine]();
    runner = testRunner();
    api = await testApi();
  });
  afterAll(async () => {
    await api?.[Symbol.asyncDispose]();
    await runner?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });
  const branch = (): Promise<Branch> =>
    api.db.selectFrom("database").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
  const target = () => ({
    ...{ projectId: id, ownerId: null, engine, openLine: lineTo(server.socket), tenant: null, admin: server.admin },
  });
  beforeEach(async () => {
    id = crypto.randomUUID();
    const node = crypto.randomUUID();
    const project = await api.newProject(await api.newUser());
    const { secrets } = api.context;
    await api.db.transaction().execute(async (tx) => {
      await insertBranch(tx, secrets, { id, projectId: project.id, channel: "production", engine });
      const admin_secret = secrets.seal(Buffer.from(server.admin.password), adminSecretAad(id));
      await tx
        .updateTable("database")
        .set({ status: "ready", node_id: node, tenant_at: new Date(), admin_secret })
        .where("id", "=", id)
        .execute();
      const row = await tx.selectFrom("database").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
      const resources = {
        memoryMb: 64,
        cpuMillicores: 9,
        pidsLimit: 64,
        reservedMemoryMb: 64,
        reservedCpuMillicores: 9,
      };
      const wanted = {
        ...resources,
        storageMb: 0,
        image: "db:1",
        sizeMb: 1_000_000,
        connections: 1_000,
        readOnly: false,
        nodeSelector: {},
      };
      const task = await insertTask(tx, { ...row, pr_number: null }, databaseTask(row, wanted), { replica: 0 });
      await tx.updateTable("task").set({ node_id: node }).where("id", "=", task).execute();
    });
    const row = await branch();
    const verifier = verifierOf(engine, id, openTenantPassword(secrets, row));
    const { database, role } = names();
    await runner.ask(target(), "createTenant", { database, role, verifier, connectionLimit: 5 });
  });

  const check = (sql: Pick<SqlRunner, "ask"> = runner) =>
    checkWorker({
      ...{ db: api.db, secrets: api.context.secrets, sql, log: createLog("silent") },
      fleet: { observation: () => null },
      openLine: (_, signal) => lineTo(server.socket)(signal),
    })({ payload: { databaseId: id } } as never, new AbortController().signal);
  const samples = () => api.db.selectFrom("database_sample").selectAll().where("database_id", "=", id).execute();
  const names = () => databaseNames(id);
  /** An empty database of MariaDB has a size of 0. */
  const fill = async () => {
    const password = openTenantPassword(api.context.secrets, await branch());
    const tenant = { user: names().role, database: names().database, password };
    const asked = { sql: "create table t (id int)", rollback: false, readOnly: false };
    await runner.ask({ ...target(), tenant }, "query", asked);
  };
  const resizePlan = (db_size_mb: number) =>
    api.db.updateTable("plan").set({ db_size_mb }).where("is_default", "=", true).execute();

  test(`a night adds one sample of a branch of ${engine}, and measures it`, async () => {
    expect(await enqueueNightly(api.db)).toBeGreaterThan(0);
    await check();
    await check();
    expect(await samples()).toHaveLength(1);
    expect((await branch()).size_bytes).toBe((await samples())[0]?.size_bytes);
  });

  test(`a branch of ${engine} that holds more than its plan allows is read-only until the night in which it may hold it`, async () => {
    await fill();
    const woken = () => api.db.selectFrom("work_item").select("key").where("key", "=", `database/${id}`).execute();
    await resizePlan(0);
    await check();
    await resizePlan(1_000);
    expect(await branch()).toMatchObject({ read_only: true, read_only_soft: null });
    expect(await woken()).toHaveLength(1);
    // Its server could be written to: nobody is let in.
    expect(await findServer(api.db, id)).toBeNull();
    await api.db
      .updateTable("task")
      .set({ spec: sql`spec || '{"readOnly": true}'` })
      .where("owner_id", "=", id)
      .execute();
    expect(await findServer(api.db, id)).toMatchObject({ databaseId: id });
    // By day nothing is decided, and what its server says is noted: this one is no standby.
    await check();
    expect(await branch()).toMatchObject({ read_only: true, read_only_soft: engine === "postgres" });
    expect(await enqueueSoft(api.db)).toBe(engine === "postgres" ? 1 : 0);
    // Another night.
    await api.db.deleteFrom("database_sample").where("database_id", "=", id).execute();
    await check();
    expect(await branch()).toMatchObject({ read_only: false, read_only_soft: null });
    expect(await findServer(api.db, id)).toMatchObject({ databaseId: id });
  });

  test(`a branch of ${engine} has a server of as many connections as its owner's plan gives, from the next night on`, async () => {
    const start = (spec: { connections: number; sizeMb: number }) =>
      api.db
        .updateTable("task")
        .set({ spec: sql`spec || ${JSON.stringify(spec)}::jsonb` })
        .where("owner_id", "=", id)
        .execute();
    const isWanted = async () =>
      (await api.db.selectFrom("task").select("desired").where("owner_id", "=", id).executeTakeFirstOrThrow()).desired;
    const woken = () => api.db.selectFrom("work_item").select("key").where("key", "=", `database/${id}`).execute();
    const { db_connection_limit: limit, db_size_mb: sizeMb } = await api.db
      .selectFrom("plan")
      .select(["db_connection_limit", "db_size_mb"])
      .where("is_default", "=", true)
      .executeTakeFirstOrThrow();
    // Five more for the console, and ten for the platform.
    const enough = { connections: limit + 15, sizeMb: Math.max(sizeMb, 1_000) };
    await start(enough);
    await check();
    expect({ desired: await isWanted(), woken: await woken() }).toEqual({ desired: "running", woken: [] });
    // By day it stays.
    await start({ ...enough, connections: enough.connections - 1 });
    await check();
    expect(await isWanted()).toBe("running");
    await api.db.deleteFrom("database_sample").where("database_id", "=", id).execute();
    await check();
    expect({ desired: await isWanted(), woken: await woken() }).toEqual({
      ...{ desired: "removed", woken: [{ key: `database/${id}` }] },
    });
  });

  test(`a branch of ${engine} is judged by the plan that its owner has once it is measured`, async () => {
    await fill();
    await api.db.updateTable("database").set({ read_only: true }).where("id", "=", id).execute();
    await resizePlan(0);
    await check({
      ask: async (target, name, asked) => {
        const answer = await runner.ask(target, name, asked);
        if (name === "usage") await resizePlan(1_000);
        return answer;
      },
    });
    expect(await branch()).toMatchObject({ read_only: false });
  });

  test(`a password of ${engine} that was changed outside is changed back, and somebody is told`, async () => {
    const { role } = names();
    await runner.ask(target(), "setVerifier", { role, verifier: verifierFor(engine, "another") });
    await check();
    const { verifier } = (await runner.ask(target(), "readVerifier", { role })).given;
    const row = await branch();
    expect(verifier).toBe(verifierOf(engine, id, openTenantPassword(api.context.secrets, row)));
    const audit = await api.db.selectFrom("audit").select("action").where("target", "=", row.project_id).execute();
    expect(audit).toContainEqual({ action: "database.password-restored" });
  });

  test(`a password of ${engine} that was changed outside is changed back where the server is read-only, too`, async () => {
    const { role } = names();
    await runner.ask(target(), "setVerifier", { role, verifier: verifierFor(engine, "another") });
    await api.db.updateTable("database").set({ read_only: true }).where("id", "=", id).execute();
    await api.db
      .updateTable("task")
      .set({ spec: sql`spec || '{"readOnly": true}'` })
      .where("owner_id", "=", id)
      .execute();
    await check();
    const row = await branch();
    const { verifier } = (await runner.ask(target(), "readVerifier", { role })).given;
    const isRight = verifier === verifierOf(engine, id, openTenantPassword(api.context.secrets, row));
    // A standby takes none: the branch's worker brings it by a server that does.
    expect({ isRight, isDoubted: row.tenant_at === null }).toEqual(
      engine === "postgres" ? { isRight: false, isDoubted: true } : { isRight: true, isDoubted: false },
    );
    const audit = await api.db.selectFrom("audit").select("action").where("target", "=", row.project_id).execute();
    expect(audit).toContainEqual({ action: "database.password-restored" });
  });

  test(`whoever keeps copies of ${engine} is let in by the password that control knows, whatever was done to it`, async () => {
    const { secrets } = api.context;
    const keeper_secret = secrets.seal(Buffer.from("kept"), keeperSecretAad(id));
    await api.db.updateTable("database").set({ keeper_secret, keeper_at: new Date() }).where("id", "=", id).execute();
    await runner.ask(target(), "bringKeeper", { verifier: verifierFor(engine, "another") });
    await check();
    const { verifier } = (await runner.ask(target(), "readVerifier", { role: keeperUser })).given;
    expect(verifier).toBe(verifierOf(engine, id, "kept"));
  });
}
