import { randomBytes, randomUUID } from "node:crypto";
import type { Scope } from "@svc/proto";
import { createRegistry, type Registry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../../../../registry/src/testing/docker-registry.ts";
import { createCollector } from "../../../fleet/artifacts/collect.ts";
import { repositories } from "../../../fleet/artifacts/repositories.ts";
import { beginPush, endPush } from "../../../fleet/artifacts/store.ts";
import { type CallOptions, type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import { createLog } from "../../../log.ts";
import type { BackupStatus, Branch, Channel } from "../../../stores/db/tables.ts";
import { insertBranch } from "../store.ts";
import { setComplete } from "./store.ts";

let server: RegistryProcess;
let registry: Registry;
let api: TestApi;
let user: TestUser;
beforeAll(async () => {
  server = await startDockerRegistry();
  registry = createRegistry(systemClock, { url: server.url });
  api = await testApi({ registryUrl: server.url });
  user = await api.newUser({ plan: { max_backups: 3 } });
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
  await registry?.close();
  await server?.[Symbol.asyncDispose]();
});

const call = (method: string, path: string, options: CallOptions = {}) =>
  api.call(method, `/projects/${path}`, { session: user.session, ...options });
const told = ({ status, body }: { status: number; body: { error?: { code: string } } }) =>
  body.error === undefined ? `${status}` : `${status} ${body.error.code}`;

async function aBranch(
  status: Branch["status"] = "ready",
  { channel = "production", owner = user }: { channel?: Channel; owner?: TestUser } = {},
): Promise<{ id: string; databaseId: string }> {
  const { id } = await api.newProject(owner);
  const databaseId = randomUUID();
  await insertBranch(api.db, api.context.secrets, { id: databaseId, projectId: id, channel, engine: "postgres" });
  const reason = status === "error" ? "its disk is full" : null;
  await api.db.updateTable("database").set({ status, reason }).where("id", "=", databaseId).execute();
  return { id, databaseId };
}

/** A backup as it stands when it has the status, with no file in the registry. */
async function aBackup(projectId: string, status: BackupStatus, channel: Channel = "production"): Promise<string> {
  const id = randomUUID();
  const isOver = status === "complete" || status === "failed";
  await api.db
    .insertInto("database_backup")
    .values({
      ...{ id, project_id: projectId, database_id: randomUUID(), channel, engine: "postgres", status },
      ...(isOver && { ended_at: new Date() }),
      ...(status === "failed" && { error: "the disk was full" }),
      ...(status === "complete" && { repository: "svc/x/backup", digest: "sha256:x", size_bytes: 7, dump_bytes: 9 }),
    })
    .execute();
  return id;
}

/** A complete backup whose file is in the registry. */
async function aStoredBackup(projectId: string, content: Buffer): Promise<{ id: string; digest: string }> {
  const id = await aBackup(projectId, "running");
  const repository = repositories.backup(projectId);
  const push = { id: randomUUID(), projectId, repository, kind: "backup" as const };
  await beginPush(api.db, push);
  const pushed = await registry.pushArtifact(repository, { kind: "backup", stream: content, tag: push.id });
  await endPush(api.db, push, pushed);
  await setComplete(api.db, id, { repository, ...pushed, dumpBytes: 1 });
  return { id, digest: pushed.digest };
}
const suspend = (id: string) =>
  api.db
    .updateTable("project")
    .set({ suspended_at: new Date(), suspend_reason: "admin" })
    .where("id", "=", id)
    .execute();

describe("beginning a backup", () => {
  test("answers with its id, has a worker make it, and shows it in the list", async () => {
    const { id, databaseId } = await aBranch("ready", { channel: "preview" });
    const made = await call("POST", `${id}/database/backups?channel=preview`);
    expect([made.status, made.body]).toEqual([
      202,
      { ok: true, channel: "preview", engine: "postgres", backupId: expect.any(String), status: "pending" },
    ]);
    const { backupId } = made.body;
    const shown = {
      ...{ id: backupId, channel: "preview", engine: "postgres", status: "pending", sizeBytes: 0, error: null },
      ...{ filename: expect.stringMatching(/^preview-postgres-\d{8}T\d{6}Z\.sql\.gz$/), completedAt: null },
      ...{ scheduled: false, offsiteAt: null },
      createdAt: expect.any(String),
    };
    expect((await call("GET", `${id}/database/backups/${backupId}`)).body).toEqual({ ok: true, backup: shown });
    expect((await call("GET", `${id}/database/backups?channel=preview`)).body.backups).toEqual([shown]);
    expect((await call("GET", `${id}/database/backups`)).body.backups).toEqual([]);
    const row = await api.db.selectFrom("database_backup").select("database_id").where("id", "=", backupId).execute();
    expect(row).toEqual([{ database_id: databaseId }]);
    const work = await api.db.selectFrom("work_item").select("kind").where("key", "=", `backup/${backupId}`).execute();
    expect(work).toEqual([{ kind: "backup" }]);
  });

  test.each([
    ["provisioning", "409 DATABASE_PROVISIONING"],
    ["dropping", "409 DATABASE_NOT_READY"],
    ["error", "409 DATABASE_NOT_READY"],
  ] as const)("of a branch that is %s: %s", async (status, answer) => {
    const { id } = await aBranch(status);
    expect(told(await call("POST", `${id}/database/backups`))).toBe(answer);
  });

  test("needs a branch, a plan with databases, and a project on the air", async () => {
    const { id } = await aBranch();
    expect(told(await call("POST", `${id}/database/backups?channel=dev`))).toBe("404 NOT_FOUND");
    expect(told(await call("POST", `${id}/database/backups?channel=other`))).toBe("422 VALIDATION");
    await suspend(id);
    expect(told(await call("POST", `${id}/database/backups`))).toBe("403 SUSPENDED");
    const poor = await api.newUser({ plan: { max_databases: 0, max_backups: 3 } });
    const { id: of } = await aBranch("ready", { owner: poor });
    expect(told(await call("POST", `${of}/database/backups`, { session: poor.session }))).toBe(
      "403 PLAN_FEATURE_UNAVAILABLE",
    );
  });

  test("is one for one Idempotency-Key: sent again, it says which", async () => {
    const { id } = await aBranch();
    const begin = (channel: Channel) =>
      call("POST", `${id}/database/backups?channel=${channel}`, { headers: { "idempotency-key": `begin-${id}` } });
    const made = await begin("production");
    expect(told(made)).toBe("202");
    expect((await begin("production")).body).toEqual(made.body);
    await api.db
      .updateTable("database_backup")
      .set({ status: "failed", error: "x", ended_at: new Date() })
      .where("project_id", "=", id)
      .execute();
    expect((await begin("production")).body).toEqual(made.body);
    expect(told(await begin("preview"))).toBe("409 IDEMPOTENCY_CONFLICT");
  });

  test("is one at a time, over all channels, however many ask at once; the answer names the channel", async () => {
    const { id } = await aBranch();
    const answers = await Promise.all([1, 2, 3, 4].map(() => call("POST", `${id}/database/backups`)));
    expect(answers.map(told).toSorted()).toEqual(["202", ...Array(3).fill("409 BACKUP_IN_PROGRESS")]);
    await insertBranch(api.db, api.context.secrets, {
      ...{ id: randomUUID(), projectId: id, channel: "dev", engine: "postgres" },
    });
    await api.db.updateTable("database").set({ status: "ready" }).where("project_id", "=", id).execute();
    const second = await call("POST", `${id}/database/backups?channel=dev`);
    expect([told(second), second.body.error.message]).toEqual([
      "409 BACKUP_IN_PROGRESS",
      expect.stringContaining("production"),
    ]);
  });

  test("ends at the plan's number of complete ones, of all channels; failed ones count for nothing", async () => {
    const { id } = await aBranch();
    for (const channel of ["production", "preview"] as const) await aBackup(id, "complete", channel);
    await aBackup(id, "failed");
    await aBackup(id, "failed");
    const third = await aBackup(id, "complete", "dev");
    expect(told(await call("POST", `${id}/database/backups`))).toBe("403 QUOTA_EXCEEDED");
    expect(told(await call("DELETE", `${id}/database/backups/${third}`))).toBe("200");
    expect(told(await call("POST", `${id}/database/backups`))).toBe("202");
    const none = await api.newUser({ plan: { max_backups: 0 } });
    const { id: of } = await aBranch("ready", { owner: none });
    expect(told(await call("POST", `${of}/database/backups`, { session: none.session }))).toBe("403 QUOTA_EXCEEDED");
  });
});

describe("backups that are there", () => {
  test("of all channels are listed, the newest first, or of one; never of both", async () => {
    const { id } = await aBranch();
    const first = await aBackup(id, "complete", "dev");
    const second = await aBackup(id, "failed", "production");
    const ids = async (query: string) =>
      (await call("GET", `${id}/database/backups?${query}`)).body.backups.map((each: { id: string }) => each.id);
    expect(await ids("allChannels=true")).toEqual([second, first]);
    expect(await ids("channel=dev")).toEqual([first]);
    expect(await ids("allChannels=false")).toEqual([second]);
    for (const query of ["channel=dev&allChannels=true", "allChannels=yes", "channel=x"]) {
      expect(told(await call("GET", `${id}/database/backups?${query}`))).toBe("422 VALIDATION");
    }
  });

  test("outlive their branch, the plan and the project's suspension, to be read, downloaded and deleted", async () => {
    const owner = await api.newUser({ plan: { max_backups: 3 } });
    const { id, databaseId } = await aBranch("ready", { owner });
    const { session } = owner;
    const file = randomBytes(1_000);
    const { id: backupId } = await aStoredBackup(id, file);
    await api.db.deleteFrom("database").where("id", "=", databaseId).execute();
    await api.db
      .updateTable("plan")
      .set({ max_databases: 0 })
      .where("id", "in", (of) => of.selectFrom("account").select("plan_id").where("user_id", "=", owner.id))
      .execute();
    await suspend(id);
    const at = `${id}/database/backups/${backupId}`;
    expect((await call("GET", at, { session })).body.backup).toMatchObject({ status: "complete", sizeBytes: 1_000 });
    expect((await call("GET", `${id}/database/backups`, { session })).body.backups).toHaveLength(1);
    expect(told(await call("GET", `${at}/download`, { session }))).toBe("200");
    expect(await call("DELETE", at, { session })).toMatchObject({ status: 200, body: { ok: true, deleted: true } });
    expect(told(await call("GET", at, { session }))).toBe("404 NOT_FOUND");
  });

  test.each([
    ["pending", "409 BACKUP_NOT_READY", "409 BACKUP_IN_PROGRESS"],
    ["running", "409 BACKUP_NOT_READY", "409 BACKUP_IN_PROGRESS"],
    ["failed", "409 BACKUP_NOT_READY", "200"],
  ] as const)("when %s: downloading %s, deleting %s", async (status, download, remove) => {
    const { id } = await aBranch();
    const at = `${id}/database/backups/${await aBackup(id, status)}`;
    expect(told(await call("GET", `${at}/download`))).toBe(download);
    expect(told(await call("DELETE", at))).toBe(remove);
  });

  test("are of the channel that is said, or it is refused; what is not there is not there", async () => {
    const [{ id }, { id: other }] = [await aBranch(), await aBranch()];
    const backupId = await aBackup(id, "failed", "dev");
    for (const [method, tail] of [
      ["GET", ""],
      ["GET", "/download"],
      ["DELETE", ""],
    ] as const) {
      const ask = (path: string) => call(method, `${path}`).then(told);
      expect(await ask(`${id}/database/backups/${backupId}${tail}?channel=preview`)).toBe("422 VALIDATION");
      expect(await ask(`${other}/database/backups/${backupId}${tail}`)).toBe("404 NOT_FOUND");
      expect(await ask(`${id}/database/backups/${randomUUID()}${tail}`)).toBe("404 NOT_FOUND");
      expect(await ask(`${id}/database/backups/nonsense${tail}`)).toBe("404 NOT_FOUND");
    }
    expect(told(await call("GET", `${id}/database/backups/${backupId}?channel=dev`))).toBe("200");
  });

  test("are begun and deleted by who may write, and read by who may read", async () => {
    const { id } = await aBranch();
    const backupId = await aBackup(id, "failed");
    const as = async (scope: Scope, method: string, path: string) => {
      const { key } = await api.newKey(user, { scopes: [scope] });
      return told(await api.call(method, `/projects/${id}/database/backups${path}`, { key }));
    };
    expect(await as("projects:read", "GET", `/${backupId}`)).toBe("200");
    expect(await as("projects:read", "POST", "")).toBe("403 FORBIDDEN_SCOPE");
    expect(await as("projects:read", "DELETE", `/${backupId}`)).toBe("403 FORBIDDEN_SCOPE");
    expect(await as("projects:write", "POST", "")).toBe("202");
  });
});

describe("downloading", () => {
  test("gives the very bytes, how many they are, and what to call them", async () => {
    const { id } = await aBranch();
    const content = randomBytes(3_000_000);
    const { id: backupId } = await aStoredBackup(id, content);
    const url = `${api.url}/api/v1/projects/${id}/database/backups/${backupId}/download`;
    const headers = { authorization: `Bearer ${user.session}` };
    const reply = await fetch(url, { headers });
    expect(Buffer.from(await reply.arrayBuffer()).equals(content)).toBe(true);
    expect(Object.fromEntries(reply.headers)).toMatchObject({
      "content-type": "application/gzip",
      "content-length": "3000000",
      "content-disposition": expect.stringMatching(/^attachment; filename="production-postgres-[\dTZ]+\.sql\.gz"$/),
    });
    const head = await fetch(url, { method: "HEAD", headers });
    expect([head.status, head.headers.get("content-length"), await head.text()]).toEqual([200, "3000000", ""]);
  });

  test("ends when the client goes away, and others are served on", async () => {
    const { id } = await aBranch();
    const { id: backupId } = await aStoredBackup(id, randomBytes(20_000_000));
    const url = `${api.url}/api/v1/projects/${id}/database/backups/${backupId}/download`;
    const abort = new AbortController();
    const reply = await fetch(url, { headers: { authorization: `Bearer ${user.session}` }, signal: abort.signal });
    await reply.body?.getReader().read();
    const before = await connections();
    abort.abort();
    await expect.poll(() => connections()).toBeLessThan(before);
    expect(told(await call("GET", `${id}/database/backups/${backupId}`))).toBe("200");
  });

  test("says UNAVAILABLE while the registry is away", async () => {
    await using away = await testApi();
    const owner = await away.newUser();
    const { id } = await away.newProject(owner);
    const backup = { id: randomUUID(), project_id: id, database_id: randomUUID(), channel: "dev" } as const;
    const end = { engine: "postgres", status: "complete", ended_at: new Date() } as const;
    const file = {
      repository: repositories.backup(id),
      digest: `sha256:${"a".repeat(64)}`,
      size_bytes: 1,
      dump_bytes: 1,
    };
    await away.db
      .insertInto("database_backup")
      .values({ ...backup, ...end, ...file })
      .execute();
    const path = `/projects/${id}/database/backups/${backup.id}/download`;
    expect(told(await away.call("GET", path, { session: owner.session }))).toBe("503 UNAVAILABLE");
  });
});

test("a file stays while there is its backup, and goes once that is deleted", async () => {
  const { id } = await aBranch();
  const { id: backupId, digest } = await aStoredBackup(id, randomBytes(100));
  const collector = createCollector({
    ...{ clock: systemClock, db: api.db, registry, log: createLog("silent") },
    bounds: { graceMs: 0 },
  });
  const isThere = async () => (await registry.findManifest(repositories.backup(id), digest)) !== null;
  await collector.collectProject(id);
  expect(await isThere()).toBe(true);
  await call("DELETE", `${id}/database/backups/${backupId}`);
  await collector.collectProject(id);
  expect(await isThere()).toBe(false);
});

/** Connections that clients of the API have. */
const connections = (): Promise<number> =>
  new Promise((resolve, reject) =>
    api.server.server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
  );
