import { randomUUID } from "node:crypto";
import type { NodeAxes } from "@svc/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import type { FleetView, HeldPlacement } from "../cluster/facts.ts";
import { failureKey } from "./score.ts";

let api: TestApi;
let admin: TestUser;
const links = new Map<string, Exclude<NodeAxes["link"], "quarantined">>();
const held: HeldPlacement[] = [];
const said = new Map<string, ReturnType<FleetView["observation"]>>();
let failures: Map<string, number> | null = null;
beforeAll(async () => {
  const nodeLink = (id: string) => ({ link: links.get(id) ?? ("unreachable" as const), since: new Date() });
  const observation = (_: string, id: string) => said.get(id) ?? null;
  api = await testApi({ fleet: { nodeLink, placements: () => held, observation, lateFailures: () => failures } });
  admin = await api.newUser({ admin: true });
});
afterAll(() => api?.[Symbol.asyncDispose]());

async function newNode(
  name: string,
  change: { set?: Record<string, string>; said?: Record<string, string>; memoryMb?: number } = {},
) {
  const { set = {}, said = {}, memoryMb = 1024 } = change;
  const { id } = await api.db
    .insertInto("node")
    .values({
      ...{ role: "node", name, labels: JSON.stringify(said), operator_labels: JSON.stringify(set) },
      capacity: JSON.stringify({ memoryMb, cpuMillicores: 4000, pids: 4096, diskMb: 0 }),
      platform: JSON.stringify({ os: "linux", architecture: "amd64" }),
    })
    .returning("id")
    .executeTakeFirstOrThrow();
  links.set(id, "connected");
  return id;
}

/** All that a container may take. */
const allSetAside = { reserved_memory_mb: 512, reserved_cpu_millicores: 1000 };

const hold = (nodeId: string, placementId: string, observed: string) =>
  held.push({
    ...{ nodeId, placementId, kind: "serve", memoryMb: 512, cpuMillicores: 1000, pidsLimit: 256 },
    ...{ running: observed === "running", serving: observed === "running", observed, health: "healthy" },
    changedAt: null,
  });

const explain = (deployment: string, session = admin.session) =>
  api.call("GET", `/admin/placements/explain?deployment=${deployment}`, { session });

test("says of every node whether it would take one more, with all that stands against it", async () => {
  const owner = await api.newUser({
    plan: { memory_mb: 512, cpu_millicores: 1000, ...allSetAside, node_selector: { disk: "fast" } },
  });
  const project = await api.newProject(owner);
  const deployment = await api.newDeployment(project, {
    ...{ status: "running", artifact_digest: `sha256:${"a".repeat(64)}`, artifact_kind: "image" },
    ...{ artifact_os: "linux", artifact_architecture: "amd64" },
    manifest: { version: 2, app: { name: "Shop", type: "ssr", replicas: 3 } },
  });
  const fast = { set: { disk: "fast" }, said: { zone: "a" } };
  const [home, free, slow, down] = [
    await newNode("home", fast),
    await newNode("free", { set: { disk: "fast", zone: "b" }, said: { zone: "a" } }),
    await newNode("slow", { said: { disk: "fast" }, set: { room: "1" }, memoryMb: 256 }),
    await newNode("down", fast),
  ];
  links.set(down, "suspect");
  const [runs, waits] = [await api.newTask(deployment, { replica: 0 }), await api.newTask(deployment, { replica: 1 })];
  await api.db
    .updateTable("task")
    .set({ refused: JSON.stringify({ "too little memory": 2 }) })
    .where("id", "=", waits.id)
    .execute();
  const at = "2030-01-01T00:00:00.000Z";
  const crashing = { since: at, lastAt: at, count: 2, reason: "The app exited with code 7.", nextStartAt: at };
  await api.db
    .updateTable("task")
    .set({ crashing: JSON.stringify(crashing) })
    .where("id", "=", runs.id)
    .execute();
  hold(home, runs.id, "running");
  const { status, body } = await explain(deployment.id);
  expect(status).toBe(200);
  expect(body.deployment).toEqual({
    ...{ id: deployment.id, projectId: project.id, channel: "production", status: "running", replicas: 3 },
  });
  expect(body.request).toEqual({
    ...{ kind: "serve", memoryMb: 512, cpuMillicores: 1000, pidsLimit: 256 },
    platform: { os: "linux", architecture: "amd64" },
    nodeSelector: { disk: "fast" },
  });
  expect(body.nodes).toEqual([
    expect.objectContaining({ id: free, name: "free", status: "ready", fits: true, problems: [], replicas: 0 }),
    expect.objectContaining({ id: home, name: "home", fits: true, replicas: 1 }),
    expect.objectContaining({
      ...{ id: down, fits: false, status: "suspect", score: null },
      problems: [{ reason: "silent for some seconds", wanted: null, found: null }],
    }),
    expect.objectContaining({
      ...{ id: slow, fits: false },
      problems: [
        { reason: "without the labels of the plan, which operators set", wanted: "disk=fast", found: "" },
        { reason: "too little memory", wanted: 512, found: 256 },
      ],
    }),
  ]);
  expect(body.nodes[0]).toMatchObject({ zone: "b", score: { image: 0, zone: 0, failures: 0 } });
  expect(body.failuresKnown).toBe(false);
  expect(body.nodes[1].score).toMatchObject({ image: expect.any(Number), zone: expect.any(Number) });
  expect(body.nodes[1].score.zone).toBeLessThan(0);
  expect(body.nodes[1].score.image).toBeGreaterThan(0);
  const createdAt = expect.any(String);
  expect(body.tasks).toEqual([
    {
      ...{ kind: "serve", replica: 0, node: { id: home, name: "home" }, observed: "running", health: "healthy" },
      ...{ retiring: false, createdAt },
      problem: `It ended 2 times in a row since ${at}: The app exited with code 7. Started again at ${at}: at once the first time, then a second later and twice as long each time, until it has run for a minute.`,
    },
    {
      ...{ kind: "serve", replica: 1, node: null, observed: null, health: null, retiring: false, createdAt },
      problem: "No node takes it: 2 nodes: too little memory.",
    },
  ]);
});

