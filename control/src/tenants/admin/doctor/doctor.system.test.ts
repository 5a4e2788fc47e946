import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { doctorReply, type OperatorCheck, operatorCheckNames } from "@svc/proto";
import { createRegistry } from "@svc/registry";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startDockerRegistry } from "../../../../../registry/src/testing/docker-registry.ts";
import { startProxy } from "../../../../../registry/src/testing/proxy.ts";
import { openAuthority } from "../../../fleet/ca/authority.ts";
import { type TestApi, testApi } from "../../../http/testing.ts";
import { createLog } from "../../../log.ts";
import { askMembers } from "../../../stores/etcd/index.ts";
import { type EtcdServer, startCluster } from "../../../stores/etcd/testing.ts";
import { newBranch } from "../../databases/testing/branch.ts";
import { newJob } from "../../jobs/testing/job.ts";
import { runChecks } from "./doctor.ts";
import { doctor } from "./endpoints.ts";
import { createLooks } from "./looks.ts";

let etcd: EtcdServer[];
let api: TestApi;
let skewMs = 0;
/** What a look waits for, and what is told of everybody who asks for one. */
let held = Promise.resolve();
let asked = () => {};
const offsets = new Map<string, number>();
beforeAll(async () => {
  etcd = await startCluster(3);
  const endpoints = etcd.map(({ endpoint }) => endpoint);
  api = await testApi({
    now: () => new Date(Date.now() + skewMs),
    operators: {
      etcdMembers: async (timeoutMs) => {
        await held;
        return askMembers(systemClock, { endpoints }, timeoutMs);
      },
      leaderId: async () => "this-one",
      clockOffsets: async () => offsets,
      replicas: () => [
        { serverId: "this-one", version: "0.1.0", masterKeyIds: ["k1"], clockOffsetMs: null, address: null },
      ],
    },
    endpoints: [
      {
        ...doctor,
        path: "/admin/counted-doctor",
        handle(context, call) {
          asked();
          return doctor.handle(context, call);
        },
      },
    ],
  });
  await openAuthority(api.db, api.context.secrets, { clock: systemClock, random: systemRandom });
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await Promise.all(etcd.map((server) => server[Symbol.asyncDispose]()));
});

async function ask(): Promise<{ healthy: boolean; answeredInMs: number; check: (name: string) => OperatorCheck }> {
  const { session } = await api.newUser({ admin: true });
  const { status, body } = await api.call("GET", "/admin/doctor", { session });
  expect(status).toBe(200);
  const { healthy, answeredInMs, checks } = doctorReply.parse(body);
  expect(checks.map(({ name }) => name)).toEqual([...operatorCheckNames]);
  const check = (name: string) => {
    const found = checks.find((each) => each.name === name);
    if (found === undefined) throw new Error(`no check ${name}`);
    return found;
  };
  return { healthy, answeredInMs, check };
}

test("every store is looked at: what is well says so, and a registry that is away fails alone", async () => {
  const { healthy, answeredInMs, check } = await ask();
  expect(check("etcd")).toMatchObject({ status: "ok", detail: expect.stringMatching(/^3 of 3 members/) });
  expect(check("postgres")).toMatchObject({ status: "ok", hint: null });
  expect(check("registry")).toMatchObject({ status: "fail", hint: expect.stringContaining("SVC_REGISTRY_URL") });
  for (const name of ["leader", "clocks", "certificates", "secrets", "work", "placements", "jobs"])
    expect([name, check(name).status]).toEqual([name, "ok"]);
  expect(healthy).toBe(false);
  expect(answeredInMs).toBeLessThan(8_000);
});

