import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { createRegistry, type Registry, RegistryError } from "@svc/registry";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../../../registry/src/testing/docker-registry.ts";
import { type TestApi, testApi } from "../../http/testing.ts";
import { createLog } from "../../log.ts";
import { createDb, type Db } from "../../stores/db/pool.ts";
import type { Deployment, Project } from "../../stores/db/tables.ts";
import { lockWaits } from "../../stores/db/testing.ts";
import { insertTask } from "../tasks/store.ts";
import { type Collector, createCollector } from "./collect.ts";
import { announcedPushes } from "./push.ts";
import { beginPush, endPush, storedBytes } from "./store.ts";

const log = createLog("silent");
const never = new AbortController().signal;

let registryProcess: RegistryProcess;
let registry: Registry;
let api: TestApi;
let db: Db;
let collector: Collector;
beforeAll(async () => {
  registryProcess = await startDockerRegistry();
  registry = createRegistry(systemClock, { url: registryProcess.url });
  api = await testApi({ registryUrl: registryProcess.url });
  db = api.db;
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
  await registry?.close();
  await registryProcess?.[Symbol.asyncDispose]();
});

let project: Project;
beforeEach(async () => {
  await db.deleteFrom("artifact").execute();
  project = await api.newProject(await api.newUser());
  collector = createCollector({ clock: systemClock, db, registry, log });
});

/** Pushes a bundle as a build does. `told`: control hears of what came of it. */
async function push(content: string, { told = true, id = String(randomUUID()) } = {}) {
  const repository = `svc/${project.id}/bundle`;
  const announced = { id, projectId: project.id, repository, kind: "bundle" } as const;
  expect(await beginPush(db, announced)).toBe(true);
  const pushed = await registry.pushArtifact(repository, { kind: "bundle", stream: Buffer.from(content), tag: id });
  if (told) await endPush(db, announced, pushed);
  return { id, repository, digest: pushed.digest };
}

/** One that a build is about to begin. */
const aPush = () => ({
  ...{ id: String(randomUUID()), projectId: project.id },
  ...{ repository: `svc/${project.id}/bundle`, kind: "bundle" as const },
});

/** Makes everything that was pushed old enough to go. */
const age = () =>
  sql`update artifact set created_at = '2020-01-01', ended_at = ended_at - interval '1 year'`.execute(db);

const deployed = (
  status: Deployment["status"],
  { repository, digest }: { repository: string; digest: string },
  values: Partial<Deployment> = {},
) =>
  api.newDeployment(project, {
    status,
    artifact_kind: "bundle",
    artifact_repository: repository,
    artifact_digest: digest,
    ...values,
  });

async function isThere({ repository, digest }: { repository: string; digest: string }): Promise<boolean> {
  try {
    await registry.getManifest(repository, digest);
    return true;
  } catch (error) {
    if (error instanceof RegistryError && error.code === "ARTIFACT_NOT_FOUND") return false;
    throw error;
  }
}

test("of many deployments, what serves and the last five before it stay, and the rows say so", async () => {
  const pushes = [];
  for (let n = 0; n < 8; n += 1) {
    const pushed = await push(`edition ${n}`);
    await deployed(n === 7 ? "running" : "superseded", pushed);
    pushes.push(pushed);
  }
  await age();
  expect(await collector.round(never)).toEqual({ projects: 1, removed: 2, lookedUp: 0 });
  expect(await Promise.all(pushes.map(isThere))).toEqual([false, false, true, true, true, true, true, true]);
  const rows = await db
    .selectFrom("deployment")
    .selectAll()
    .where("project_id", "=", project.id)
    .orderBy("number")
    .execute();
  expect(rows.map(({ artifact_removed_at }) => artifact_removed_at !== null)).toEqual([
    ...[true, true],
    ...[false, false, false, false, false, false],
  ]);
  expect(await collector.round(never)).toMatchObject({ removed: 0 });
  // The rest of a long history is not even read again.
  await db.updateTable("deployment").set({ status: "superseded" }).where("project_id", "=", project.id).execute();
  expect(await collector.round(never)).toMatchObject({ removed: 1 });
});