test("counts what failed lately, where that is known, and tells a drained machine from one that drains", async () => {
  const project = await api.newProject(await api.newUser());
  const deployment = await api.newDeployment(project, { status: "running", artifact_digest: "sha256:x" });
  const [flaky, sound, left] = [await newNode("flaky"), await newNode("sound"), await newNode("left")];
  await api.db.updateTable("node").set({ drain: "drained", schedulable: false }).where("id", "=", left).execute();
  failures = new Map([[failureKey(flaky, project.id), 5]]);
  try {
    const { body } = await explain(deployment.id);
    const scoreAt = (id: string) => body.nodes.find((node: { id: string }) => node.id === id).score;
    expect(body.failuresKnown).toBe(true);
    expect([scoreAt(flaky).failures, scoreAt(sound).failures]).toEqual([-1000, 0]);
    const fitting = body.nodes.filter(({ fits }: { fits: boolean }) => fits).map(({ id }: { id: string }) => id);
    expect(fitting.at(-1)).toBe(flaky);
    expect(body.nodes.find(({ id }: { id: string }) => id === left).problems).toEqual([
      { reason: "drained", wanted: null, found: null },
    ]);
  } finally {
    failures = null;
  }
});

test("says why what a start or a resumption brings up is not up yet", async () => {
  const project = await api.newProject(await api.newUser());
  const image = { artifact_digest: `sha256:${"b".repeat(64)}`, artifact_kind: "image" } as const;
  const [home, away] = [await newNode("hearth"), await newNode("astray")];
  links.set(away, "unreachable");
  const failure = { code: "HEALTH_CHECK_FAILED", message: "It fell.", exitCode: 1, oomKilled: false };
  const manifest = { version: 2, app: { name: "Shop", type: "ssr", replicas: 3 } };
  const problemsOf = async (status: "stopped" | "running") => {
    const deployment = await api.newDeployment(project, { ...image, status, manifest });
    const tasks = await Promise.all([0, 1, 2].map((replica) => api.newTask(deployment, { replica })));
    const [ended = "", lost = "", up = ""] = tasks.map(({ id }) => id);
    for (const [id, node_id] of [[ended, home] as const, [lost, away] as const])
      await api.db.updateTable("task").set({ node_id }).where("id", "=", id).execute();
    said.set(ended, { observed: "failed", failure, changedAt: "2030-01-01T00:00:00.000Z" });
    hold(home, up, "running");
    const { body } = await explain(deployment.id);
    const bySlot = (a: { replica: number }, b: { replica: number }) => a.replica - b.replica;
    return body.tasks.sort(bySlot).map(({ problem }: { problem: string }) => problem);
  };
  expect(await problemsOf("stopped")).toEqual([
    expect.stringContaining("It has ended: It fell. Where that was its node's doing, another one is made"),
    expect.stringContaining("another one is made elsewhere"),
    expect.stringContaining("waits for the others, or for the edges"),
  ]);
  expect(await problemsOf("running")).toEqual([
    expect.stringMatching(/^It has ended: It fell\. Another one is made at 2030-01-01T00:00:10/),
    expect.stringContaining("another one is made elsewhere"),
    null,
  ]);
  const suspended = { suspended_at: new Date(), resuming_at: new Date() };
  await api.db.updateTable("project").set(suspended).where("id", "=", project.id).execute();
  expect((await problemsOf("running"))[2]).toContain("until all that the project serves does");
  await api.db.updateTable("project").set({ resuming_at: null }).where("id", "=", project.id).execute();
  expect((await problemsOf("running"))[0]).toContain("None is made in its place");
});

test("is told of a build while there is nothing to serve yet", async () => {
  const project = await api.newProject(await api.newUser());
  const deployment = await api.newDeployment(project, { status: "building" });
  await api.newTask(deployment, { kind: "build" });
  const { body } = await explain(deployment.id);
  expect(body.request).toMatchObject({ kind: "build", platform: null });
  expect(body.tasks).toMatchObject([{ kind: "build", node: null, problem: "No scheduler has looked at it yet." }]);
});

test("is for administrators, and of deployments that there are", async () => {
  const user = await api.newUser();
  expect((await explain(randomUUID(), user.session)).status).toBe(403);
  const missing = await explain(randomUUID());
  expect([missing.status, missing.body.error.code]).toEqual([404, "NOT_FOUND"]);
  expect((await explain("shop")).body.error.code).toBe("VALIDATION");
});