test("who asks while others wait is told what they are told, and who asks later looks anew", async () => {
  const { session } = await api.newUser({ admin: true });
  const look = async () => (await api.call("GET", "/admin/counted-doctor", { session })).body;
  // The first look is not over before the others have asked, too.
  let count = 0;
  held = new Promise((resolve) => {
    asked = () => {
      count += 1;
      if (count === 3) resolve();
    };
  });
  const [first, ...others] = await Promise.all([look(), look(), look()]);
  for (const each of others) expect(each).toEqual(first);
  expect(await look()).not.toEqual(first);
});

test("a registry is asked whether it takes what is pushed, as well as whether it answers", async () => {
  await using store = await startDockerRegistry();
  await using proxy = await startProxy(store.url, (incoming, reply) => {
    if (incoming.method === "GET" || incoming.method === "HEAD") return false;
    reply.writeHead(405).end();
    return true;
  });
  const look = async (url: string) => {
    await using registry = createRegistry(systemClock, { url, timeoutMs: 3_000 });
    const config = { ...api.context.config, registry: { ...api.context.config.registry, url } };
    const checks = await runChecks(
      systemClock,
      createLooks({ ...api.context, config, registry }),
      createLog("silent"),
      5_000,
    );
    return checks.find(({ name }) => name === "registry");
  };
  expect(await look(store.url)).toMatchObject({ status: "ok", hint: null });
  expect(await look(store.url)).toMatchObject({ status: "ok" });
  expect(await look(proxy.url)).toMatchObject({ status: "fail", detail: expect.stringContaining("takes nothing") });
});

test("a member of etcd that is down is named", async () => {
  const [, , last] = etcd;
  await last?.kill();
  try {
    // The others may have to choose another leader first, and say so.
    await expect
      .poll(async () => (await ask()).check("etcd"))
      .toMatchObject({
        status: "fail",
        detail: expect.stringContaining(last?.endpoint ?? "nothing"),
        more: [expect.stringMatching(/^2 of 3 members/)],
      });
  } finally {
    await last?.start();
  }
});

test("what is known of the fleet is told with its age while etcd is silent", async () => {
  const heardAt = new Date("2030-01-02T03:04:05Z");
  await using alone = await testApi({
    operators: {
      etcdMembers: async () => [{ endpoint: "http://etcd.test:2379", error: "Deadline exceeded after 3s" }],
      viewAsOf: () => heardAt,
    },
  });
  const { session } = await alone.newUser({ admin: true });
  const { body } = await alone.call("GET", "/admin/doctor", { session });
  const detailOf = (name: string) => body.checks.find((check: OperatorCheck) => check.name === name).detail;
  expect(detailOf("etcd")).toBe("No etcd member answers: http://etcd.test:2379 (no answer in time).");
  expect(detailOf("nodes")).toMatch(/^As of 03:04:05 UTC on 2030-01-02, as etcd is silent: /);
  expect(detailOf("postgres")).not.toContain("etcd");
});

test("clocks that are wrong are found: this replica's, and a machine's", async () => {
  const { id } = await api.db
    .insertInto("node")
    .values({ role: "node", name: "node-late" })
    .returning("id")
    .executeTakeFirstOrThrow();
  offsets.set(id, -61_000);
  expect((await ask()).check("clocks")).toMatchObject({
    status: "fail",
    detail: "The clock of node-late is 61.0 s behind.",
  });
  offsets.clear();
  skewMs = 20_000;
  try {
    const own = (await ask()).check("clocks");
    expect(own).toMatchObject({ status: "warn", detail: expect.stringMatching(/control this-one is \d+\.\d s ahead/) });
  } finally {
    skewMs = 0;
  }
});

test("work that is late, a task that nobody takes and a node without contact are found in the database", async () => {
  const { db } = api;
  const past = new Date(Date.now() - 600_000);
  await db.insertInto("work_item").values({ kind: "retire", key: "k", payload: "{}", run_at: past }).execute();
  const deployment = await api.newDeployment(await api.newProject(await api.newUser()));
  const task = await api.newTask(deployment);
  const refused = JSON.stringify({ "too little memory": 1 });
  await db.updateTable("task").set({ refused, created_at: past }).where("id", "=", task.id).execute();
  const { check } = await ask();
  expect(check("work")).toMatchObject({ status: "fail", detail: expect.stringContaining("retire") });
  expect(check("placements")).toMatchObject({
    status: "warn",
    detail: expect.stringContaining("too little memory (1)"),
    hint: expect.stringContaining(deployment.id),
  });
  expect(check("nodes")).toMatchObject({ status: "fail" });
});

