import { randomUUID } from "node:crypto";
import type { Scope } from "@svc/proto";
import type { TaskKind } from "@svc/proto/kinds";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import type { Project } from "../../stores/db/tables.ts";
import { readLog } from "./logs/read.ts";

let api: TestApi;
let user: TestUser;
beforeAll(async () => {
  api = await testApi();
  user = await api.newUser();
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
});

const get = (path: string) => api.call("GET", path, { session: user.session });
const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];
const digest = `sha256:${"a".repeat(64)}`;
const release = {
  configured: false,
  status: "not_configured",
  startedAt: null,
  finishedAt: null,
  exitCode: null,
  error: null,
  skippedReason: null,
};

const addTask = (project: Project, deploymentId: string, kind: TaskKind, nodeId: string | null = null) =>
  api.db
    .insertInto("task")
    .values({
      project_id: project.id,
      owner_kind: "deployment",
      owner_id: deploymentId,
      kind,
      channel: "production",
      spec: "{}",
      spec_hash: "x",
      memory_mb: 1,
      cpu_millicores: 1,
      pids_limit: 1,
      node_id: nodeId,
    })
    .returning("id")
    .executeTakeFirstOrThrow();

describe("one deployment", () => {
  test("of a source project", async () => {
    const project = await api.newProject(user);
    const deployment = await api.newDeployment(project, {
      status: "running",
      source_size: 1234,
      root_directory: "apps/web",
      manifest_path: "apps/web/svc.yml",
      watch_paths: ["apps/web"],
      artifact_kind: "image",
      artifact_repository: `svc/${project.id}/app`,
      artifact_digest: digest,
      artifact_size: 5678,
      artifact_os: "linux",
      artifact_architecture: "amd64",
      started_at: new Date("2026-01-02T03:04:05Z"),
      manifest: {
        version: 2,
        app: { name: "Shop", type: "ssr" },
        build: { command: "SECRET=1 npm run build" },
        start: { command: "SECRET=2 node ." },
        release: { command: "SECRET=3 npm run migrate" },
        env: { files: [".env.SECRET"] },
        jobs: [{ name: "nightly", schedule: "0 3 * * *", command: "SECRET=4 node job.js" }],
        dev: { command: "SECRET=5" },
      },
    });
    const answer = await get(`/deployments/${deployment.id}`);
    expect(answer.status).toBe(200);
    expect(answer.body.deployment).toEqual({
      id: deployment.id,
      projectId: project.id,
      status: "running",
      channel: "production",
      url: deployment.url,
      imageRef: `svc/${project.id}/app@${digest}`,
      staticPath: null,
      sourceSize: 1234,
      source: { rootDirectory: "apps/web", manifestPath: "apps/web/svc.yml", watchPaths: ["apps/web"] },
      error: null,
      warnings: [],
      crashing: null,
      screenshotCapturedAt: null,
      trigger: null,
      gitSha: null,
      gitRef: null,
      gitRepository: null,
      gitPrNumber: null,
      release,
      portableArtifact: { kind: "image", state: "ready", digest, sizeBytes: 5678, platform: "linux/amd64" },
      placement: { state: "running", routeConverged: true, lastTransitionAt: null, problem: null },
      manifest: expect.objectContaining({ version: 2, release: { configured: true, timeoutSeconds: 300 } }),
      createdAt: deployment.created_at.toISOString(),
      startedAt: "2026-01-02T03:04:05.000Z",
      finishedAt: null,
    });
    expect(answer.text).not.toContain("SECRET");
    expect(answer.body.deployment.manifest.jobs).toEqual([
      expect.objectContaining({ name: "nightly", schedule: "0 3 * * *" }),
    ]);
  });

  test("of an image project", async () => {
    const project = await api.newProject(user, { type: "ociimage" });
    const deployment = await api.newDeployment(project, {
      status: "failed",
      requested_reference: "registry.test/shop:1",
      error: "The image could not be pulled.",
      error_code: "OCI_PULL_FAILED",
    });
    const { deployment: seen } = (await get(`/deployments/${deployment.id}`)).body;
    expect(seen).toMatchObject({
      errorCode: "OCI_PULL_FAILED",
      error: "The image could not be pulled.",
      imageRef: null,
      artifact: { kind: "oci", requestedReference: "registry.test/shop:1", digest: null, os: null, architecture: null },
      portableArtifact: { kind: "image", state: "failed", digest: null, sizeBytes: null, platform: null },
      placement: { state: "failed", routeConverged: false },
    });
    expect(seen).not.toHaveProperty("source");
    expect(seen).not.toHaveProperty("sourceSize");
  });

  test("says what keeps it from being all that it should be", async () => {
    const project = await api.newProject(user);
    const { id: away } = await api.db
      .insertInto("node")
      .values({ role: "node", name: "away" })
      .returning("id")
      .executeTakeFirstOrThrow();
    const problemOf = async (facts: Parameters<typeof api.newDeployment>[1], task?: object) => {
      const deployment = await api.newDeployment(project, facts);
      if (task !== undefined) await api.newTask(deployment, task);
      return (await get(`/deployments/${deployment.id}`)).body.deployment.placement.problem?.code ?? null;
    };
    expect(await problemOf({ status: "running" }, { node_id: away })).toBe("STALE_NODE_OBSERVATION");
    expect(await problemOf({ status: "running" }, { node_id: away, retiring_at: new Date() })).toBeNull();
    expect(await problemOf({ status: "superseded" }, { node_id: away })).toBeNull();
    expect(await problemOf({ status: "running" }, { refused: JSON.stringify({ "too little memory": 1 }) })).toBe(
      "NODE_CAPACITY_UNAVAILABLE",
    );
    expect(
      await problemOf({ status: "building" }, { kind: "build", refused: JSON.stringify({ "busy with builds": 1 }) }),
    ).toBe("NODE_CAPACITY_UNAVAILABLE");
    expect(await problemOf({ status: "building" }, { kind: "build" })).toBeNull();
    const releasing = await api.newDeployment(project, { status: "deploying", release_status: "running" });
    await api.newRun(releasing, { number: 1, node_id: randomUUID() });
    await api.newRun(releasing, { number: 2, node_id: away });
    const { placement } = (await get(`/deployments/${releasing.id}`)).body.deployment;
    expect(placement.problem.code).toBe("NODE_FENCE_REQUIRED");
  });

  test("of a static project", async () => {
    const project = await api.newProject(user, { type: "static" });
    const deployment = await api.newDeployment(project, {
      artifact_kind: "bundle",
      artifact_repository: `svc/${project.id}/bundle`,
      artifact_digest: digest,
    });
    expect((await get(`/deployments/${deployment.id}`)).body.deployment).toMatchObject({
      imageRef: null,
      staticPath: `svc/${project.id}/bundle@${digest}`,
      portableArtifact: { kind: "bundle", state: "ready" },
    });
  });

  test.each([
    { status: "queued", state: "pending" },
    { status: "building", state: "pending" },
    { status: "deploying", state: "placing", task: null },
    { status: "deploying", state: "starting", task: randomUUID() },
    { status: "stopped", state: "stopped" },
    { status: "superseded", state: "stopped" },
    { status: "canceled", state: "failed" },
  ] as const)("$status stands as $state on the fleet", async ({ status, state, ...placed }) => {
    const project = await api.newProject(user);
    const deployment = await api.newDeployment(project, { status });
    if ("task" in placed) await addTask(project, deployment.id, "serve", placed.task);
    expect((await get(`/deployments/${deployment.id}`)).body.deployment.placement.state).toBe(state);
  });

  test("says nothing of a fleet when the scheduler is off", async () => {
    await using single = await testApi({ config: { schedulerEnabled: false } });
    const owner = await single.newUser();
    const deployment = await single.newDeployment(await single.newProject(owner));
    const { body } = await single.call("GET", `/deployments/${deployment.id}`, { session: owner.session });
    expect(body.deployment).not.toHaveProperty("placement");
    expect(body.deployment).not.toHaveProperty("portableArtifact");
  });

  test("of another user, and outside of the key's list, is missing", async () => {
    const project = await api.newProject(user);
    const mine = await api.newDeployment(project);
    const foreign = await api.newDeployment(await api.newProject(await api.newUser()));
    const { key } = await api.newKey(user, { projectIds: [(await api.newProject(user)).id] });
    const missing = (await get("/deployments/11111111-2222-4333-8444-555555555555")).text;
    for (const suffix of ["", "/logs", "/timeline"]) {
      const answers = [
        await get(`/deployments/${foreign.id}${suffix}`),
        await api.call("GET", `/deployments/${mine.id}${suffix}`, { key }),
      ];
      for (const answer of answers) expect([answer.status, answer.text]).toEqual([404, missing]);
    }
  });
});

