import { randomUUID } from "node:crypto";
import { defaultDatabaseImages } from "@svc/proto";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type AlertWork, alertWork } from "../../fleet/alerts/raise.ts";
import { tellOwner } from "../../fleet/certificates/alerts.ts";
import type { Certificate } from "../../fleet/certificates/steps.ts";
import type { ObservationValue, PlacementValue } from "../../fleet/cluster/keys.ts";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import { createLog } from "../../log.ts";
import { createCrashNotes } from "../crashes/notes.ts";
import { branchRows } from "../databases/rows.ts";
import { moveBranch } from "../databases/store.ts";
import { newBranch } from "../databases/testing/branch.ts";
import { newDomain } from "../domains/testing.ts";
import { enforceQuotas } from "../suspension/quota/enforce.ts";

let api: TestApi;
let owner: TestUser;
beforeAll(async () => {
  api = await testApi();
  owner = await api.newUser({ plan: { monthly_requests: 100 } });
});
afterAll(() => api?.[Symbol.asyncDispose]());
afterEach(() => api.db.deleteFrom("work_item").execute());

/** What was said of a project, oldest first. */
async function saidOf(projectId: string): Promise<string[]> {
  const rows = await api.db
    .selectFrom("work_item")
    .select("payload")
    .where("kind", "=", alertWork)
    .orderBy("id")
    .execute();
  return rows
    .map(({ payload }) => payload as AlertWork)
    .filter((each) => each.projectId === projectId)
    .map(({ says }) => `${says?.event} ${says?.subject} ${says?.isOn ? "on" : "off"}`);
}

test("a site is down while any of its containers is in trouble", async () => {
  const project = await api.newProject(owner);
  const deployment = await api.newDeployment(project, { status: "running" });
  const tasks = [
    await api.newTask(deployment, { id: randomUUID(), replica: 0 }),
    await api.newTask(deployment, { id: randomUUID(), replica: 1 }),
  ];
  const failure = { code: "CRASH_LOOP", message: "The app exited with code 7.", exitCode: 7, oomKilled: false };
  let seq = 0;
  const health = new Map<string, "healthy" | "backoff">();
  const fleet = {
    placements: () =>
      tasks.map(({ id }) => ({
        ...{ nodeId: "n1", modRevision: 1n },
        placement: { placementId: id, kind: "serve", desired: "running" } as PlacementValue,
      })),
    observation: (_node: string, placementId: string) => {
      const is = health.get(placementId) ?? "healthy";
      const restartSeq = is === "healthy" && health.has(placementId) ? 1 : 0;
      return {
        ...{ placementId, statusSeq: seq, observed: "running", health: is, restartSeq },
        failure: is === "healthy" ? null : failure,
      } as unknown as ObservationValue;
    },
  };
  const look = async (...now: ("healthy" | "backoff")[]) => {
    for (const [at, { id }] of tasks.entries()) health.set(id, now[at] ?? "healthy");
    seq += 1;
    await createCrashNotes({ db: api.db, fleet, log: createLog("silent") })();
    return (await saidOf(project.id)).at(-1);
  };
  expect(await look("backoff", "backoff")).toBe("siteDown production on");
  expect(await look("healthy", "backoff")).toBe("siteDown production on");
  expect(await look("healthy", "healthy")).toBe("siteDown production off");
});

test("a database that fails is told, and that it is ready again", async () => {
  const project = await api.newProject(owner);
  await newBranch(api, { id: project.id });
  const { id } = await api.db
    .selectFrom("database")
    .select("id")
    .where("project_id", "=", project.id)
    .executeTakeFirstOrThrow();
  await moveBranch(api.db, id, { from: "ready", to: "error", reason: "Its server does not start." });
  await moveBranch(api.db, id, { from: "ready", to: "error", reason: "It is not ready." });
  await moveBranch(api.db, id, { from: "error", to: "ready" });
  expect(await saidOf(project.id)).toEqual(["databaseFailing production on", "databaseFailing production off"]);
});

test("a database in use whose server is down is told of, and that it serves again", async () => {
  const project = await api.newProject(owner);
  await newBranch(api, { id: project.id });
  const rows = branchRows(api.db, defaultDatabaseImages);
  const branch = await api.db
    .selectFrom("database")
    .select(["id", "status"])
    .where("project_id", "=", project.id)
    .executeTakeFirstOrThrow();
  for (let rounds = 0; rounds < 2; rounds += 1)
    await rows.noteDown(branch, "The database server does not answer: no space left on its disk.");
  expect(await saidOf(project.id)).toEqual(["databaseFailing production on"]);
  await rows.noteServing(branch);
  expect(await saidOf(project.id)).toEqual(["databaseFailing production on", "databaseFailing production off"]);
});

test("a domain without a certificate is told of once a few tries have failed", async () => {
  const project = await api.newProject(owner);
  const { domain } = await newDomain(api.db, project.id, `${randomUUID()}.example`);
  await api.db.updateTable("custom_domain").set({ status: "verified" }).where("domain", "=", domain).execute();
  const certificate = (change: Partial<Certificate>) => ({ name: domain, failures: 0, ...change }) as Certificate;
  const why = { text: "The CA did not find the challenge." };
  for (const failures of [1, 2]) await tellOwner(api.db, certificate({ state: "failed", failures }), why);
  expect(await saidOf(project.id)).toEqual([]);
  await tellOwner(api.db, certificate({ state: "failed", failures: 3 }), why);
  await tellOwner(api.db, certificate({ state: "issued" }), undefined);
  expect(await saidOf(project.id)).toEqual([`certificateFailing ${domain} on`, `certificateFailing ${domain} off`]);
});

test("most of a month's quota is told of each project, and then its suspension", async () => {
  const spender = await api.newUser({ plan: { monthly_requests: 100 } });
  const project = await api.newProject(spender);
  const month = new Date().toISOString().slice(0, 7);
  const use = (requests: number) =>
    api.db
      .insertInto("traffic_month")
      .values({ user_id: spender.id, month: `${month}-01`, requests })
      .onConflict((conflict) => conflict.columns(["user_id", "month"]).doUpdateSet({ requests }))
      .execute();
  await use(85);
  await enforceQuotas({ db: api.db, log: createLog("silent") });
  await use(100);
  await enforceQuotas({ db: api.db, log: createLog("silent") });
  expect(await saidOf(project.id)).toEqual([`quotaNear ${month} on`, "suspended  on"]);
});
