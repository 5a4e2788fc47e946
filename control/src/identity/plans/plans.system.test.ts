import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { applyLimitsWorker } from "../../fleet/limits/worker.ts";
import {
  type Answer,
  type CallOptions,
  type TaskValues,
  type TestApi,
  type TestUser,
  testApi,
} from "../../http/testing.ts";
import { createLog } from "../../log.ts";
import { buildServer } from "../../server.ts";
import { createDb, type Db } from "../../stores/db/pool.ts";
import { lockWaits } from "../../stores/db/testing.ts";
import { until } from "../../stores/etcd/testing.ts";
import { claimWork } from "../../stores/work/testing/claim.ts";
import { changePlan } from "./change.ts";
import { holdPlanOfUser, planOfUser } from "./of-user.ts";

let api: TestApi;
let admin: TestUser;
beforeAll(async () => {
  api = await testApi();
  admin = await api.newUser({ admin: true });
});
afterAll(() => api?.[Symbol.asyncDispose]());
beforeEach(() => api.db.deleteFrom("work_item").execute());

const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];
const call = (method: string, path: string, body?: unknown, options: CallOptions = {}) =>
  api.call(method, `/admin/plans${path}`, { session: admin.session, ...(body !== undefined && { body }), ...options });
const aSlug = () => `plan-${randomUUID().slice(0, 8)}`;
/** Creates a plan and returns it as it was answered. */
async function newPlan(fields: object = {}) {
  const { status, body } = await call("POST", "", { slug: aSlug(), name: "Some", ...fields });
  if (status !== 201) throw new Error(JSON.stringify(body));
  return body.plan;
}
const plans = async () => (await call("GET", "")).body.plans;
const defaults = async () =>
  (await api.db.selectFrom("plan").select("slug").where("is_default", "=", true).execute()).map(({ slug }) => slug);
const givePlan = (user: TestUser, planId: string, db: Db = api.db) =>
  db.insertInto("account").values({ user_id: user.id, plan_id: planId }).execute();
/** Projects whose limits are to be looked at, each once. */
const concerned = async () => {
  const items = await api.db.selectFrom("work_item").select(["kind", "key", "payload"]).orderBy("id").execute();
  expect(items.every(({ kind }) => kind === "apply-limits")).toBe(true);
  return new Set(items.map(({ payload }) => (payload as { projectId: string }).projectId));
};
/** A project of which something runs. */
async function serving(user: TestUser) {
  const project = await api.newProject(user);
  await api.newTask(await api.newDeployment(project, { status: "running" }));
  return project;
}
const auditOf = (target: string) =>
  api.db.selectFrom("audit").select(["action", "detail"]).where("target", "=", target).orderBy("id").execute();

const everyField = {
  slug: "all-of-it",
  name: "All of it",
  isDefault: false,
  memoryMb: 300,
  cpuMillicores: 700,
  pidsLimit: 99,
  reservedMemoryMb: 100,
  reservedCpuMillicores: 200,
  maxProjects: 3,
  maxDeploysPerHour: 4,
  maxUploadMb: 5,
  maxImageMb: 0,
  maxEnvVars: 7,
  rateLimitPerMinute: 8,
  monthlyRequests: 9_000_000_000,
  monthlyBandwidthMb: 10,
  storageMb: 11,
  dbSizeMb: 12,
  dbConnectionLimit: 13,
  maxDatabases: 0,
  maxBackups: 15,
  maxSseConnections: 16,
  maxScheduledJobs: 17,
  maxCustomDomains: 18,
  maxReplicas: 4,
  maxDrainSeconds: 5,
  nodeSelector: { disk: "fast", "svc.test/room": "" },
  devSyncEnabled: false,
  previewsEnabled: false,
};