test("the last lines of a program are shown with its error only to who may read logs", async () => {
  const error = "The app exited with code 7. Last lines:\nsecret business";
  const { id } = await api.newDeployment(await api.newProject(user), { status: "failed", error });
  const seen = async (scopes: Scope[] | null) => {
    const { key } = await api.newKey(user, scopes === null ? {} : { scopes });
    return (await api.call("GET", `/deployments/${id}`, { key })).body.deployment.error;
  };
  expect(await seen(null)).toBe(error);
  expect(await seen(["projects:read", "logs:read"])).toBe(error);
  expect(await seen(["projects:read"])).toBe("The app exited with code 7.");
});

describe("the log", () => {
  const write = (streamId: string, offset: number, data: string | Buffer) =>
    api.db
      .insertInto("log_chunk")
      .values({ stream_id: streamId, offset, data: Buffer.from(data) })
      .execute();

  test("is empty before anything was written", async () => {
    const deployment = await api.newDeployment(await api.newProject(user));
    expect((await get(`/deployments/${deployment.id}/logs`)).body).toEqual({ ok: true, log: "", offset: 0 });
    expect((await get(`/deployments/${deployment.id}/logs?after=10`)).body).toEqual({ ok: true, log: "", offset: 0 });
  });

  test("joins the builds and the release command, and is tailed by offset", async () => {
    const project = await api.newProject(user);
    const deployment = await api.newDeployment(project);
    const [attempt, again] = [
      await api.newRun(deployment, { number: 1, node_id: randomUUID() }),
      await api.newRun(deployment, { number: 2, node_id: randomUUID() }),
    ];
    const first = await addTask(project, deployment.id, "build");
    const second = await addTask(project, deployment.id, "build");
    await write(first.id, 0, "one ");
    await write(first.id, 4, "two ");
    const path = `/deployments/${deployment.id}/logs`;
    expect((await get(path)).body).toEqual({ ok: true, log: "one two ", offset: 8 });
    expect((await get(`${path}?after=8`)).body).toEqual({ ok: true, log: "", offset: 8 });
    await write(second.id, 0, "three é ");
    await write(attempt.id, 0, "four ");
    await write(again.id, 0, "five");
    expect((await get(`${path}?after=8`)).body).toEqual({ ok: true, log: "three é four five", offset: 26 });
    expect((await get(`${path}?after=6`)).body.log).toBe("o three é four five");
    expect((await get(`${path}?after=999`)).body).toEqual({ ok: true, log: "", offset: 26 });
  });

  test("comes in parts that never end inside a character", async () => {
    const project = await api.newProject(user);
    const deployment = await api.newDeployment(project);
    const { id } = await addTask(project, deployment.id, "build");
    const whole = Buffer.from("ab€😀é".repeat(50));
    // Chunks know nothing of characters.
    for (let at = 0; at < whole.length; at += 7) await write(id, at, whole.subarray(at, at + 7));
    for (const maxBytes of [4, 5, 16, 100]) {
      let text = "";
      let offset = 0;
      while (offset < whole.length) {
        const part = await readLog(api.db, deployment.id, offset, maxBytes);
        expect(part.offset).toBeGreaterThan(offset);
        expect(part.offset - offset).toBeLessThanOrEqual(maxBytes);
        text += part.text;
        offset = part.offset;
      }
      expect(text).toBe(whole.toString());
    }
  });

  test.each(["-1", "abc", "1.5", "1e309", "9223372036854775808", "1&after=2", "0&lines=3"])(
    "?after=%s is refused",
    async (after) => {
      const deployment = await api.newDeployment(await api.newProject(user));
      expect(codeOf(await get(`/deployments/${deployment.id}/logs?after=${after}`))).toEqual([422, "VALIDATION"]);
    },
  );
});

