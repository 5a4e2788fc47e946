import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type TestApi, type TestUser, testApi } from "../../../http/testing.ts";

const startedAt = "2030-01-02T03:04:05.000Z";
const connected = new Set<string>();

let api: TestApi;
let admin: TestUser;
beforeAll(async () => {
  const replicas = [
    { serverId: "one", startedAt },
    { serverId: "two", startedAt },
  ];
  api = await testApi({ fleet: { replicas: () => replicas, isConnected: (id) => connected.has(id) } });
  admin = await api.newUser({ admin: true });
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
});

const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];
const get = (path: string) => api.call("GET", path, { session: admin.session });

describe("GET /admin/stats", () => {
  const stats = async () => (await get("/admin/stats")).body.stats;

  test("of an installation that nobody uses has every number", async () => {
    const empty = await stats();
    expect(empty).toMatchObject({
      projects: 0,
      users: 1,
      deployments: {
        total: 0,
        byStatus: {
          ...{ queued: 0, building: 0, deploying: 0, running: 0 },
          ...{ failed: 0, superseded: 0, canceled: 0, stopped: 0 },
        },
      },
      requests24h: 0,
      usersByPlan: { standard: 1 },
      projectUsage: { staticBytes: 0, imageBytes: 0, totalBytes: 0, sourceBytes: 0 },
      disk: { nodes: { count: 0, capacityBytes: 0, belowFloor: 0 }, registryBytes: 0 },
    });
    expect(empty.disk.databaseBytes).toBeGreaterThan(1_000_000);
    expect(empty.system).toEqual({
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      nodeVersion: process.version,
      postgresVersion: expect.stringMatching(/^\d+\.\d+/),
      uptimeSeconds: expect.any(Number),
      replicas: [
        { id: "one", startedAt },
        { id: "two", startedAt },
      ],
      nodes: { total: 0, connected: 0 },
      edges: { total: 0, connected: 0 },
      work: { queued: 0, running: 0, failed: 0, oldestSeconds: 0 },
      deleting: { users: 0, projects: 0 },
      databaseConnections: expect.any(Number),
    });
  });

  test("counts what is there, each once, and what is on its way out apart", async () => {
    const before = await stats();
    const user = await api.newUser({ plan: { slug: "counted" } });
    const leaving = await api.newUser({ plan: { slug: "left" } });
    const project = await api.newProject(user);
    const gone = await api.newProject(leaving);
    await api.newDeployment(project, { status: "running" });
    await api.newDeployment(project, { status: "superseded" });
    await api.newDeployment(project, { status: "superseded" });
    const visits = (hoursAgo: number, requests: number) =>
      sql`insert into traffic_hour (project_id, channel, hour, requests)
        values (${project.id}, 'production', date_trunc('hour', now()) - ${hoursAgo} * interval '1 hour', ${requests})`.execute(
        api.db,
      );
    await visits(0, 3);
    await visits(22, 4);
    await visits(26, 1_000);
    const push = (kind: "image" | "bundle" | "source", digest: string | null, size_bytes: number) =>
      api.db
        .insertInto("artifact")
        .values({ id: randomUUID(), project_id: project.id, repository: "svc/x", kind, digest, size_bytes })
        .execute();
    await push("image", "sha256:a", 100);
    await push("image", "sha256:a", 100);
    await push("bundle", "sha256:b", 20);
    await push("source", "sha256:c", 3);
    await push("source", null, 5_000);
    const machine = (role: "node" | "edge", values: object) =>
      api.db
        .insertInto("node")
        .values({ id: randomUUID(), role, name: randomUUID(), ...values })
        .returning("id")
        .executeTakeFirstOrThrow();
    const capacity = JSON.stringify({ memoryMb: 1, cpuMillicores: 1, pids: 1, diskMb: 10 });
    connected.add((await machine("node", { capacity })).id);
    await machine("node", { capacity, disk_full: true });
    await machine("node", { capacity, lifecycle: "fenced" });
    await machine("edge", {});
    await sql`insert into work_item (kind, key, payload, state, run_at) values
      ('x', '1', '{}', 'queued', now() - interval '100 s'), ('x', '2', '{}', 'queued', now() + interval '1 h'),
      ('x', '3', '{}', 'running', now()), ('x', '4', '{}', 'failed', now()), ('x', '5', '{}', 'done', now())`.execute(
      api.db,
    );
    await api.call("DELETE", `/admin/users/${leaving.id}`, { session: admin.session });
    await api.call("DELETE", `/admin/projects/${gone.id}`, { session: admin.session });

    const after = await stats();
    expect(after).toMatchObject({
      projects: before.projects + 1,
      users: before.users + 1,
      requests24h: 7,
      usersByPlan: { standard: before.usersByPlan.standard, counted: 1, left: 0 },
      deployments: { total: 3, byStatus: { running: 1, superseded: 2, failed: 0 } },
      projectUsage: { staticBytes: 20, imageBytes: 100, totalBytes: 120, sourceBytes: 3 },
      disk: { nodes: { count: 2, capacityBytes: 20 * 1024 * 1024, belowFloor: 1 }, registryBytes: 123 },
      system: {
        nodes: { total: 2, connected: 1 },
        edges: { total: 1, connected: 0 },
        deleting: { users: 1, projects: 1 },
        work: { running: 1, failed: 1 },
      },
    });
    expect(after.system.work.oldestSeconds).toBeGreaterThanOrEqual(99);
    expect(after.system.work.oldestSeconds).toBeLessThan(160);
  });

  test("is for administrators", async () => {
    const user = await api.newUser();
    expect(codeOf(await api.call("GET", "/admin/stats", { session: user.session }))).toEqual([403, "FORBIDDEN"]);
    expect(codeOf(await api.call("GET", "/admin/series", { session: user.session }))).toEqual([403, "FORBIDDEN"]);
  });
});