describe("creating a plan", () => {
  test("takes every field, and shows it to administrators and to whoever has it", async () => {
    const { status, body } = await call("POST", "", everyField);
    expect(status).toBe(201);
    const stamps = { createdAt: expect.any(String), updatedAt: expect.any(String) };
    const shown = { ...everyField, databaseEnabled: false, ...stamps };
    expect(body).toEqual({ ok: true, plan: { id: expect.any(String), userCount: 0, ...shown } });
    const user = await api.newUser();
    await givePlan(user, body.plan.id);
    expect((await api.call("GET", "/account/usage", { session: user.session })).body.plan).toEqual(shown);
    expect(await plans()).toContainEqual({ ...body.plan, userCount: 1 });
    expect(await auditOf(body.plan.id)).toEqual([
      { action: "plan.create", detail: { slug: "all-of-it", isDefault: false } },
    ]);
  });

  test("needs only a slug and a name: the rest is as in the default plan, which stays the default", async () => {
    const [before] = await plans();
    const plan = await newPlan({ slug: "copy", name: "Copy", memoryMb: 333, monthlyRequests: null });
    const { id: _, userCount: __, createdAt: ___, updatedAt: ____, ...standard } = before;
    // What is set aside goes by the plan's own limits where neither says it.
    const own = { slug: "copy", name: "Copy", isDefault: false, memoryMb: 333, reservedMemoryMb: 42 };
    expect(plan).toMatchObject({ ...standard, ...own });
    expect(await defaults()).toEqual(["standard"]);
  });

  test.each([
    { what: "nothing", body: {} },
    { what: "no name", body: { slug: "x" } },
    { what: "no slug", body: { name: "X" } },
    { what: "a slug in capitals", body: { slug: "Pro", name: "X" } },
    { what: "a slug with a hyphen in front", body: { slug: "-pro", name: "X" } },
    { what: "a slug that is too long", body: { slug: "x".repeat(41), name: "X" } },
    { what: "a number as text", body: { slug: "x", name: "X", memoryMb: "512" } },
    { what: "a fraction", body: { slug: "x", name: "X", memoryMb: 1.5 } },
    { what: "no memory", body: { slug: "x", name: "X", memoryMb: 0 } },
    { what: "less than nothing", body: { slug: "x", name: "X", maxProjects: -1 } },
    { what: "null where there is always a limit", body: { slug: "x", name: "X", maxProjects: null } },
    { what: "what follows from another field", body: { slug: "x", name: "X", databaseEnabled: true } },
    { what: "an unknown field", body: { slug: "x", name: "X", maxPizza: 1 } },
    { what: "a list", body: [] },
  ])("with $what is refused", async ({ body }) => {
    const count = (await plans()).length;
    expect(codeOf(await call("POST", "", body))).toEqual([422, "VALIDATION"]);
    expect(await plans()).toHaveLength(count);
  });

  test("under a slug that is taken is refused, and takes no default away", async () => {
    const body = { slug: "standard", name: "Other", isDefault: true };
    expect(codeOf(await call("POST", "", body))).toEqual([409, "SLUG_CONFLICT"]);
    expect(await defaults()).toEqual(["standard"]);
  });

  test("under the same slug ten times at once makes one", async () => {
    const slug = aSlug();
    const answers = await Promise.all(Array.from({ length: 10 }, () => call("POST", "", { slug, name: "X" })));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array(9).fill(409)]);
  });

  test("again with the same Idempotency-Key is the first one's answer", async () => {
    const headers = { "idempotency-key": randomUUID() };
    const body = { slug: aSlug(), name: "Once" };
    const [first, second] = [await call("POST", "", body, { headers }), await call("POST", "", body, { headers })];
    expect([first.status, second.status, second.body]).toEqual([201, 201, first.body]);
  });
});

describe("counts of users", () => {
  test("whoever was never given a plan counts with the default one, whichever that is", async () => {
    const users = [await api.newUser(), await api.newUser(), await api.newUser()];
    const mine = await newPlan();
    for (const user of users.slice(0, 2)) await givePlan(user, mine.id);
    const total = (await api.db.selectFrom("auth.user").select("id").execute()).length;
    const count = async (slug: string) =>
      (await plans()).find((plan: { slug: string }) => plan.slug === slug).userCount;
    expect(await count(mine.slug)).toBe(2);
    expect((await plans()).reduce((sum: number, { userCount }: { userCount: number }) => sum + userCount, 0)).toBe(
      total,
    );
    const before = await count("standard");
    await call("PUT", `/${mine.id}`, { isDefault: true });
    expect([await count("standard"), await count(mine.slug)]).toEqual([0, before + 2]);
    const { id } = (await plans()).find((plan: { slug: string }) => plan.slug === "standard");
    await call("PUT", `/${id}`, { isDefault: true });
  });
});

