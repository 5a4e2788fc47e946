import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type TestApi, type TestUser, testApi } from "../http/testing.ts";
import { parseBootstrapToken } from "../nodes/token.ts";

let api: TestApi;
let admin: TestUser;
const connected = new Set<string>();
beforeAll(async () => {
  api = await testApi({
    fleet: {
      isConnected: (id) => connected.has(id),
      placementsOf: () => [
        { placementId: "p1", kind: "serve", memoryMb: 512, cpuMillicores: 500, running: true },
        { placementId: "p2", kind: "build", memoryMb: 1024, cpuMillicores: 1000, running: false },
      ],
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

    const list = await call("GET", "");
    expect(list.text).not.toContain("10.1.2.3");
    const item = {
      id: node.id,
      name: "worker-1",
      role: "node",
      status: "ready",
      lastSeenAt: "2026-01-02T03:04:05.000Z",
      version: "0.1.0",
      capacity: expect.objectContaining({ memoryMb: 4096, cpuMillicores: 4000 }),
      allocated: { memoryMb: 1536, cpuMillicores: 1500 },
      runningPlacements: 1,
      labels: { zone: "a" },
    };
    expect(list.body.nodes).toContainEqual(item);
    expect(list.body.nodes.find(({ id }: { id: string }) => id === edge.id)).toMatchObject({
      role: "edge",
      status: "unreachable",
      capacity: null,
      allocated: null,
    });

    const detail = await call("GET", `/${node.id}`);
    expect(detail.body.node).toEqual({
      ...item,
      platform: { os: "linux", architecture: "amd64" },
      schedulable: true,
      reason: null,
      createdAt: node.created_at.toISOString(),
      certificateExpiresAt: "2026-02-02T03:04:05.000Z",
      actions: expect.any(Array),
    });
    expect(detail.text).not.toContain("10.1.2.3");
  });

  test("that are not there are not found", async () => {
    expect(codeOf(await call("GET", "/11111111-2222-4333-8444-555555555555"))).toEqual([404, "NOT_FOUND"]);
    expect(codeOf(await call("GET", "/worker-9"))).toEqual([404, "NOT_FOUND"]);
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

  test.each([{ role: "root" }, { expiresIn: 59 }, { expiresIn: 86_401 }, { expiresIn: "900" }, { ttl: 1 }])(
    "%j is refused",
    async (body) => {
      expect(codeOf(await call("POST", "/bootstrap-tokens", body))).toEqual([422, "VALIDATION"]);
    },
  );

  test("are revoked", async () => {
    const { id } = (await call("POST", "/bootstrap-tokens", {})).body.bootstrapToken;
    expect((await call("DELETE", `/bootstrap-tokens/${id}`)).body).toEqual({ ok: true, id });
    const { revoked_at } = await api.db
      .selectFrom("bootstrap_token")
      .select("revoked_at")
      .where("id", "=", id)
      .executeTakeFirstOrThrow();
    expect(revoked_at).toBeInstanceOf(Date);
    expect(codeOf(await call("DELETE", "/bootstrap-tokens/unknown"))).toEqual([404, "NOT_FOUND"]);
  });
});
