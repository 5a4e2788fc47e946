import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import { createMailer } from "../../../identity/mail/mailer.ts";
import { createLog } from "../../../log.ts";
import type { Plan, Project } from "../../../stores/db/tables.ts";
import { lockWaits } from "../../../stores/db/testing.ts";
import { startEtcd, until } from "../../../stores/etcd/testing.ts";
import { finishWork } from "../../../stores/work/queue.ts";
import { resumeWork } from "../../../stores/work/resume.ts";
import { claimWork } from "../../../stores/work/testing/claim.ts";
import { startReplica } from "../../deployments/testing/replica.ts";
import { enforceQuotas } from "./enforce.ts";
import { monthOf } from "./rules.ts";
import { quotaNoticeWorker } from "./worker.ts";

let api: TestApi;
let admin: TestUser;
beforeAll(async () => {
  api = await testApi();
  admin = await api.newUser({ admin: true });
});
afterAll(() => api?.[Symbol.asyncDispose]());
afterEach(() => void vi.useRealTimers());

const log = createLog("silent");
const now = new Date();
const nextMonth = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1, 0, 0, 1));
const enforce = (at = now) => enforceQuotas({ db: api.db, log }, { clock: async () => at });

/** A user with projects and a plan, who has used this much of the month. */
async function anOwner(
  plan: Partial<Plan>,
  used: { requests?: number; bytesIn?: number; bytesOut?: number },
  { projects = 1, month = monthOf(now) } = {},
) {
  const user = await api.newUser({ plan });
  const own: Project[] = [];
  for (let count = 0; count < projects; count += 1) own.push(await api.newProject(user));
  await use(user, used, month);
  return { user, projects: own };
}
const use = (
  user: TestUser,
  { requests = 0, bytesIn = 0, bytesOut = 0 }: { requests?: number; bytesIn?: number; bytesOut?: number },
  month = monthOf(now),
) =>
  api.db
    .insertInto("traffic_month")
    .values({ user_id: user.id, month, requests, bytes_in: bytesIn, bytes_out: bytesOut })
    .onConflict((conflict) => conflict.columns(["user_id", "month"]).doUpdateSet({ requests }))
    .execute();

const stateOf = async ({ id }: Project) => {
  const row = await api.db.selectFrom("project").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
  return row.suspended_at === null ? "active" : `${row.suspend_reason}${row.resuming_at === null ? "" : ", resuming"}`;
};
const statesOf = (projects: Project[]) => Promise.all(projects.map(stateOf));
/** As the worker does, once all is up. */
const finishResuming = (project: Project) =>
  api.db
    .updateTable("project")
    .set({ suspended_at: null, suspend_reason: null, resuming_at: null })
    .where("id", "=", project.id)
    .where("resuming_at", "is not", null)
    .execute();
const auditOf = (project: Project) =>
  api.db.selectFrom("audit").select(["action", "user_id"]).where("target", "=", project.id).orderBy("id").execute();
const byAdmin = (project: Project, action: "suspend" | "resume") =>
  api.call("POST", `/admin/projects/${project.id}/${action}`, { session: admin.session });
const setPlan = (user: TestUser, change: Partial<Plan>) =>
  api.db
    .updateTable("plan")
    .set(change)
    .where("id", "=", api.db.selectFrom("account").select("plan_id").where("user_id", "=", user.id))
    .execute();

test("whoever has used up requests or bandwidth is suspended in all projects, and nobody else", async () => {
  const half = 512 * 1024;
  const requests = await anOwner({ monthly_requests: 100 }, { requests: 100 }, { projects: 2 });
  const bytes = await anOwner({ monthly_bandwidth_mb: 1 }, { bytesIn: half, bytesOut: half });
  const nothing = await anOwner({ monthly_requests: 0 }, {});
  const within = await anOwner({ monthly_requests: 100, monthly_bandwidth_mb: 1 }, { requests: 79, bytesOut: half });
  const unlimited = await anOwner({ monthly_requests: null }, { requests: 1e9, bytesOut: 1e12 });
  const before = await anOwner({ monthly_requests: 100 }, { requests: 500 }, { month: "2020-01-01" });
  await enforce();
  expect(await statesOf([requests, bytes, nothing].flatMap(({ projects }) => projects))).toEqual(
    Array(4).fill("quota"),
  );
  expect(await statesOf([within, unlimited, before].flatMap(({ projects }) => projects))).toEqual(
    Array(3).fill("active"),
  );
  const { body } = await api.call("GET", "/projects", { session: requests.user.session });
  expect(body.projects).toMatchObject([{ suspendReason: "quota" }, { suspendReason: "quota" }]);
  for (const project of requests.projects) {
    expect(await auditOf(project)).toEqual([{ action: "project.suspend", user_id: null }]);
    const work = api.db.selectFrom("work_item").select("kind").where("key", "=", `suspension/${project.id}`);
    expect(await work.execute()).toEqual([{ kind: "suspension" }]);
  }
});

