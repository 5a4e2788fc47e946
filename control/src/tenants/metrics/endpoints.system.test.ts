import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expireResourceHours, expireSamples, foldSamples } from "../../fleet/agents/fold-samples.ts";
import { type Answer, type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import type { Project, Task } from "../../stores/db/tables.ts";

const now = new Date("2030-03-05T12:30:00.000Z");
let api: TestApi;
let owner: TestUser;
beforeAll(async () => {
  api = await testApi({ now: () => now });
  owner = await api.newUser();
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
});

const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];
const ask = (project: Project, what: string, session = owner.session) =>
  api.call("GET", `/projects/${project.id}/${what}`, { session });

const count = (project: Project, channel: string, hour: string, requests: number) =>
  sql`insert into traffic_hour (project_id, channel, hour, requests, bytes_in, bytes_out, s2xx, s5xx)
    values (${project.id}, ${channel}, ${`${hour}:00:00Z`}, ${requests}, ${requests * 2}, ${requests * 3}, ${requests}, 0)
    on conflict (project_id, channel, hour) do update set requests = traffic_hour.requests + excluded.requests,
      bytes_in = traffic_hour.bytes_in + excluded.bytes_in, bytes_out = traffic_hour.bytes_out + excluded.bytes_out,
      s2xx = traffic_hour.s2xx + excluded.s2xx`.execute(api.db);

describe("GET /projects/:id/metrics", () => {
  test("has every field when nobody ever came", async () => {
    const { body } = await ask(await api.newProject(owner), "metrics");
    expect(body).toEqual({
      ok: true,
      metrics: {
        ...{ bucketSize: "hour", totalRequests: 0, totalBytesIn: 0, totalBytesOut: 0 },
        ...{ totalStatuses: { s2xx: 0, s3xx: 0, s4xx: 0, s5xx: 0 }, series: [] },
      },
    });
  });

  test("spans begin where they say, and are sparse, ascending, and of all channels unless one is named", async () => {
    const project = await api.newProject(owner);
    await count(project, "production", "2030-03-05T12", 1);
    await count(project, "preview", "2030-03-05T12", 2);
    await count(project, "production", "2030-03-05T11", 4);
    await count(project, "production", "2030-03-05T10", 8);
    await count(project, "production", "2030-03-04T11", 16);
    await count(project, "production", "2030-03-01T12", 32);
    await count(project, "production", "2030-02-26T11", 64);
    await count(project, "production", "2029-12-04T23", 128);
    await count(project, "production", "2028-02-29T23", 256);
    // More of an hour that is there already.
    await count(project, "production", "2028-02-29T23", 512);
    await count(project, "production", "2030-03-05T09", 0);
    const read = async (query: string) => (await ask(project, `metrics?${query}`)).body.metrics;
    const counts = async (query: string) => {
      const { bucketSize, series, totalRequests } = await read(query);
      return { bucketSize, counts: series.map((point: { count: number }) => point.count), totalRequests };
    };
    expect(await counts("span=1h")).toEqual({ bucketSize: "hour", counts: [4, 3], totalRequests: 7 });
    expect((await counts("span=24h")).counts).toEqual([8, 4, 3]);
    expect((await counts("hours=25")).counts).toEqual([16, 8, 4, 3]);
    expect((await counts("hours=1&span=24h")).counts).toEqual([8, 4, 3]);
    expect((await counts("span=7d")).counts).toEqual([32, 16, 8, 4, 3]);
    expect(await counts("")).toEqual(await counts("span=7d"));
    expect((await counts("span=3d")).counts).toEqual([16, 8, 4, 3]);
    expect((await counts("hours=720")).counts).toEqual([64, 32, 16, 8, 4, 3]);
    expect(await counts("span=90d")).toEqual({ bucketSize: "day", counts: [64, 32, 16, 15], totalRequests: 127 });
    expect((await counts("span=all")).counts).toEqual([768, 128, 64, 32, 16, 15]);
    expect((await counts("span=all&channel=preview")).counts).toEqual([2]);
    expect((await read("span=all")).series[0]).toEqual({
      ...{ bucket: "2028-02-29T00:00:00.000Z", count: 768, bytesIn: 1536, bytesOut: 2304 },
      ...{ s2xx: 768, s3xx: 0, s4xx: 0, s5xx: 0 },
    });
    expect((await read("span=1h")).series.map(({ bucket }: { bucket: string }) => bucket)).toEqual([
      "2030-03-05T11:00:00.000Z",
      "2030-03-05T12:00:00.000Z",
    ]);
    // Days outlive their hours.
    await sql`delete from traffic_hour where project_id = ${project.id}`.execute(api.db);
    expect((await counts("span=all")).totalRequests).toBe(1023);
    expect((await counts("span=7d")).counts).toEqual([]);
  });
});