describe("the list", () => {
  test("is paged, newest first, and filtered", async () => {
    const project = await api.newProject(user);
    for (let index = 0; index < 5; index += 1) {
      await api.newDeployment(project, {
        trigger: `t${index}`,
        channel: index === 2 ? "preview" : "production",
        status: index < 2 ? "failed" : "running",
      });
    }
    const path = `/projects/${project.id}/deployments`;
    const triggers = (answer: Answer) => answer.body.deployments.map(({ trigger }: { trigger: string }) => trigger);
    const first = await get(`${path}?limit=2`);
    expect(triggers(first)).toEqual(["t4", "t3"]);
    const second = await get(`${path}?limit=2&cursor=${first.body.nextCursor}`);
    expect(triggers(second)).toEqual(["t2", "t1"]);
    const third = await get(`${path}?limit=2&cursor=${second.body.nextCursor}`);
    expect(triggers(third)).toEqual(["t0"]);
    expect(third.body.nextCursor).toBeNull();
    expect(triggers(await get(`${path}?channel=preview`))).toEqual(["t2"]);
    expect(triggers(await get(`${path}?status=failed`))).toEqual(["t1", "t0"]);
    expect(triggers(await get(path))).toHaveLength(5);
  });

  test.each([
    "limit=0",
    "limit=101",
    "limit=x",
    "channel=prod",
    "channel=dev&channel=preview",
    "status=done",
    "cursor=x",
    "unknown=1",
  ])("?%s is refused", async (query) => {
    const project = await api.newProject(user);
    expect(codeOf(await get(`/projects/${project.id}/deployments?${query}`))).toEqual([422, "VALIDATION"]);
  });
});