test("many who look at once suspend, resume and tell once", async () => {
  const { user, projects } = await anOwner({ monthly_requests: 10 }, { requests: 10 }, { projects: 3 });
  await Promise.all([enforce(), enforce(), enforce(), enforce()]);
  await setPlan(user, { monthly_requests: 1_000 });
  await Promise.all([enforce(), enforce(), enforce(), enforce()]);
  expect(await statesOf(projects)).toEqual(Array(3).fill("quota, resuming"));
  for (const project of projects)
    expect((await auditOf(project)).map(({ action }) => action)).toEqual(["project.suspend", "project.resume"]);
  const notices = api.db.selectFrom("work_item").select("id").where("key", "=", `quota-notice/${user.id}`);
  expect(await notices.execute()).toHaveLength(1);
});

test("a new month brings back what the quota took, and leaves what an administrator took", async () => {
  const { projects } = await anOwner({ monthly_requests: 10 }, { requests: 10 }, { projects: 2 });
  const [kept, own] = projects as [Project, Project];
  await byAdmin(kept, "suspend");
  await enforce();
  expect(await statesOf([kept, own])).toEqual(["admin", "quota"]);
  await enforce(nextMonth);
  expect(await statesOf([kept, own])).toEqual(["admin", "quota, resuming"]);
  await finishResuming(own);
  await enforce(nextMonth);
  expect(await statesOf([kept, own])).toEqual(["admin", "active"]);
});

test("a larger plan brings them back, a smaller one takes that back", async () => {
  const { user, projects } = await anOwner({ monthly_requests: 10 }, { requests: 20 });
  await enforce();
  await setPlan(user, { monthly_requests: null });
  await enforce();
  expect(await statesOf(projects)).toEqual(["quota, resuming"]);
  await setPlan(user, { monthly_requests: 20 });
  await enforce();
  expect(await statesOf(projects)).toEqual(["quota"]);
});

test("what an administrator resumes runs on until the month ends", async () => {
  const { user, projects } = await anOwner({ monthly_requests: 10 }, { requests: 10 }, { projects: 2 });
  const [project, other] = projects as [Project, Project];
  await enforce();
  expect((await byAdmin(project, "resume")).status).toBe(202);
  await enforce();
  expect(await stateOf(project)).toBe("quota, resuming");
  await finishResuming(project);
  await enforce();
  expect(await statesOf([project, other])).toEqual(["active", "quota"]);
  await use(user, { requests: 10 }, monthOf(nextMonth));
  await enforce(nextMonth);
  expect(await stateOf(project)).toBe("quota");
});

test("an administrator who resumes while there is quota left gives nothing away", async () => {
  const { user, projects } = await anOwner({ monthly_requests: 10 }, { requests: 5 });
  const [project] = projects as [Project];
  await byAdmin(project, "suspend");
  await byAdmin(project, "resume");
  await finishResuming(project);
  await use(user, { requests: 10 });
  await enforce();
  expect(await stateOf(project)).toBe("quota");
});

test("a project that comes or goes while the quota is used up", async () => {
  const { user, projects } = await anOwner({ monthly_requests: 10 }, { requests: 10 });
  const [first] = projects as [Project];
  await api.call("DELETE", `/projects/${first.id}`, { session: user.session });
  const later = await api.newProject(user);
  await enforce();
  expect(await statesOf([first, later])).toEqual(["active", "quota"]);
});

test("not everything is started in one moment", async () => {
  const { user, projects } = await anOwner({ monthly_requests: 10 }, { requests: 10 }, { projects: 5 });
  await enforce();
  await setPlan(user, { monthly_requests: null });
  const counts: number[] = [];
  for (let round = 0; round < 4; round += 1) {
    await enforceQuotas({ db: api.db, log }, { batch: 1, resumesMax: 2 });
    counts.push((await statesOf(projects)).filter((state) => state.endsWith("resuming")).length);
  }
  expect(counts).toEqual([2, 4, 5, 5]);
});

test("the owner is told once when most is used, and once when all is", async () => {
  const { user, projects } = await anOwner({ monthly_requests: 100 }, { requests: 80 });
  await enforce();
  await enforce();
  expect(await statesOf(projects)).toEqual(["active"]);
  await deliver();
  await use(user, { requests: 100 });
  await enforce();
  await enforce();
  await deliver();
  const mails = (await api.mails()).filter(({ to }) => to === user.email);
  expect(mails.map(({ subject }) => subject)).toEqual([
    expect.stringContaining("Most of this month's quota"),
    expect.stringContaining("are suspended"),
  ]);
  expect(mails[1]?.text).toContain("100 of 100");
});