describe("the default plan", () => {
  test("is another one after one request, and there is exactly one at any moment", async () => {
    let isOver = false;
    const seen: number[] = [];
    const look = async () => {
      while (!isOver) seen.push((await defaults()).length);
    };
    const looking = look();
    const rivals = await Promise.all(Array.from({ length: 6 }, () => newPlan()));
    const makers = [
      ...rivals.map(({ id }) => call("PUT", `/${id}`, { isDefault: true })),
      ...Array.from({ length: 4 }, () => call("POST", "", { slug: aSlug(), name: "New", isDefault: true })),
    ];
    const answers = await Promise.all(makers);
    expect(answers.map(({ status }) => status).sort()).toEqual([...Array(6).fill(200), ...Array(4).fill(201)]);
    isOver = true;
    await looking;
    expect(new Set(seen)).toEqual(new Set([1]));
    const { id } = (await plans()).find(({ slug }: { slug: string }) => slug === "standard");
    expect((await call("PUT", `/${id}`, { isDefault: true })).body.plan.isDefault).toBe(true);
    expect(await defaults()).toEqual(["standard"]);
  });

  test("cannot just stop being it, and may be told again that it is", async () => {
    const [{ id }] = await plans();
    expect(codeOf(await call("PUT", `/${id}`, { isDefault: false }))).toEqual([409, "PLAN_IS_DEFAULT"]);
    expect((await call("PUT", `/${id}`, { isDefault: true })).status).toBe(200);
    expect(await defaults()).toEqual(["standard"]);
  });

  test("is what people have at once who were never given another", async () => {
    const user = await api.newUser();
    const plan = await newPlan({ isDefault: true });
    expect((await api.call("GET", "/me", { session: user.session })).body.user.plan).toBe(plan.slug);
    const { id } = (await plans()).find(({ slug }: { slug: string }) => slug === "standard");
    await call("PUT", `/${id}`, { isDefault: true });
    expect((await api.call("GET", "/me", { session: user.session })).body.user.plan).toBe("standard");
  });
});

describe("changing a plan", () => {
  test("changes what is named and nothing else", async () => {
    const plan = await newPlan({ monthlyRequests: 10 });
    const { status, body } = await call("PUT", `/${plan.id}`, { maxProjects: 77, monthlyRequests: null });
    expect(status).toBe(200);
    expect(body.plan).toEqual({ ...plan, maxProjects: 77, monthlyRequests: null, updatedAt: expect.any(String) });
    expect(body.plan.updatedAt > plan.updatedAt).toBe(true);
    expect(await auditOf(plan.id)).toContainEqual({
      action: "plan.update",
      detail: { slug: plan.slug, fields: ["maxProjects", "monthlyRequests"] },
    });
  });

  test("as it was read, with what nobody sets, which stays as it is", async () => {
    const plan = await newPlan();
    const sent = { ...plan, name: "Renamed", databaseEnabled: "?", userCount: 99, id: null, createdAt: 0 };
    const { status, body } = await call("PUT", `/${plan.id}`, sent);
    expect(status).toBe(200);
    expect(body.plan).toEqual({ ...plan, name: "Renamed", updatedAt: expect.any(String) });
    expect((await call("PUT", `/${plan.id}`, body.plan)).status).toBe(200);
    const [, { detail }] = (await auditOf(plan.id)) as { detail: { fields: string[] } }[] as [never, never];
    expect((detail as { fields: string[] }).fields).not.toContain("userCount");
    expect(codeOf(await call("PUT", `/${plan.id}`, { id: plan.id }))).toEqual([422, "VALIDATION"]);
    const typo = await call("PUT", `/${plan.id}`, { ...plan, maxProject: 1 });
    expect(typo.body.error.message).toContain("did you mean maxProjects?");
  });

  test("as a whole, with all of its fields", async () => {
    const plan = await newPlan();
    const { body } = await call("PUT", `/${plan.id}`, { ...everyField, slug: plan.slug });
    expect(body.plan).toMatchObject({ ...everyField, slug: plan.slug });
  });

  test("two at once that change different fields both count", async () => {
    const plan = await newPlan();
    await Promise.all([
      call("PUT", `/${plan.id}`, { maxProjects: 71 }),
      call("PUT", `/${plan.id}`, { maxEnvVars: 72 }),
    ]);
    expect((await plans()).find(({ id }: { id: string }) => id === plan.id)).toMatchObject({
      maxProjects: 71,
      maxEnvVars: 72,
    });
  });

  test.each([
    { what: "nothing", body: {} },
    { what: "an unknown field", body: { maxPizza: 1 } },
    { what: "a number that is too large", body: { memoryMb: 2_000_000 } },
  ])("to $what is refused", async ({ body }) => {
    const { id } = await newPlan();
    expect(codeOf(await call("PUT", `/${id}`, body))).toEqual([422, "VALIDATION"]);
  });

  test("to a slug that another one has is refused; to its own it is not", async () => {
    const plan = await newPlan();
    expect(codeOf(await call("PUT", `/${plan.id}`, { slug: "standard" }))).toEqual([409, "SLUG_CONFLICT"]);
    expect((await call("PUT", `/${plan.id}`, { slug: plan.slug })).status).toBe(200);
  });
});