test("the timeline tells what happened, oldest first", async () => {
  const deployment = await api.newDeployment(await api.newProject(user));
  const at = new Date("2026-01-02T03:04:05Z");
  await api.db
    .insertInto("deployment_event")
    .values([
      { deployment_id: deployment.id, at, phase: "queued", to_status: "queued" },
      {
        deployment_id: deployment.id,
        at,
        phase: "building",
        from_status: "queued",
        to_status: "building",
        detail: "on a node",
      },
    ])
    .execute();
  expect((await get(`/deployments/${deployment.id}/timeline`)).body).toEqual({
    ok: true,
    timeline: [
      { at: at.toISOString(), phase: "queued", from: null, to: "queued", detail: null },
      { at: at.toISOString(), phase: "building", from: "queued", to: "building", detail: "on a node" },
    ],
  });
});

describe("stop and start", () => {
  const serving = async (status: "running" | "stopped") => {
    const project = await api.newProject(user);
    const deployment = await api.newDeployment(project, { status });
    await api.db
      .insertInto("channel_state")
      .values({
        project_id: project.id,
        channel: "production",
        deployment_id: deployment.id,
        stopped: status === "stopped",
      })
      .execute();
    return { project, deployment };
  };
  const post = (project: Project, action: string) =>
    api.call("POST", `/projects/${project.id}/${action}`, { session: user.session });

  test.each([
    { action: "stop", status: "running" },
    { action: "start", status: "stopped" },
  ] as const)("$action queues work for what is $status, once", async ({ action, status }) => {
    const { project, deployment } = await serving(status);
    const answer = await post(project, action);
    expect(answer.status).toBe(202);
    expect(answer.body).toEqual({
      ok: true,
      queued: true,
      deploymentId: deployment.id,
      jobId: expect.stringMatching(/^\d+$/),
    });
    const work = await api.db
      .selectFrom("work_item")
      .select(["id", "kind", "payload"])
      .where("key", "=", `lifecycle/${project.id}`)
      .execute();
    expect(work).toEqual([
      {
        id: Number(answer.body.jobId),
        kind: "lifecycle",
        payload: { projectId: project.id, action, deploymentId: deployment.id },
      },
    ]);
    expect((await post(project, action)).body.jobId).toBe(answer.body.jobId);
  });

  test("nothing runs and nothing is stopped", async () => {
    const empty = await api.newProject(user);
    expect(codeOf(await post(empty, "stop"))).toEqual([409, "STOP_UNAVAILABLE"]);
    expect(codeOf(await post(empty, "start"))).toEqual([409, "START_UNAVAILABLE"]);
    expect(codeOf(await post((await serving("stopped")).project, "stop"))).toEqual([409, "STOP_UNAVAILABLE"]);
    expect(codeOf(await post((await serving("running")).project, "start"))).toEqual([409, "START_UNAVAILABLE"]);
  });

  test("other channels are left alone", async () => {
    const project = await api.newProject(user);
    const deployment = await api.newDeployment(project, { status: "running", channel: "dev" });
    await api.db
      .insertInto("channel_state")
      .values({ project_id: project.id, channel: "dev", deployment_id: deployment.id })
      .execute();
    expect(codeOf(await post(project, "stop"))).toEqual([409, "STOP_UNAVAILABLE"]);
  });

  test("a suspended project is not started, but can be stopped", async () => {
    const stopped = await serving("stopped");
    const running = await serving("running");
    for (const { project } of [stopped, running]) {
      await api.db
        .updateTable("project")
        .set({ suspended_at: new Date(), suspend_reason: "admin" })
        .where("id", "=", project.id)
        .execute();
    }
    const refused = await post(stopped.project, "start");
    expect(codeOf(refused)).toEqual([403, "SUSPENDED"]);
    expect(refused.body.error.message).toContain("Ask the administrator");
    const byQuota = { suspend_reason: "quota" } as const;
    await api.db.updateTable("project").set(byQuota).where("id", "=", stopped.project.id).execute();
    expect((await post(stopped.project, "start")).body.error.message).toContain("comes back next month");
    expect((await post(running.project, "stop")).status).toBe(202);
  });
});