test("scheduled jobs that nobody begins are found", async () => {
  const project = await api.newProject(await api.newUser());
  const { id } = await newJob(api.db, { project_id: project.id, next_fire_at: new Date(Date.now() - 120_000) });
  expect((await ask()).check("jobs")).toMatchObject({
    status: "fail",
    detail: expect.stringMatching(/^Scheduled jobs are due for \d+ s/),
    hint: expect.stringContaining("leader"),
  });
  await api.db.deleteFrom("job").where("id", "=", id).execute();
  expect((await ask()).check("jobs")).toMatchObject({ status: "ok" });
});

test("a change that keeps a tenant out for long is found, with the database that it is of", async () => {
  const { db } = api;
  const project = await api.newProject(await api.newUser());
  const databaseId = await newBranch(api, project);
  const { id: nodeId } = await db
    .insertInto("node")
    .values({ role: "node", name: "held", labels: "{}" })
    .returning("id")
    .executeTakeFirstOrThrow();
  const at = { state: "stopping", state_at: new Date(Date.now() - 600_000), from_generation: 1 } as const;
  await db
    .insertInto("database_change")
    .values({
      ...at,
      id: randomUUID(),
      database_id: databaseId,
      kind: "move",
      from_node: nodeId,
      requested_by: "nobody",
    })
    .execute();
  expect((await ask()).check("databases")).toMatchObject({
    status: "fail",
    detail: expect.stringContaining(`move of the production database of ${project.slug}`),
    hint: expect.stringContaining(`svc admin db show ${project.slug}/production`),
  });
});

test("a database that nobody can use is found: its server is down, or it is in error", async () => {
  const { db } = api;
  const project = await api.newProject(await api.newUser());
  const databaseId = await newBranch(api, project);
  const name = `production database of ${project.slug}`;
  const told = async () => {
    const { status, detail, more } = (await ask()).check("databases");
    return { status, text: [detail, ...more].find((line) => line.includes(name)) };
  };
  const set = (change: { server_failures?: number; status?: "error" | "ready"; reason?: string | null }) =>
    db.updateTable("database").set(change).where("id", "=", databaseId).execute();
  await set({ server_failures: 1 });
  expect(await told()).toEqual({ status: "fail", text: expect.stringContaining("does not serve") });
  await set({ status: "error", reason: "Its data is gone." });
  expect(await told()).toEqual({ status: "fail", text: expect.stringContaining("is in error: Its data is gone.") });
  await set({ status: "ready", reason: null, server_failures: 0 });
  expect((await told()).text).toBeUndefined();
});

test("a check that never ends is given up, and the others have their say", async () => {
  const looks = createLooks(api.context);
  // Known beforehand: a second may be too little for Postgres, too.
  const found = await looks.postgres();
  const given = { ...looks, postgres: async () => found, leader: () => new Promise<never>(() => {}) };
  // Of two timers the earlier one is the first, however late both of them are.
  const late = delay(4_000, [], { ref: false });
  const checks = await Promise.race([runChecks(systemClock, given, createLog("silent"), 1_000), late]);
  const of = (name: string) => checks.find((each) => each.name === name);
  expect(of("leader")).toMatchObject({ status: "fail", detail: "No answer within 1 s." });
  expect(of("postgres")?.status).toBe("ok");
});

test("nobody but an administrator is told", async () => {
  const { session } = await api.newUser();
  expect((await api.call("GET", "/admin/doctor", { session })).status).toBe(403);
});