describe("deleting a plan", () => {
  test("removes one that nobody has", async () => {
    const { id, slug } = await newPlan();
    expect((await call("DELETE", `/${id}`)).body).toEqual({ ok: true, id });
    expect(codeOf(await call("DELETE", `/${id}`))).toEqual([404, "NOT_FOUND"]);
    expect((await plans()).some((plan: { id: string }) => plan.id === id)).toBe(false);
    expect(await auditOf(id)).toContainEqual({ action: "plan.delete", detail: { slug } });
  });

  test("is refused for the default, and for one that somebody has", async () => {
    const [{ id }] = await plans();
    expect(codeOf(await call("DELETE", `/${id}`))).toEqual([409, "PLAN_IS_DEFAULT"]);
    const used = await newPlan();
    await givePlan(await api.newUser(), used.id);
    expect(codeOf(await call("DELETE", `/${used.id}`))).toEqual([409, "PLAN_IN_USE"]);
    expect((await plans()).some((plan: { id: string }) => plan.id === used.id)).toBe(true);
  });

  test("is not kept from it by somebody who is being deleted", async () => {
    const plan = await newPlan();
    const [user, before] = [await api.newUser(), await api.newUser()];
    for (const each of [user, before]) await givePlan(each, plan.id);
    const counts = async () =>
      Object.fromEntries(
        (await plans()).map(({ id, userCount }: { id: string; userCount: number }) => [id, userCount]),
      );
    const [{ id: standard }] = await plans();
    const had = await counts();
    const remove = await api.call("DELETE", `/admin/users/${user.id}`, { session: admin.session });
    expect(remove.status).toBe(200);
    expect(await counts()).toMatchObject({ [plan.id]: 1, [standard]: had[standard] });
    expect(codeOf(await call("DELETE", `/${plan.id}`))).toEqual([409, "PLAN_IN_USE"]);
    // Whose deletion began when it still left them their plan.
    await api.db.insertInto("user_deletion").values({ user_id: before.id, requested_by: admin.id }).execute();
    expect((await counts())[plan.id]).toBe(0);
    expect((await call("DELETE", `/${plan.id}`)).status).toBe(200);
    await api.db.deleteFrom("user_deletion").execute();
  });

  test("is refused while somebody is being given it", async () => {
    const { id } = await newPlan();
    const user = await api.newUser();
    let answer: Promise<Answer> | undefined;
    await api.db.transaction().execute(async (tx) => {
      await givePlan(user, id, tx);
      answer = call("DELETE", `/${id}`);
      // It waits for what this transaction comes to.
      expect(await Promise.race([answer.then(({ status }) => status), delay(300, "waits")])).toBe("waits");
    });
    expect(answer && codeOf(await answer)).toEqual([409, "PLAN_IN_USE"]);
  });
});

test.each(["PUT", "DELETE"])("%s of a plan that is not there is not found", async (method) => {
  const body = method === "PUT" ? { maxProjects: 1 } : undefined;
  expect(codeOf(await call(method, `/${randomUUID()}`, body))).toEqual([404, "NOT_FOUND"]);
});

