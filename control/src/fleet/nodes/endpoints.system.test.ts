import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import type { HeldPlacement, HeldRun } from "../cluster/facts.ts";
import { insertNodeEvents } from "./events/store.ts";
import { findNodeRow } from "./store.ts";
import { parseBootstrapToken } from "./token.ts";

let api: TestApi;
let admin: TestUser;
const connected = new Set<string>();
const since = new Date("2026-01-01T00:00:00Z");
let placements: HeldPlacement[] = [];
let runs: HeldRun[] = [];
beforeAll(async () => {
  api = await testApi({
    fleet: {
      nodeLink: (id) => ({ link: connected.has(id) ? "connected" : "unreachable", since }),
      placements: () => placements,
      runs: () => runs,
    },
  });
  admin = await api.newUser({ admin: true });
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
});

const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];
const call = (method: string, path: string, body?: unknown) =>
  api.call(method, `/admin/nodes${path}`, { session: admin.session, ...(body !== undefined && { body }) });

describe("nodes", () => {
  test("are listed with what they have and hold, and nothing that tells where they are", async () => {
    const node = await api.db
      .insertInto("node")
      .values({
        role: "node",
        name: "worker-1",
        version: "0.1.0",
        address: "10.1.2.3",
        labels: JSON.stringify({ zone: "a" }),
        capacity: JSON.stringify({ memoryMb: 4096, cpuMillicores: 4000, pids: 1000, diskMb: 10_000 }),
        platform: JSON.stringify({ os: "linux", architecture: "amd64" }),
        last_seen_at: new Date("2026-01-02T03:04:05Z"),
        certificate_expires_at: new Date("2026-02-02T03:04:05Z"),
      })
      .returningAll()
      .executeTakeFirstOrThrow();
    const edge = await api.db
      .insertInto("node")
      .values({ role: "edge", name: "edge-1", labels: "{}" })
      .returningAll()
      .executeTakeFirstOrThrow();
    connected.add(node.id);
    const project = await api.newProject(admin, { slug: "kites" });
    const deployment = await api.newDeployment(project, { status: "running" });
    const serve = await api.newTask(deployment, { replica: 2 });
    const build = await api.newTask(deployment, { kind: "build" });
    const held = { nodeId: node.id, pidsLimit: 100, serving: false, health: null, changedAt: null };
    placements = [
      {
        ...{ ...held, placementId: serve.id, kind: "serve", memoryMb: 512, cpuMillicores: 500, running: true },
        ...{ observed: "running", health: "healthy", changedAt: since.toISOString() },
      },
      {
        ...{ ...held, placementId: build.id, kind: "build", memoryMb: 1024, cpuMillicores: 1000, running: false },
        observed: null,
      },
    ];
    const sample = (taskId: string, secondsAgo: number, memory_bytes: number) => ({
      ...{ task_id: taskId, project_id: project.id, at: new Date(Date.now() - secondsAgo * 1000) },
      ...{ memory_bytes, cpu_percent: 12.5, pids: 3 },
    });
    await api.db
      .insertInto("resource_sample")
      .values([sample(serve.id, 20, 30 * 1024 ** 2), sample(serve.id, 5, 40 * 1024 ** 2), sample(build.id, 61, 1)])
      .execute();
    await insertNodeEvents(
      api.db,
      Array.from({ length: 25 }, (_, n) => ({ nodeId: node.id, kind: "connected", detail: `${n}`, at: since })),
    );

    const list = await call("GET", "");
    expect(list.text).not.toContain("10.1.2.3");
    const item = {
      id: node.id,
      name: "worker-1",
      role: "node",
      status: "ready",
      link: { state: "connected", since: since.toISOString() },
      lastSeenAt: "2026-01-02T03:04:05.000Z",
      version: "0.1.0",
      capacity: { memoryMb: 4096, cpuMillicores: 4000, pids: 1000, diskMb: 10_000 },
      allocated: { memoryMb: 1536, cpuMillicores: 1500, pids: 200 },
      diskFull: false,
      memoryShort: false,
      engineStalled: false,
      dockerfileProblem: null,
      refusal: null,
      runningPlacements: 1,
      labels: { zone: "a" },
      zone: "a",
      drain: { state: "none", startedAt: null, deadline: null, remaining: 2 },
      edge: null,
      reason: null,
    };
    expect(list.body.nodes).toContainEqual(item);
    expect(list.body.nodes.find(({ id }: { id: string }) => id === edge.id)).toMatchObject({
      role: "edge",
      status: "unreachable",
      capacity: null,
      allocated: null,
      edge: { inRotation: false, phase: null, lacks: null, unready: null },
    });

    const detail = await call("GET", `/${node.id}`);
    const { placements: shown, events, ...rest } = detail.body.node;
    expect(rest).toEqual({
      ...item,
      drain: { ...item.drain, blockers: [] },
      platform: { os: "linux", architecture: "amd64" },
      schedulable: true,
      // The newest of the last minute.
      used: { memoryMb: 40, cpuMillicores: 125 },
      operatorLabels: {},
      createdAt: node.created_at.toISOString(),
      certificateExpiresAt: "2026-02-02T03:04:05.000Z",
      actions: ["cordon", "drain"],
    });
    const of = { project: "kites", channel: "production", prNumber: null };
    expect(shown).toEqual([
      { ...of, kind: "build", replica: 0, state: "placed", health: null, since: null },
      { ...of, kind: "serve", replica: 2, state: "running", health: "healthy", since: since.toISOString() },
    ]);
    expect(events).toHaveLength(20);
    expect(events[0]).toEqual({ at: since.toISOString(), kind: "connected", detail: "24" });
    connected.delete(node.id);
    expect((await call("GET", `/${node.id}`)).body.node).toMatchObject({ status: "unreachable", runningPlacements: 0 });
    connected.add(node.id);
    expect(detail.text).not.toContain("10.1.2.3");
  });

  test("that are being emptied say what keeps them from it, each thing with its reason", async () => {
    const drain = { drain: "deadline", schedulable: false, drain_generation: 1, drain_deadline: since } as const;
    const node = await api.db
      .insertInto("node")
      .values({ role: "node", name: "leaving", labels: "{}", ...drain })
      .returning("id")
      .executeTakeFirstOrThrow();
    await api.db
      .insertInto("node")
      .values({ role: "edge", name: "slow-edge", labels: "{}", last_seen_at: since })
      .execute();
    const site = async (slug: string, { serves = true } = {}) => {
      const deployment = await api.newDeployment(await api.newProject(admin, { slug }), { status: "running" });
      const { project_id, channel } = deployment;
      if (serves)
        await api.db
          .insertInto("channel_state")
          .values({ project_id, channel, deployment_id: deployment.id })
          .execute();
      return deployment;
    };
    const held = (placementId: string, nodeId = node.id): HeldPlacement => ({
      ...{ nodeId, placementId, kind: "serve", memoryMb: 1, cpuMillicores: 1, pidsLimit: 1, running: true },
      ...{ serving: true, observed: "running", health: "healthy", changedAt: null },
    });
    const [waiting, full, leaving, ending, releasing] = [
      await site("a-waiting"),
      await site("b-full"),
      await site("c-leaving"),
      await site("d-ending"),
      await site("e-releasing", { serves: false }),
    ];
    const tasks = {
      waiting: await api.newTask(waiting),
      full: await api.newTask(full, { replica: 1 }),
      leaving: await api.newTask(leaving),
      ending: await api.newTask(ending, { desired: "removed" }),
    };
    const replacement = await api.newTask(full, { replica: 1 });
    await api.db
      .updateTable("task")
      .set({ refused: JSON.stringify({ "too little memory": 1 }) })
      .where("id", "=", replacement.id)
      .execute();
    await api.db.updateTable("task").set({ retiring_at: since }).where("id", "=", tasks.leaving.id).execute();
    placements = Object.values(tasks).map(({ id }) => held(id));
    const of = { ownerKind: "deployment", ownerId: releasing.id } as const;
    runs = [{ nodeId: node.id, attemptId: `${releasing.id}.1`, kind: "release", ...of, claimed: true }];

    const { drain: shown } = (await call("GET", `/${node.id}`)).body.node;
    expect(shown).toMatchObject({ state: "deadline", remaining: 5 });
    const facts = (shown.blockers as { [key: string]: unknown }[]).map(({ project, kind, replica, waitsFor, code }) => [
      ...[project, kind, replica, waitsFor, code],
    ]);
    expect(facts).toEqual([
      ["e-releasing", "release", null, "fence", "NODE_FENCE_REQUIRED"],
      ["a-waiting", "serve", 0, "turn", null],
      ["b-full", "serve", 1, "node", "NODE_CAPACITY_UNAVAILABLE"],
      ["c-leaving", "serve", 0, "edges", "ROUTE_DIVERGED"],
      ["d-ending", "serve", 0, "fence", "NODE_FENCE_REQUIRED"],
    ]);
    [placements, runs] = [[], []];
  });

  test("that are not there are not found", async () => {
    expect(codeOf(await call("GET", "/11111111-2222-4333-8444-555555555555"))).toEqual([404, "NOT_FOUND"]);
    expect(codeOf(await call("GET", "/worker-9"))).toEqual([404, "NOT_FOUND"]);
  });
});