describe("GET /admin/series", () => {
  const series = async (query = "") => (await get(`/admin/series${query}`)).body.series;
  const dayMs = 86_400_000;
  const dayBefore = (days: number) => new Date(Date.now() - days * dayMs).toISOString().slice(0, 10);

  test("has the days on which something happened, in UTC, oldest first, today among them", async () => {
    // Today is the database's when it is asked: the day must not end meanwhile.
    const leftMs = () => dayMs - (Date.now() % dayMs);
    await expect.poll(leftMs).toBeGreaterThan(30_000);
    await api.db.deleteFrom("project").execute();
    // What visitors of projects that are gone asked for stays in the installation's sums.
    await api.db.deleteFrom("traffic_total_hour").execute();
    await sql`update auth."user" set "createdAt" = now() - interval '1000 days'`.execute(api.db);
    const user = await api.newUser();
    const project = await api.newProject(user);
    const day = (days: number) => new Date(`${dayBefore(days)}T00:00:00.000Z`);
    const lastMoment = (days: number) => new Date(`${dayBefore(days)}T23:59:59.999Z`);
    await api.newDeployment(project, { created_at: day(0) });
    await api.newDeployment(project, { created_at: lastMoment(1) });
    await api.newDeployment(project, { created_at: day(29) });
    await api.newDeployment(project, { created_at: lastMoment(30) });
    const hour = (channel: string, at: Date, requests: number, bytes: number) =>
      sql`insert into traffic_hour (project_id, channel, hour, requests, bytes_out)
        values (${project.id}, ${channel}, ${at}, ${requests}, ${bytes})`.execute(api.db);
    await hour("production", day(0), 1, 10);
    await hour("preview", day(0), 2, 20);
    await hour("production", new Date(day(0).getTime() - 3_600_000), 4, 40);
    await hour("production", day(29), 8, 80);
    await hour("production", new Date(day(29).getTime() - 3_600_000), 16, 160);
    await hour("production", day(3), 0, 0);
    await sql`insert into auth."user" (id, name, email, "emailVerified", "createdAt")
      values (gen_random_uuid(), 'x', 'series@svc.test', true, ${lastMoment(29)})`.execute(api.db);

    expect(await series()).toEqual({
      days: 30,
      signups: [
        { day: dayBefore(29), count: 1 },
        { day: dayBefore(0), count: 1 },
      ],
      requests: [
        { day: dayBefore(29), count: 8, bytesOut: 80 },
        { day: dayBefore(1), count: 4, bytesOut: 40 },
        { day: dayBefore(0), count: 3, bytesOut: 30 },
      ],
      deployments: [
        { day: dayBefore(29), count: 1 },
        { day: dayBefore(1), count: 1 },
        { day: dayBefore(0), count: 1 },
      ],
    });
    const today = await series("?days=1");
    expect(today).toMatchObject({ days: 1, deployments: [{ day: dayBefore(0), count: 1 }] });
    expect((await series("?days=365")).requests).toHaveLength(4);
  });

  test.each([
    "days=0",
    "days=366",
    "days=-1",
    "days=1.5",
    "days=x",
    "days=",
    "days=7&days=8",
    "span=7d",
    "days=0x10",
    "days=1e1",
    "days=%207",
  ])("?%s is refused", async (query) => {
    expect(codeOf(await get(`/admin/series?${query}`))).toEqual([422, "VALIDATION"]);
  });
});