test("nobody but administrators with full access sees or changes plans", async () => {
  const user = await api.newUser();
  const key = (await api.newKey(admin, { scopes: ["projects:read"] })).key;
  const { id } = await newPlan();
  for (const [method, path, body] of [
    ["GET", "", undefined],
    ["POST", "", { slug: "x", name: "X" }],
    ["PUT", `/${id}`, { maxProjects: 1 }],
    ["DELETE", `/${id}`, undefined],
  ] as const) {
    expect(codeOf(await call(method, path, body, { session: user.session }))).toEqual([403, "FORBIDDEN"]);
    const scoped = await api.call(method, `/admin/plans${path}`, { key, ...(body && { body }) });
    expect(codeOf(scoped)).toEqual([403, "FORBIDDEN_SCOPE"]);
  }
});

describe("whose containers a change concerns", () => {
  test("those of everybody who has the plan, when it gives containers something else, and then only", async () => {
    const plan = await newPlan();
    const [mine, other] = [await api.newUser(), await api.newUser()];
    await givePlan(mine, plan.id);
    const projects = [await serving(mine), await serving(mine)].map(({ id }) => id);
    await serving(other);
    const gone = await serving(mine);
    await api.db.updateTable("project").set({ deleting_at: new Date() }).where("id", "=", gone.id).execute();
    await call("PUT", `/${plan.id}`, { maxProjects: 70, maxUploadMb: 100, memoryMb: plan.memoryMb });
    expect(await concerned()).toEqual(new Set());
    for (const change of [
      { memoryMb: 600 },
      { cpuMillicores: 600 },
      { pidsLimit: 600 },
      { storageMb: 600 },
      { reservedMemoryMb: 99 },
    ]) {
      await call("PUT", `/${plan.id}`, change);
      expect(await concerned()).toEqual(new Set(projects));
      await api.db.deleteFrom("work_item").execute();
    }
  });

  test("with another default: those of everybody who was never given a plan", async () => {
    const given = await newPlan();
    const [without, withPlan] = [await api.newUser(), await api.newUser()];
    await givePlan(withPlan, given.id);
    const mine = await serving(without);
    const theirs = await serving(withPlan);
    const next = await newPlan({ memoryMb: 1_024, isDefault: true });
    expect(await concerned()).toContain(mine.id);
    expect(await concerned()).not.toContain(theirs.id);
    await api.db.deleteFrom("work_item").execute();

    const { id } = (await plans()).find(({ slug }: { slug: string }) => slug === "standard");
    await call("PUT", `/${id}`, { isDefault: true });
    expect(await concerned()).toContain(mine.id);
    expect(await concerned()).not.toContain(theirs.id);
    await api.db.deleteFrom("work_item").execute();

    // The same room for containers under another name.
    await call("PUT", `/${next.id}`, { memoryMb: 512, cpuMillicores: 1_000, pidsLimit: 256 });
    await call("PUT", `/${next.id}`, { isDefault: true });
    expect(await concerned()).toEqual(new Set());
    await call("PUT", `/${id}`, { isDefault: true });
  });

  test("none of a project where nothing runs", async () => {
    const plan = await newPlan();
    const user = await api.newUser();
    await givePlan(user, plan.id);
    await api.newProject(user);
    const deployment = await api.newDeployment(await api.newProject(user));
    const others: TaskValues[] = [
      { kind: "build" },
      { desired: "stopped" },
      { desired: "removed" },
      { desired: "running", reaped_at: new Date() },
    ];
    for (const values of others) await api.newTask(deployment, values);
    await call("PUT", `/${plan.id}`, { memoryMb: 600 });
    expect(await concerned()).toEqual(new Set());
    await api.newTask(deployment);
    await call("PUT", `/${plan.id}`, { memoryMb: 700 });
    expect(await concerned()).toEqual(new Set([deployment.project_id]));
  });

  test("each once, however often the plan changes before a worker looks", async () => {
    const plan = await newPlan();
    const user = await api.newUser();
    await givePlan(user, plan.id);
    const projects = [await serving(user), await serving(user)];
    const waiting = async () =>
      (await api.db.selectFrom("work_item").select("id").where("state", "=", "queued").execute()).length;
    for (const memoryMb of [600, 700, 800]) await call("PUT", `/${plan.id}`, { memoryMb });
    expect(await waiting()).toBe(projects.length);
    // Whoever is at work may have read the plan as it was.
    await claimWork(api.db, { kinds: ["apply-limits"], owner: "test", leaseMs: 60_000 });
    for (const memoryMb of [900, 1_000]) await call("PUT", `/${plan.id}`, { memoryMb });
    expect(await waiting()).toBe(projects.length);
    expect(await concerned()).toEqual(new Set(projects.map(({ id }) => id)));
  });

  test("an item that is taken up while the plan changes brings what it changes to", async () => {
    const plan = await newPlan({ memoryMb: 500 });
    const user = await api.newUser();
    await givePlan(user, plan.id);
    const task = await api.newTask(await api.newDeployment(await api.newProject(user), { status: "running" }));
    await call("PUT", `/${plan.id}`, { memoryMb: 600 });
    let work: Promise<unknown> | undefined;
    await api.db.transaction().execute(async (tx) => {
      await changePlan(tx, plan.id, { memoryMb: 700 });
      const item = await claimWork(api.db, { kinds: ["apply-limits"], owner: "test", leaseMs: 60_000 });
      if (item === null) throw new Error("nothing is queued");
      work = applyLimitsWorker({ db: api.db, log: createLog("silent") })(item, new AbortController().signal);
      await isHeldUp(api.db);
    });
    await work;
    const { memory_mb } = await api.db
      .selectFrom("task")
      .select("memory_mb")
      .where("id", "=", task.id)
      .executeTakeFirstOrThrow();
    expect(memory_mb).toBe(700);
  });
});