test("nobody is told what is not so any more, and what comes to be so again is told then", async () => {
  const { user } = await anOwner({ monthly_requests: 100 }, { requests: 80 });
  const told = async () => (await api.mails()).filter(({ to }) => to === user.email).map(({ subject }) => subject);
  await enforce();
  await setPlan(user, { monthly_requests: 1_000 });
  await deliver();
  expect(await told()).toEqual([]);
  await setPlan(user, { monthly_requests: 80 });
  await enforce();
  await setPlan(user, { monthly_requests: 1_000 });
  await enforce();
  await deliver();
  expect(await told()).toEqual([]);
  await use(user, { requests: 1_000 });
  await enforce();
  await deliver();
  expect(await told()).toEqual([expect.stringContaining("are suspended")]);
});

/** Does what was queued to be told. */
async function deliver(): Promise<void> {
  const { mail, apiUrl } = api.context.config;
  const handler = quotaNoticeWorker({
    db: api.db,
    mailer: createMailer({ clock: systemClock, random: systemRandom }, mail),
    apiUrl,
  });
  for (;;) {
    const item = await claimWork(api.db, { kinds: ["quota-notice"], owner: "test", leaseMs: 60_000 });
    if (item === null) return;
    await finishWork(api.db, item, "test", await handler(item, new AbortController().signal));
  }
}

test("a round that had to wait goes by the month that has begun meanwhile", async () => {
  const { user, projects } = await anOwner({ monthly_requests: 10 }, { requests: 10 });
  let at = now;
  let round: Promise<void> | undefined;
  await api.db.transaction().execute(async (tx) => {
    await tx.selectFrom("auth.user").select("id").where("id", "=", user.id).forUpdate().execute();
    round = enforceQuotas({ db: api.db, log }, { clock: async () => at });
    await until("the round to wait for the user", async () => (await lockWaits(api.db)) > 0);
    at = nextMonth;
  });
  await round;
  expect(await statesOf(projects)).toEqual(["active"]);
  expect(await noticesTo(user)).toEqual([]);
});

test.each([-40, 40])("the month is the database's, for a replica whose clock is %d days off, too", async (days) => {
  const { user, projects } = await anOwner({ monthly_requests: 10 }, { requests: 10 });
  vi.useFakeTimers({ toFake: ["Date"], now: now.getTime() + days * 86_400_000 });
  await enforceQuotas({ db: api.db, log });
  expect(await statesOf(projects)).toEqual(["quota"]);
  expect(await noticesTo(user)).toEqual([{ userId: user.id, month: monthOf(now), level: "over" }]);
  await deliver();
  vi.useRealTimers();
  expect((await api.mails()).filter(({ to }) => to === user.email)).toHaveLength(1);
});

const noticesTo = async (user: TestUser) =>
  (await api.db.selectFrom("work_item").select("payload").where("key", "=", `quota-notice/${user.id}`).execute()).map(
    ({ payload }) => payload,
  );

test("what is to be told and was given up is told after all, unless another month has begun", async () => {
  const { user } = await anOwner({ monthly_requests: 100 }, { requests: 90 });
  await enforce();
  const key = `quota-notice/${user.id}`;
  const item = await api.db.selectFrom("work_item").selectAll().where("key", "=", key).executeTakeFirstOrThrow();
  const old = { ...(item.payload as object), month: "2020-01-01" };
  await api.db
    .insertInto("work_item")
    .values({ kind: item.kind, key, payload: JSON.stringify(old) })
    .execute();
  await api.db.updateTable("work_item").set({ state: "failed", attempt: 20 }).where("key", "=", key).execute();
  await deliver();
  expect((await api.mails()).filter(({ to }) => to === user.email)).toEqual([]);
  await resumeWork(api.db);
  await deliver();
  expect((await api.mails()).filter(({ to }) => to === user.email)).toHaveLength(1);
  const states = await api.db.selectFrom("work_item").select("state").where("key", "=", key).execute();
  expect(states).toEqual([{ state: "done" }, { state: "done" }]);
});

test("the leader looks by itself, and what it finds is carried out", async () => {
  const { projects } = await anOwner({ monthly_requests: 10 }, { requests: 10 });
  const [project] = projects as [Project];
  await using etcd = await startEtcd();
  const { databaseUrl, content } = api.context.config;
  const registry = { getManifest: () => Promise.reject(new Error("nothing is deployed")) };
  const options = { databaseUrl, content, etcdEndpoint: etcd.endpoint, registry };
  await using _first = await startReplica(options);
  await using _second = await startReplica(options);
  await until("the project to be suspended", async () => (await stateOf(project)) === "quota");
  expect(await auditOf(project)).toHaveLength(1);
  await byAdmin(project, "resume");
  await until("the project to be resumed", async () => (await stateOf(project)) === "active");
});