describe("addresses", () => {
  const insert = (role: "node" | "edge") =>
    api.db
      .insertInto("node")
      .values({ role, name: `${role}-moved`, addresses: JSON.stringify(["10.0.0.7"]) })
      .returning("id")
      .executeTakeFirstOrThrow();

  test("are what an operator says, of nodes", async () => {
    const { id } = await insert("node");
    const put = (addresses: unknown, to = id) => call("PUT", `/${to}/addresses`, { addresses });
    expect((await put(["10.0.0.8"])).body).toEqual({ ok: true, node: { id, name: "node-moved" } });
    const addressesOf = async () => (await findNodeRow(api.db, id))?.addresses;
    expect(await addressesOf()).toEqual(["10.0.0.8"]);
    for (const wrong of [[], ["0.0.0.0"], ["10.0.0.8/24"], ["node-1.test"]])
      expect(codeOf(await put(wrong))).toEqual([422, "VALIDATION"]);
    expect(await addressesOf()).toEqual(["10.0.0.8"]);
    expect(codeOf(await put(["10.0.0.8"], (await insert("edge")).id))).toEqual([404, "NOT_FOUND"]);
    const lines = await api.db.selectFrom("audit").select(["action", "detail"]).where("target", "=", id).execute();
    expect(lines).toEqual([{ action: "node.readdress", detail: { name: "node-moved", addresses: ["10.0.0.8"] } }]);
  });
});