/** Waits until somebody waits for a lock. */
async function isHeldUp(db: Db): Promise<void> {
  await until("somebody to wait for a lock", async () => (await lockWaits(db)) > 0);
}

describe("what is made by a plan", () => {
  const isWaiting = async (promise: Promise<unknown>) =>
    (await Promise.race([promise.then(() => "done"), delay(300, "waits")])) === "waits";

  test("is made before the plan changes, and then found, or by the changed one", async () => {
    const user = await api.newUser({ plan: { memory_mb: 100 } });
    const { id } = await planOfUser(api.db, user.id);
    let change: Promise<Answer> | undefined;
    await api.db.transaction().execute(async (tx) => {
      expect((await holdPlanOfUser(tx, user.id)).memory_mb).toBe(100);
      change = call("PUT", `/${id}`, { memoryMb: 200 });
      expect(await isWaiting(change)).toBe(true);
    });
    expect((await change)?.status).toBe(200);
    await api.db.transaction().execute(async (tx) => {
      expect((await holdPlanOfUser(tx, user.id)).memory_mb).toBe(200);
    });
  });

  test("is made by the new default when the old one goes while it waits", async () => {
    const user = await api.newUser();
    const plan = await newPlan({ memoryMb: 700 });
    let held: Promise<number> | undefined;
    await api.db.transaction().execute(async (tx) => {
      await tx.updateTable("plan").set({ is_default: false }).where("is_default", "=", true).execute();
      await tx.updateTable("plan").set({ is_default: true }).where("id", "=", plan.id).execute();
      held = api.db.transaction().execute(async (other) => (await holdPlanOfUser(other, user.id)).memory_mb);
      expect(await isWaiting(held)).toBe(true);
    });
    expect(await held).toBe(700);
    const { id } = (await plans()).find(({ slug }: { slug: string }) => slug === "standard");
    await call("PUT", `/${id}`, { isDefault: true });
  });
});

test("two control servers agree on the default", async () => {
  const db = createDb({ url: api.context.config.databaseUrl });
  const second = buildServer({ ...api.context, db });
  try {
    const [a, b] = [await newPlan(), await newPlan()];
    const headers = { authorization: `Bearer ${admin.session}`, "content-type": "application/json" };
    const put = (id: string) =>
      second.inject({ method: "PUT", url: `/api/v1/admin/plans/${id}`, headers, payload: { isDefault: true } });
    const answers = await Promise.all([
      call("PUT", `/${a.id}`, { isDefault: true }).then(({ status }) => status),
      put(b.id).then(({ statusCode }) => statusCode),
    ]);
    expect(answers).toEqual([200, 200]);
    expect(await defaults()).toHaveLength(1);
  } finally {
    await second.close();
    await db.destroy();
    const { id } = (await plans()).find(({ slug }: { slug: string }) => slug === "standard");
    await call("PUT", `/${id}`, { isDefault: true });
  }
});
