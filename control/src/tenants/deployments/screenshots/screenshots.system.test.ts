import { randomBytes } from "node:crypto";
import { createRegistry, type Registry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../../../../registry/src/testing/docker-registry.ts";
import { createCollector } from "../../../fleet/artifacts/collect.ts";
import { repositories } from "../../../fleet/artifacts/repositories.ts";
import { keys, type ObservationValue } from "../../../fleet/cluster/keys.ts";
import { startTestFleet, type TestFleet } from "../../../fleet/nodes/testing.ts";
import { gateOf, gateSecretOf, passOf } from "../../../fleet/routes/gate.ts";
import { createPlacementLoader } from "../../../fleet/tasks/assignment.ts";
import type { TestApi, TestUser } from "../../../http/testing.ts";
import { createLog } from "../../../log.ts";
import type { Deployment, Node, Task } from "../../../stores/db/tables.ts";
import { until } from "../../../stores/etcd/testing.ts";
import { beginCaptures } from "./begin.ts";
import { forgetScreenshots } from "./forget.ts";
import { askForCapture } from "./store.ts";
import { screenshotWorker } from "./worker.ts";

let server: RegistryProcess;
let registry: Registry;
let world: TestFleet;
let api: TestApi;
let user: TestUser;
let node: Node;
beforeAll(async () => {
  server = await startDockerRegistry();
  world = await startTestFleet({ registryUrl: server.url });
  api = world.api;
  registry = createRegistry(systemClock, { url: server.url });
  user = await api.newUser();
  node = await world.newNode();
  const edge = await world.newNode({ role: "edge" });
  await api.db.updateTable("node").set({ address: "192.0.2.7" }).where("id", "=", edge.id).execute();
});
afterAll(async () => {
  await registry?.close();
  await world?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

const secret = gateSecretOf("a secret of at least 32 characters");
let deployment: Deployment;
beforeEach(async () => {
  // What earlier tests have left asks for nothing more.
  await api.db.updateTable("channel_state").set({ stopped: true }).execute();
  await api.db.updateTable("screenshot").set({ pending: false }).execute();
  deployment = await aLive();
});

/** What visitors of production see. */
async function aLive(channel: Deployment["channel"] = "production", owner = user): Promise<Deployment> {
  const project = await api.newProject(owner);
  const made = await api.newDeployment(project, { status: "running", channel });
  const of = { project_id: project.id, channel };
  await api.db
    .insertInto("channel_state")
    .values({ ...of, deployment_id: made.id })
    .execute();
  return made;
}

const path = () => `/deployments/${deployment.id}/screenshot`;
const call = (method: string, headers?: Record<string, string>) =>
  api.call(method, path(), { session: user.session, ...(headers && { headers }) });
const capturedAt = async () =>
  (await api.call("GET", `/deployments/${deployment.id}`, { session: user.session })).body.deployment
    .screenshotCapturedAt;
const screenshot = () =>
  api.db.selectFrom("screenshot").selectAll().where("deployment_id", "=", deployment.id).executeTakeFirstOrThrow();
const tasks = async (): Promise<Task[]> =>
  api.db
    .selectFrom("task")
    .selectAll()
    .where("owner_id", "=", (await screenshot()).id)
    .orderBy("epoch")
    .execute();
const lastTask = async (): Promise<Task> => {
  const task = (await tasks()).at(-1);
  if (task === undefined) throw new Error("there is no task");
  return task;
};
const askedAgo = (hours: number) =>
  api.db
    .updateTable("screenshot")
    .set({ asked_at: new Date(Date.now() - hours * 3_600_000) })
    .where("deployment_id", "=", deployment.id)
    .execute();

/** The worker, until it is done or waits for something. */
async function work(of: Pick<Deployment, "id"> = deployment): Promise<"done" | "waits"> {
  const handler = screenshotWorker({ ...world.deps, registry, config: api.context.config });
  const payload = { deploymentId: of.id };
  const item = { id: 1, kind: "screenshot", key: "k", attempt: 1, maxAttempts: 20, ageMs: 60_000, payload };
  return "state" in (await handler(item as never, new AbortController().signal)) ? "done" : "waits";
}

let said = 0;
async function observe({ id, epoch }: Task, change: Partial<ObservationValue>): Promise<void> {
  await api.db.updateTable("task").set({ node_id: node.id }).where("id", "=", id).execute();
  const value: ObservationValue = {
    ...{ placementId: id, epoch: Number(epoch), statusSeq: ++said, observed: "running", health: null, restartSeq: 0 },
    ...{ upstream: null, failure: null, build: null, changedAt: new Date().toISOString(), ...change },
  };
  await world.put(keys.observation(node.id, id), value);
  await until("it to be seen", () => world.fleet.observation(node.id, id)?.statusSeq === value.statusSeq);
}

/** What a node does that takes the picture. */
async function captured(content = randomBytes(1_000)): Promise<{ digest: string; sizeBytes: number }> {
  const task = await lastTask();
  const repository = repositories.screenshot(deployment.project_id);
  const pushed = await registry.pushArtifact(repository, { kind: "screenshot", stream: content, tag: task.id });
  const file = { digest: pushed.digest, sizeBytes: pushed.sizeBytes };
  await observe(task, { observed: "completed", capture: file });
  return file;
}
const failed = async () => {
  const failure = { code: "CAPTURE_SITE_FAILED", message: "The site is blank.", exitCode: null, oomKilled: false };
  await observe(await lastTask(), { observed: "failed", failure });
};

test("a picture is asked for, taken by a node, and shown", async () => {
  expect((await call("GET")).status).toBe(404);
  const asked = await call("POST");
  expect([asked.status, asked.body]).toEqual([202, { ok: true, queued: true }]);
  expect(await work()).toBe("waits");
  const task = await lastTask();
  expect(task).toMatchObject({ kind: "capture", owner_kind: "screenshot", pinned_to: null, memory_mb: 512 });
  expect(task.spec).toMatchObject({ edge: "192.0.2.7:8080", url: expect.stringMatching(/^http:\/\/.*:8080\/$/) });
  expect([await capturedAt(), (await call("GET")).status]).toEqual([null, 404]);
  const content = randomBytes(1_000);
  const { digest } = await captured(content);
  expect(await work()).toBe("done");
  expect(await capturedAt()).toEqual(expect.stringMatching(/^20.*Z$/));
  const shown = await call("GET");
  expect(shown.status).toBe(200);
  expect(Object.fromEntries(shown.headers)).toMatchObject({
    ...{ "content-type": "image/png", "cache-control": "private, no-cache", etag: `"${digest}"` },
    ...{ "content-length": "1000", "x-content-type-options": "nosniff" },
  });
  const { key } = await api.newKey(user, { scopes: ["projects:read"] });
  const reply = await fetch(`${api.url}/api/v1${path()}`, { headers: { "x-api-key": key } });
  expect(Buffer.from(await reply.arrayBuffer())).toEqual(content);
  expect((await call("GET", { "if-none-match": `"${digest}"` })).status).toBe(304);
  expect(await lastTask()).toMatchObject({ desired: "removed" });
});

test("another one may be asked for after ten minutes, and takes its place; the collector takes the old one", async () => {
  await call("POST");
  const refused = await call("POST");
  expect([refused.status, refused.body.error.code]).toEqual([429, "RATE_LIMITED"]);
  const wait = Number(refused.headers.get("retry-after"));
  expect(wait).toBeGreaterThan(500);
  expect(wait).toBeLessThanOrEqual(600);
  await work();
  const old = await captured();
  await work();
  const before = await capturedAt();
  await askedAgo(1);
  expect((await call("POST")).status).toBe(202);
  expect(await work()).toBe("waits");
  // Until then the old one is shown.
  expect([await capturedAt(), (await call("GET")).headers.get("etag")]).toEqual([before, `"${old.digest}"`]);
  const newer = await captured();
  await work();
  expect(await capturedAt()).not.toBe(before);
  expect((await call("GET")).headers.get("etag")).toBe(`"${newer.digest}"`);
  const repository = repositories.screenshot(deployment.project_id);
  const isThere = (digest: string) =>
    registry.getManifest(repository, digest).then(
      () => true,
      () => false,
    );
  const aged = new Date(Date.now() - 2 * 3_600_000);
  await api.db
    .updateTable("artifact")
    .set({ created_at: aged, ended_at: aged })
    .where("project_id", "=", deployment.project_id)
    .execute();
  const collector = createCollector({ clock: systemClock, db: api.db, registry, log: createLog("silent") });
  await collector.round(new AbortController().signal);
  expect([await isThere(old.digest), await isThere(newer.digest)]).toEqual([false, true]);
});

test("the node of a gated site is told a pass, which opens that site until a day is over", async () => {
  const passwordHash = `$2b$04$${"x".repeat(53)}`;
  const { project_id: projectId } = deployment;
  await api.db.updateTable("project").set({ password_hash: passwordHash }).where("id", "=", projectId).execute();
  await call("POST");
  await work();
  const load = createPlacementLoader(systemClock, {
    ...{ db: api.db, secrets: api.context.secrets, registryHost: "registry.test" },
    ...{ baseImage: "", builderImage: "", buildCaBundle: "" },
    gatePass: (gate) => passOf(secret, gate, systemClock.now()),
  });
  const task = await lastTask();
  const pass = passOf(secret, { projectId, passwordHash, channel: "production" }, systemClock.now());
  expect((await load(task.id))?.spec).toMatchObject({ case: "capture", value: { pass, timeoutSeconds: 20 } });
  expect(JSON.stringify(task)).not.toContain(pass);
  expect(pass).not.toContain(gateOf(secret, projectId, passwordHash).key.toString("base64url"));
});

describe("it is unavailable", () => {
  const told = async () => {
    const { status, body } = await call("POST");
    return `${status} ${body.error?.code}`;
  };
  const projects = () => api.db.updateTable("project").where("id", "=", deployment.project_id);
  test.each<[string, () => Promise<unknown>]>([
    ["of dev", async () => (deployment = await aLive("dev"))],
    ["once it is replaced", () => api.db.updateTable("channel_state").set({ deployment_id: null }).execute()],
    ["while it is stopped", () => api.db.updateTable("channel_state").set({ stopped: true }).execute()],
    ["while it is suspended", () => projects().set({ suspended_at: new Date(), suspend_reason: "admin" }).execute()],
  ])("%s", async (_, change) => {
    await change();
    expect(await told()).toBe("409 SCREENSHOT_UNAVAILABLE");
  });

  test("where the operator has no image for it", async () => {
    const { config } = api.context;
    const { captureImage } = config;
    config.captureImage = "";
    expect(await told()).toBe("409 SCREENSHOT_UNAVAILABLE");
    config.captureImage = captureImage;
    expect((await call("POST")).status).toBe(202);
  });
});

describe("when it fails", () => {
  beforeEach(async () => {
    await call("POST");
    await work();
  });

  test("it is tried three times, and what there was stays", async () => {
    for (const failures of [1, 2, 3]) {
      await failed();
      await api.db
        .updateTable("screenshot")
        .set({ asked_at: new Date(Date.now() - 300_000) })
        .where("deployment_id", "=", deployment.id)
        .execute();
      expect(await work()).toBe(failures === 3 ? "done" : "waits");
      expect(await screenshot()).toMatchObject({ failures, error: "The site is blank.", pending: failures < 3 });
    }
    expect(await tasks()).toHaveLength(3);
    expect((await tasks()).map(({ desired }) => desired)).toEqual(["removed", "removed", "removed"]);
    expect((await call("GET")).status).toBe(404);
  });

  test.each([
    { when: "is not there", change: { digest: `sha256:${"b".repeat(64)}` } },
    { when: "has another size", change: { sizeBytes: 20 } },
    { when: "is larger than any may be", change: { sizeBytes: 2_000_000 } },
  ])("nobody takes the node's word for a picture that $when", async ({ change }) => {
    const file = await captured();
    await observe(await lastTask(), { observed: "completed", capture: { ...file, ...change } });
    expect(await work()).toBe("waits");
    expect(await screenshot()).toMatchObject({ failures: 1, captured_at: null, pending: true });
  });

  test("what is replaced meanwhile is given up, although a picture comes then", async () => {
    await api.db.updateTable("channel_state").set({ deployment_id: null }).execute();
    await captured();
    expect(await work()).toBe("done");
    expect(await screenshot()).toMatchObject({ pending: false, captured_at: null });
    expect(await lastTask()).toMatchObject({ desired: "removed" });
  });
});

test("several workers ask for one task", async () => {
  await call("POST");
  await Promise.all([work(), work(), work()]);
  expect(await tasks()).toHaveLength(1);
});

describe("whoever has many sites", () => {
  const ownerHas = async (count: number): Promise<Deployment[]> => {
    const eve = await api.newUser();
    const made: Deployment[] = [];
    for (let n = 0; n < count; n += 1) made.push(await aLive("production", eve));
    return made;
  };
  const pending = async (of: readonly Deployment[]): Promise<number> =>
    (
      await api.db
        .selectFrom("screenshot")
        .select("id")
        .where("pending", "=", true)
        .where(
          "deployment_id",
          "in",
          of.map(({ id }) => id),
        )
        .execute()
    ).length;

  test("leaves room for the others' pictures, whatever was asked for", async () => {
    const hers = await ownerHas(12);
    for (const each of hers) await askForCapture(api.db, each);
    expect(await beginCaptures({ db: api.db, log: createLog("silent") })).toBe(1);
    expect(await screenshot()).toMatchObject({ pending: true });
  });

  test("has some taken at once, and the rest after them", async () => {
    const hers = await ownerHas(6);
    expect(await beginCaptures({ db: api.db, log: createLog("silent") })).toBe(5);
    expect([await pending(hers), await pending([deployment])]).toEqual([4, 1]);
    for (const each of hers) await askForCapture(api.db, each);
    for (const each of hers) await work(each);
    const taken = api.db
      .selectFrom("task")
      .innerJoin("screenshot", "screenshot.id", "task.owner_id")
      .select("task.id")
      .where(
        "deployment_id",
        "in",
        hers.map(({ id }) => id),
      );
    expect(await taken.execute()).toHaveLength(4);
    await work();
    expect(await tasks()).toHaveLength(1);
  });
});

describe("by itself svc takes pictures", () => {
  const begin = () => beginCaptures({ db: api.db, log: createLog("silent") });

  test("of what is live and has none, once", async () => {
    const dev = await aLive("dev");
    expect(await begin()).toBe(1);
    expect(await screenshot()).toMatchObject({ pending: true });
    expect(await begin()).toBe(0);
    const others = await api.db.selectFrom("screenshot").select("id").where("deployment_id", "=", dev.id).execute();
    expect(others).toEqual([]);
  });

  test("of a few at once, and of the others as these are done", async () => {
    for (const owner of [user, await api.newUser(), await api.newUser()])
      for (let count = 0; count < 3; count += 1) await aLive("production", owner);
    expect(await begin()).toBe(8);
    expect(await begin()).toBe(0);
    await api.db.updateTable("screenshot").set({ pending: false }).execute();
    expect(await begin()).toBe(2);
  });
});

test("the picture of what has not been live for a month is forgotten", async () => {
  await call("POST");
  await work();
  await captured();
  await work();
  await askedAgo(29 * 24);
  await forgetScreenshots(api.db);
  expect((await call("GET")).status).toBe(200);
  await askedAgo(31 * 24);
  await forgetScreenshots(api.db);
  expect((await call("GET")).status).toBe(404);
  expect(await capturedAt()).toBeNull();
});

test("what was asked for goes with its project", async () => {
  await askForCapture(api.db, deployment);
  await api.db.deleteFrom("channel_state").where("project_id", "=", deployment.project_id).execute();
  await api.db.deleteFrom("deployment").where("id", "=", deployment.id).execute();
  expect(await work()).toBe("done");
});