describe("bootstrap tokens", () => {
  test.each([
    { body: undefined, role: "node", seconds: 900 },
    { body: {}, role: "node", seconds: 900 },
    { body: { role: "edge", expiresIn: 3600 }, role: "edge", seconds: 3600 },
  ])("$body makes one for a $role", async ({ body, role, seconds }) => {
    const answer = await call("POST", "/bootstrap-tokens", body);
    expect(answer.status).toBe(201);
    const { id, token, expiresAt } = answer.body.bootstrapToken;
    expect(parseBootstrapToken(token)).toMatchObject({
      id,
      clusterId: api.context.cluster.clusterId,
      caSha256: api.context.cluster.caSha256,
    });
    expect(Math.abs(Date.parse(expiresAt) - Date.now() - seconds * 1000)).toBeLessThan(10_000);
    const row = await api.db.selectFrom("bootstrap_token").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
    expect(row).toMatchObject({ role, created_by: admin.id, revoked_at: null });
    const audit = await api.db.selectFrom("audit").selectAll().where("target", "=", id).execute();
    expect(JSON.stringify([row, audit])).not.toContain(token.split(".").at(-1));
  });

  test("name the addresses of the node that joins, as far as there can be such", async () => {
    const addresses = ["10.0.0.7", "10.0.1.7"];
    const { body } = await call("POST", "/bootstrap-tokens", { addresses });
    const { id } = body.bootstrapToken;
    const row = await api.db.selectFrom("bootstrap_token").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
    expect(row.addresses).toEqual(addresses);
    for (const wrong of [[], ["node-1.test"], ["169.254.169.254"], Array.from({ length: 9 }, (_, n) => `10.0.0.${n}`)])
      expect(codeOf(await call("POST", "/bootstrap-tokens", { addresses: wrong }))).toEqual([422, "VALIDATION"]);
    expect(codeOf(await call("POST", "/bootstrap-tokens", { role: "edge", addresses }))).toEqual([422, "VALIDATION"]);
  });

  test.each([{ role: "root" }, { expiresIn: 59 }, { expiresIn: 86_401 }, { expiresIn: "900" }, { ttl: 1 }])(
    "%j is refused",
    async (body) => {
      expect(codeOf(await call("POST", "/bootstrap-tokens", body))).toEqual([422, "VALIDATION"]);
    },
  );

  test("are listed with what became of them, and without what they are", async () => {
    const create = async () => (await call("POST", "/bootstrap-tokens", {})).body.bootstrapToken;
    const [open, used, late, revoked] = [await create(), await create(), await create(), await create()];
    const node = await api.db
      .insertInto("node")
      .values({ role: "node", name: "joined-with-it", labels: "{}" })
      .returning("id")
      .executeTakeFirstOrThrow();
    const update = (id: string, set: object) =>
      api.db.updateTable("bootstrap_token").set(set).where("id", "=", id).execute();
    await update(used.id, { used_at: since, node_id: node.id });
    await update(late.id, { expires_at: since });
    await call("DELETE", `/bootstrap-tokens/${revoked.id}`);
    const list = await call("GET", "/bootstrap-tokens");
    const found = (id: string) => list.body.bootstrapTokens.find((each: { id: string }) => each.id === id);
    expect(found(open.id)).toEqual({
      ...{ id: open.id, role: "node", status: "open", createdAt: expect.any(String), expiresAt: open.expiresAt },
      ...{ usedAt: null, revokedAt: null, node: null },
    });
    expect(found(used.id)).toMatchObject({
      ...{ status: "used", usedAt: since.toISOString(), node: { id: node.id, name: "joined-with-it" } },
    });
    expect(found(late.id)).toMatchObject({ status: "expired" });
    expect(found(revoked.id)).toMatchObject({ status: "revoked", revokedAt: expect.any(String) });
    for (const { token } of [open, used, late, revoked]) expect(list.text).not.toContain(token.split(".").at(-1));
  });

  test("are revoked", async () => {
    const { id } = (await call("POST", "/bootstrap-tokens", {})).body.bootstrapToken;
    expect((await call("DELETE", `/bootstrap-tokens/${id}`)).body).toEqual({ ok: true, id, node: null });
    const { id: nodeId } = await api.db
      .insertInto("node")
      .values({ role: "node", name: "joined-before" })
      .returning("id")
      .executeTakeFirstOrThrow();
    await api.db.updateTable("bootstrap_token").set({ node_id: nodeId }).where("id", "=", id).execute();
    expect((await call("DELETE", `/bootstrap-tokens/${id}`)).body.node).toEqual({ id: nodeId, name: "joined-before" });
    const { revoked_at } = await api.db
      .selectFrom("bootstrap_token")
      .select("revoked_at")
      .where("id", "=", id)
      .executeTakeFirstOrThrow();
    expect(revoked_at).toBeInstanceOf(Date);
    expect(codeOf(await call("DELETE", "/bootstrap-tokens/unknown"))).toEqual([404, "NOT_FOUND"]);
  });
});