describe("GET /projects/:id/resources", () => {
  const sample = (task: Task, at: string, cpu: number, memory: number) =>
    sql`insert into resource_sample (task_id, project_id, at, cpu_percent, memory_bytes, pids)
      values (${task.id}, ${task.project_id}, ${`2030-03-05T${at}Z`}, ${cpu}, ${memory}, 1) on conflict do nothing`.execute(
      api.db,
    );

  test("adds up what ran at once, tells what runs now, what is on disk, and what the plan allows", async () => {
    const project = await api.newProject(owner);
    const production = await api.newDeployment(project, { status: "running" });
    const preview = await api.newDeployment(project, { status: "running", channel: "preview" });
    const [one, two] = [await api.newTask(production), await api.newTask(production, { replica: 1 })];
    const other = await api.newTask(preview);
    const build = await api.newTask(preview, { kind: "build" });
    await sample(one, "11:00:05", 10, 100);
    await sample(one, "11:00:20", 20, 300);
    await sample(two, "11:00:11", 5, 1_000);
    await sample(other, "11:00:29", 1, 10);
    await sample(build, "11:00:29", 900, 9_000);
    await sample(one, "11:45:00", 40, 100);
    await sample(one, "12:29:40", 3, 30);
    await sample(one, "12:29:55", 2, 20);
    await sample(two, "12:29:50", 1.5, 7);
    const push = (kind: "image" | "bundle", digest: string | null, size_bytes: number) =>
      api.db
        .insertInto("artifact")
        .values({ id: randomUUID(), project_id: project.id, repository: "svc/x", kind, digest, size_bytes })
        .execute();
    await push("image", "sha256:a", 100);
    await push("image", "sha256:a", 100);
    await push("bundle", "sha256:b", 7);
    await push("bundle", null, 5_000);
    const read = async (query = "") => (await ask(project, `resources${query}`)).body.resources;

    await foldSamples(api.db);
    const folded = await read("?span=24h");
    expect(folded).toMatchObject({
      bucketSize: "hour",
      disk: { staticBytes: 7, imageBytes: 100 },
      limits: { memoryMb: expect.any(Number), cpuMillicores: expect.any(Number) },
      current: {
        ...{ bucket: "2030-03-05T12:29:55.000Z", cpuPctAvg: 3.5, cpuPctMax: 3.5 },
        ...{ memBytesAvg: 27, memBytesMax: 27, samples: 2 },
      },
    });
    expect(Object.keys(folded.limits).sort()).toEqual(["cpuMillicores", "memoryMb", "pidsLimit", "storageMb"]);
    // Of two half-minutes: 15 + 5 + 1 and 40; peaks 20 + 5 + 1 and 40.
    expect(folded.series[0]).toEqual({
      ...{ bucket: "2030-03-05T11:00:00.000Z", cpuPctAvg: 30.5, cpuPctMax: 40 },
      ...{ memBytesAvg: 655, memBytesMax: 1_310, samples: 5 },
    });
    expect((await read("?span=24h&channel=production")).series[0]).toMatchObject({ cpuPctAvg: 30, samples: 4 });
    expect(await read("?channel=preview")).toMatchObject({ series: [{ cpuPctMax: 1 }], current: null });
    expect((await read("?channel=dev")).series).toEqual([]);
    const days = await read("?span=all");
    expect(days).toMatchObject({ bucketSize: "day", series: [{ bucket: "2030-03-05T00:00:00.000Z", samples: 8 }] });

    // Once more changes nothing; what comes late is added, and what went with its task is not taken away.
    await foldSamples(api.db);
    expect(await read("?span=24h")).toEqual(folded);
    await sample(one, "11:59:50", 60, 1);
    await foldSamples(api.db);
    const late = await read("?span=all");
    expect(late.series[0].samples).toBe(9);
    await sql`delete from resource_sample where task_id = ${one.id}`.execute(api.db);
    await foldSamples(api.db);
    expect((await read("?span=all")).series).toEqual(late.series);
  });

  test("hours outlive their samples, and days their hours", async () => {
    const project = await api.newProject(owner);
    const task = await api.newTask(await api.newDeployment(project, { status: "running" }));
    await sql`delete from resource_hour`.execute(api.db);
    await sql`insert into resource_sample (task_id, project_id, at, cpu_percent, memory_bytes, pids)
      select ${task.id}, ${project.id}, now() - n * interval '1 day', n, n, 1 from generate_series(0, 100, 2) as n`.execute(
      api.db,
    );
    const rowsOf = async (table: string) =>
      (
        await sql<{ count: number }>`select count(*) as count from ${sql.table(table)}
          where project_id = ${project.id} ${table === "resource_sample" ? sql`` : sql`and channel = 'all'`}`.execute(
          api.db,
        )
      ).rows[0]?.count;
    const left = async () => [
      await rowsOf("resource_sample"),
      await rowsOf("resource_hour"),
      await rowsOf("resource_day"),
    ];
    await foldSamples(api.db);
    expect(await left()).toEqual([51, 51, 51]);
    await expireSamples(api.db, 24);
    await foldSamples(api.db);
    await expireResourceHours(api.db, 90);
    await foldSamples(api.db);
    expect(await left()).toEqual([1, 45, 51]);
  });
});

describe("both", () => {
  test.each([
    ...[
      "span=2h",
      "span=",
      "span=7d&span=1h",
      "hours=0",
      "hours=721",
      "hours=x",
      "hours=1.5",
      "channel=prod",
      "spam=7d",
    ].map((query) => `metrics?${query}`),
    ...["span=2h", "hours=5", "channel=", "days=1"].map((query) => `resources?${query}`),
  ])("refuse %s", async (what) => {
    expect(codeOf(await ask(await api.newProject(owner), what))).toEqual([422, "VALIDATION"]);
  });

  test("are for whoever may read figures of the project", async () => {
    const project = await api.newProject(owner);
    const stranger = await api.newUser();
    for (const what of ["metrics", "resources"]) {
      const path = `/projects/${project.id}/${what}`;
      expect(codeOf(await ask(project, what, stranger.session))).toEqual([404, "NOT_FOUND"]);
      const { key: reader } = await api.newKey(owner, { scopes: ["projects:read", "logs:read"] });
      expect(codeOf(await api.call("GET", path, { key: reader }))).toEqual([403, "FORBIDDEN_SCOPE"]);
      const { key } = await api.newKey(owner, { scopes: ["metrics:read"] });
      expect((await api.call("GET", path, { key })).status).toBe(200);
    }
  });
});