test("an upload whose deployment was refused goes after its grace, and no sooner", async () => {
  const pushed = await push("refused");
  expect(await collector.round(never)).toMatchObject({ removed: 0 });
  expect(await isThere(pushed)).toBe(true);
  await age();
  expect(await collector.round(never)).toMatchObject({ removed: 1 });
  expect(await isThere(pushed)).toBe(false);
  expect(await storedBytes(db, project.id)).toEqual({ source: 0, image: 0, bundle: 0, backup: 0, screenshot: 0 });
});

test("what a build pushed is found although control never heard of it", async () => {
  const deployment = await api.newDeployment(project, { status: "failed" });
  const repository = `svc/${project.id}/bundle`;
  const id = await insertTask(
    db,
    deployment,
    {
      ...{ specHash: "h", memoryMb: 1, cpuMillicores: 1, pidsLimit: 1, storageMb: 1, nodeSelector: {} },
      ...{ reservedMemoryMb: 1, reservedCpuMillicores: 1 },
      spec: {
        ...{ kind: "build", sourceRepository: "s", sourceDigest: "d", targetRepository: repository, rootDirectory: "" },
        ...{ recipe: { static: { command: "", output: "." } }, timeoutSeconds: 1, maxImageMb: 1, maxUnpackedMb: 1 },
        cacheNamespace: "c",
      },
    },
    { replica: 0 },
  );
  const pushed = await push("unheard", { told: false, id });
  // As long as its node may still be at work, nobody draws conclusions.
  await age();
  expect(await collector.round(never)).toMatchObject({ removed: 0, lookedUp: 0 });
  await db.updateTable("task").set({ desired: "removed", reaped_at: new Date() }).where("id", "=", id).execute();
  expect(await collector.round(never)).toMatchObject({ removed: 1, lookedUp: 1 });
  expect(await isThere(pushed)).toBe(false);
});

test("an upload is on record under its tag, and one that breaks off is looked up at once", async () => {
  const repository = `svc/${project.id}/source`;
  const pushes = announcedPushes({ random: systemRandom, db, registry }, project.id);
  const pushed = await pushes.pushArtifact(repository, { kind: "source", stream: Buffer.from("archive") });
  const row = await db
    .selectFrom("artifact")
    .selectAll()
    .where("project_id", "=", project.id)
    .executeTakeFirstOrThrow();
  expect(row).toMatchObject({ repository, kind: "source", digest: pushed.digest, size_bytes: 7 });
  expect((await registry.getManifest(repository, row.id)).digest).toBe(pushed.digest);
  expect(await storedBytes(db, project.id)).toEqual({ source: 7, image: 0, bundle: 0, backup: 0, screenshot: 0 });

  const broken = Readable.from(
    (async function* () {
      yield Buffer.from("half");
      throw new Error("the client went away");
    })(),
  );
  await expect(pushes.pushArtifact(repository, { kind: "source", stream: broken })).rejects.toThrow();
  expect(await collector.round(never)).toMatchObject({ removed: 0, lookedUp: 1 });
  await db.deleteFrom("project").where("id", "=", project.id).execute();
  const late = pushes.pushArtifact(repository, { kind: "source", stream: Buffer.from("late") });
  await expect(late).rejects.toMatchObject({ code: "NOT_FOUND" });
});

test("a push that never came to its end leaves nothing behind", async () => {
  const dying = { ...aPush(), repository: `svc/${project.id}/source`, kind: "source" } as const;
  await beginPush(db, dying);
  await endPush(db, dying, null);
  expect(await collector.round(never)).toMatchObject({ removed: 0, lookedUp: 1 });
  expect(await db.selectFrom("artifact").select("id").execute()).toEqual([]);
});

test("a push that was given up for dead, and came to its end all the same, is on record", async () => {
  const slow = aPush();
  await beginPush(db, slow);
  await age();
  expect(await collector.round(never)).toMatchObject({ lookedUp: 1 });
  const { digest, contentBytes } = await registry
    .pushArtifact(slow.repository, { kind: "bundle", stream: Buffer.from("slow"), tag: slow.id })
    .then((pushed) => registry.getManifest(slow.repository, pushed.digest));
  await endPush(db, slow, { digest, sizeBytes: contentBytes });
  expect(await storedBytes(db, project.id)).toMatchObject({ bundle: contentBytes });
  await age();
  expect(await collector.round(never)).toMatchObject({ removed: 1 });
  expect(await isThere({ repository: slow.repository, digest })).toBe(false);
});

describe("while somebody is at work", () => {
  const waitingForLocks = () => lockWaits(db);

  test("whoever gives up their push does not give up that of another", async () => {
    const pushed = await push("the same bytes");
    await age();
    const [first, second] = [aPush(), aPush()];
    await beginPush(db, first);
    await beginPush(db, second);
    await endPush(db, first, null);
    expect(await collector.round(never)).toMatchObject({ removed: 0 });
    expect(await isThere(pushed)).toBe(true);
  });

  test("content that is pushed again is not deleted under the one who pushes it", async () => {
    const pushed = await push("the same bytes");
    await age();
    const again = aPush();
    await beginPush(db, again);
    expect(await collector.round(never)).toMatchObject({ removed: 0 });
    await endPush(db, again, { digest: pushed.digest, sizeBytes: 1 });
    await deployed("queued", pushed);
    await age();
    expect(await collector.round(never)).toMatchObject({ removed: 0 });
    expect(await isThere(pushed)).toBe(true);
  });

  test("a push that begins during a collection waits until what goes is gone", async () => {
    const pushed = await push("the same bytes");
    await age();
    const order: string[] = [];
    const { promise: deleting, resolve: isDeleting } = Promise.withResolvers<void>();
    const { promise: goOn, resolve: letGo } = Promise.withResolvers<void>();
    const slow = createCollector({
      ...{ db, log, clock: systemClock },
      registry: {
        getManifest: registry.getManifest,
        async deleteManifest(repository, digest) {
          isDeleting();
          await goOn;
          const was = await registry.deleteManifest(repository, digest);
          order.push("deleted");
          return was;
        },
      },
    });
    const collecting = slow.round(never);
    await deleting;
    const beginning = beginPush(db, {
      ...{ id: randomUUID(), projectId: project.id, repository: pushed.repository, kind: "bundle" },
    }).then(() => order.push("begun"));
    // It waits for the lock: Postgres says so.
    await expect.poll(waitingForLocks).toBeGreaterThan(0);
    letGo();
    await Promise.all([collecting, beginning]);
    expect(order).toEqual(["deleted", "begun"]);
  });

  test("a rollback that was accepted first keeps its artifact", async () => {
    const pushed = await push("old");
    await deployed("failed", pushed);
    await age();
    const { promise: accepted, resolve: accept } = Promise.withResolvers<void>();
    const { promise: locked, resolve: isLocked } = Promise.withResolvers<void>();
    const rollingBack = db.transaction().execute(async (tx) => {
      await tx.selectFrom("project").select("id").where("id", "=", project.id).forNoKeyUpdate().execute();
      isLocked();
      await accepted;
      await tx
        .insertInto("deployment")
        .values({
          ...{ project_id: project.id, channel: "production", url: "http://shop.test", manifest: "{}" },
          ...{ artifact_kind: "bundle", artifact_repository: pushed.repository, artifact_digest: pushed.digest },
        })
        .execute();
    });
    await locked;
    const collecting = collector.round(never);
    await expect.poll(waitingForLocks).toBeGreaterThan(0);
    accept();
    await rollingBack;
    expect(await collecting).toMatchObject({ removed: 0 });
    expect(await isThere(pushed)).toBe(true);
  });

  test("the project is free between two removals", async () => {
    const user = await api.newUser();
    project = await api.newProject(user);
    await push("first");
    await push("second");
    await age();
    const order: string[] = [];
    const first = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    await using own = createDb({ url: api.context.config.databaseUrl, maxConnections: 1 });
    const slow = createCollector({
      ...{ db: own, log, clock: systemClock },
      registry: {
        getManifest: registry.getManifest,
        async deleteManifest(repository, digest) {
          order.push("delete");
          first.resolve();
          await goOn.promise;
          return registry.deleteManifest(repository, digest);
        },
      },
    });
    const collecting = slow.round(never);
    await first.promise;
    const patching = api
      .call("PATCH", `/projects/${project.id}`, { session: user.session, body: { productionBranch: "next" } })
      .then(({ status }) => order.push(`patched: ${status}`));
    await expect.poll(waitingForLocks).toBeGreaterThan(0);
    // Who waits for a row has to wake up before somebody else comes and takes it, which Postgres does not see to: the
    // collection gets its only connection back when that has happened.
    const between = own.connection().execute(() => patching);
    goOn.resolve();
    expect(await collecting).toMatchObject({ removed: 2 });
    await between;
    expect(order).toEqual(["delete", "patched: 200", "delete"]);
  });

  test("a registry that does not answer does not hold the project for long", async () => {
    await push("stuck");
    await age();
    let signal: AbortSignal | undefined;
    const stuck = createCollector({
      ...{ db, log, clock: systemClock, removalMs: 50 },
      registry: {
        getManifest: registry.getManifest,
        deleteManifest: (_repository, _digest, options) => {
          signal = options?.signal;
          return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal?.reason)));
        },
      },
    });
    await expect(stuck.round(never)).rejects.toThrow(/timeout/);
    expect(await collector.round(never)).toMatchObject({ removed: 1 });
  });

  test("no deployment promises what was deleted, though the registry's answer was lost", async () => {
    const pushes = [await push("first"), await push("second"), await push("third")];
    for (const each of pushes) await deployed("failed", each);
    await age();
    let calls = 0;
    const failing = createCollector({
      ...{ db, log, clock: systemClock },
      registry: {
        getManifest: registry.getManifest,
        async deleteManifest(repository, digest) {
          calls += 1;
          const was = await registry.deleteManifest(repository, digest);
          if (calls === 2) throw new RegistryError("ARTIFACT_REGISTRY_UNAVAILABLE", "away");
          return was;
        },
      },
    });
    await expect(failing.round(never)).rejects.toThrow("away");
    const gone = (await Promise.all(pushes.map(isThere))).map((there) => !there);
    expect(gone.filter(Boolean)).toHaveLength(2);
    for (const [at, { digest }] of pushes.entries()) {
      if (!gone[at]) continue;
      const row = await db
        .selectFrom("deployment")
        .select("artifact_removed_at")
        .where("project_id", "=", project.id)
        .where("artifact_digest", "=", digest)
        .executeTakeFirstOrThrow();
      expect(row.artifact_removed_at).not.toBeNull();
    }
    expect(await collector.round(never)).toMatchObject({ removed: 2 });
    expect(await Promise.all(pushes.map(isThere))).toEqual([false, false, false]);
  });

  test("a round that is cut short by the registry is done again", async () => {
    const first = await push("first");
    const second = await push("second");
    await age();
    let calls = 0;
    const failing = createCollector({
      ...{ db, log, clock: systemClock },
      registry: {
        getManifest: registry.getManifest,
        deleteManifest(repository, digest) {
          calls += 1;
          if (calls === 2) throw new RegistryError("ARTIFACT_REGISTRY_UNAVAILABLE", "away");
          return registry.deleteManifest(repository, digest);
        },
      },
    });
    await expect(failing.round(never)).rejects.toThrow("away");
    expect(await collector.round(never)).toMatchObject({ removed: 1 });
    expect([await isThere(first), await isThere(second)]).toEqual([false, false]);
  });
});

test("what a deleted project left goes whatever its age; what is still being uploaded goes after it", async () => {
  const pushed = await push("serves");
  await deployed("running", pushed);
  const upload = { ...aPush(), repository: `svc/${project.id}/source`, kind: "source" } as const;
  await beginPush(db, upload);
  await db.deleteFrom("project").where("id", "=", project.id).execute();
  expect(await collector.collectProject(project.id)).toBe(true);
  expect(await isThere(pushed)).toBe(false);
  expect(await beginPush(db, { id: randomUUID(), projectId: project.id, repository: "svc/x", kind: "source" })).toBe(
    false,
  );
  const archive = await registry.pushArtifact(`svc/${project.id}/source`, {
    ...{ kind: "source", stream: Buffer.from("late"), tag: upload.id },
  });
  await endPush(db, upload, archive);
  await collector.round(never);
  expect(await isThere({ repository: `svc/${project.id}/source`, digest: archive.digest })).toBe(false);
  expect(await db.selectFrom("artifact").select("id").execute()).toEqual([]);
});
