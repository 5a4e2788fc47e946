import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { manifestSchema } from "@svc/proto";
import { runLoop } from "@svc/runtime/loop";
import { systemClock } from "@svc/runtime/system";
import { createWake } from "@svc/runtime/wake";
import type { KyselyPlugin } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { keys } from "../../fleet/cluster/keys.ts";
import type { RouteEntry } from "../../fleet/cluster/route-entry.ts";
import { type OpenFleet, openFleet } from "../../fleet/cluster/testing.ts";
import { routeTopic } from "../../fleet/cluster/topics.ts";
import { publishOnce } from "../../fleet/routes/publisher.ts";
import { routeRows } from "../../fleet/routes/rows.ts";
import { setChannelState } from "../../fleet/routes/store.ts";
import { lockDeployment } from "../../fleet/tasks/deployment.ts";
import { buildTask } from "../../fleet/tasks/kinds/build.ts";
import { insertTask } from "../../fleet/tasks/store.ts";
import { planOfUser } from "../../identity/plans/of-user.ts";
import { createLog } from "../../log.ts";
import { createListener, type Listener } from "../../stores/db/listen.ts";
import { notify } from "../../stores/db/notify.ts";
import type { Db } from "../../stores/db/pool.ts";
import { seedPlans } from "../../stores/db/seed.ts";
import type { Channel, DeploymentStatus, Project } from "../../stores/db/tables.ts";
import { lockWaits, type TestDatabase, testDatabase } from "../../stores/db/testing.ts";
import { campaign, type Etcd } from "../../stores/etcd/index.ts";
import { type EtcdServer, startEtcd, testClient, until } from "../../stores/etcd/testing.ts";
import type { ClaimedWork, WorkOutcome } from "../../stores/work/queue.ts";
import { newDomain } from "../domains/testing.ts";
import { claimHost, releaseRedirects } from "../hosts/hosts.ts";
import { insertProject } from "../projects/store.ts";
import { requestRename } from "./request.ts";
import { edgesWaitMs } from "./steps.ts";
import { renameWorker } from "./worker.ts";

const log = createLog(process.env["SVC_TEST_LOG_LEVEL"] ?? "silent");
const content = { scheme: "https", domain: "svc.test", port: "" } as const;

let database: TestDatabase;
let server: EtcdServer;
let etcd: Etcd;
let fleet: OpenFleet;
let listener: Listener;
let publisher: AsyncDisposable;
let db: Db;
let ownerId = "";
beforeAll(async () => {
  database = await testDatabase();
  db = database.db;
  await seedPlans(db);
  server = await startEtcd();
  etcd = testClient(server.endpoint);
  fleet = await openFleet(etcd, { clock: systemClock, log });
  listener = createListener(systemClock, database.url, log);
  publisher = startPublisher();
  ownerId = randomUUID();
  await db
    .insertInto("auth.user")
    .values({ id: ownerId, name: "Ada", email: "ada@svc.test", emailVerified: true })
    .execute();
});
afterAll(async () => {
  await publisher[Symbol.asyncDispose]();
  await listener[Symbol.asyncDispose]();
  await fleet[Symbol.asyncDispose]();
  await etcd.close();
  await server[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await db.deleteFrom("node").execute();
});

/** The leader's loop that publishes routes, woken as the leader wakes it. */
function startPublisher(): AsyncDisposable {
  const stop = new AbortController();
  const campaigning = campaign({
    etcd,
    key: keys.leader,
    id: randomUUID(),
    ttlMs: 6_000,
    signal: stop.signal,
    async lead(leadership) {
      const wake = createWake(systemClock);
      using _changes = listener.on(routeTopic, wake.signal);
      using _table = fleet.onChange("routes", wake.signal);
      const onError = (error: unknown) => log.warn({ err: error }, "a round failed");
      await runLoop({ clock: systemClock, wake, periodMs: 2_000, signal: leadership.signal, onError }, () =>
        publishOnce({ rows: routeRows(db), fleet, leadership, gateSecret: Buffer.alloc(32), log }),
      );
    },
  });
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await campaigning;
    },
  };
}

/** An edge in rotation; it follows the published table only when told to, or from then on. */
async function anEdge() {
  const { id } = await db
    .insertInto("node")
    .values({ role: "edge", name: `edge-${randomUUID()}`, last_seen_at: new Date() })
    .returning("id")
    .executeTakeFirstOrThrow();
  const followOnce = async () => {
    const { generation } = fleet.routesMeta();
    const value = { generation, digest: "", error: null, behindHosts: [], at: new Date().toISOString() };
    await etcd.txn({ guards: [], ops: [{ put: { key: keys.edgeApplied(id), value: JSON.stringify(value) } }] });
    await until("the edge's word is known", () => (fleet.edgeApplied(id)?.generation ?? 0) >= generation);
  };
  // One word after another: one of an older table must not come last.
  let following = Promise.resolve();
  const follow = () => {
    following = following.then(followOnce);
    return following;
  };
  const followFromNowOn = (): AsyncDisposable => {
    // What fails is told when it ends.
    const changes = fleet.onChange("routes", () => void follow().catch(() => {}));
    return {
      async [Symbol.asyncDispose]() {
        changes[Symbol.dispose]();
        await following;
      },
    };
  };
  return { id, follow, followFromNowOn };
}

/** An edge that follows at once, as healthy ones do. */
async function healthyEdge() {
  const { follow, followFromNowOn } = await anEdge();
  await follow();
  return { follow, ...followFromNowOn() };
}

let count = 0;
const newSlug = () => {
  count += 1;
  return `slug-${count}-x`;
};

async function aProject(slug = newSlug()): Promise<Project> {
  const project = await insertProject(
    db,
    { owner_id: ownerId, name: "Shop", slug, type: "static" },
    `${slug}.${content.domain}`,
  );
  if (project === null) throw new Error(`${slug} is taken`);
  await notify(db, routeTopic);
  return project;
}

const reload = (project: Project) =>
  db.selectFrom("project").selectAll().where("id", "=", project.id).executeTakeFirstOrThrow();
const slugOf = async (project: Project) => (await reload(project)).slug;

/** A deployment of a static site on a channel; `running` and `stopped` ones are what the channel shows. */
async function aDeployment(
  of: Project,
  status: DeploymentStatus,
  { channel = "production", prNumber = null }: { channel?: Channel; prNumber?: number | null } = {},
) {
  const project = await reload(of);
  return db.transaction().execute(async (tx) => {
    const host = await claimHost(tx, project, { channel, prNumber }, content.domain);
    const values = {
      project_id: project.id,
      channel,
      pr_number: prNumber,
      status,
      url: `https://${host}`,
      manifest: JSON.stringify({ version: 2, app: { name: "Shop", type: "static" } }),
      artifact_kind: "bundle" as const,
      artifact_repository: "svc/bundle",
      artifact_digest: `sha256:${"0".repeat(64)}`,
      artifact_size: 1,
    };
    const deployment = await tx.insertInto("deployment").values(values).returningAll().executeTakeFirstOrThrow();
    if (status === "running" || status === "stopped")
      await setChannelState(tx, deployment, { deploymentId: deployment.id, stopped: status === "stopped" });
    return deployment;
  });
}

const ask = (project: Project, slug: string, now = new Date()) =>
  db.transaction().execute(async (tx) => {
    const locked = await tx
      .selectFrom("project")
      .selectAll()
      .where("id", "=", project.id)
      .forUpdate()
      .executeTakeFirstOrThrow();
    await requestRename(tx, locked, slug, { content, now });
  });

/** Runs the work as a worker would, again whenever it makes room for others, until it is done or disposed. */
function work(
  project: Project,
  { looks = Infinity, now = systemClock.now, ...options }: { db?: Db; now?: () => Date; looks?: number } = {},
) {
  const stop = new AbortController();
  const handler = renameWorker({ clock: { ...systemClock, now }, db, fleet, content, log, ...options });
  const item: ClaimedWork = {
    id: 1,
    kind: "rename",
    key: `rename/${project.id}`,
    payload: { projectId: project.id },
    attempt: 1,
    maxAttempts: 20,
    ageMs: 0,
  };
  const untilDone = async (): Promise<WorkOutcome> => {
    for (let look = 1; ; look += 1) {
      const outcome = await handler(item, stop.signal);
      if (look === looks || stop.signal.aborted || !("retryAfterMs" in outcome)) return outcome;
      await delay(Math.min(outcome.retryAfterMs, 20));
    }
  };
  const done = untilDone();
  return {
    done,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await done.catch(() => {});
    },
  };
}

const entryOf = (label: string) => fleet.route(`${label}.${content.domain}`);
const published = (what: string, label: string, is: (entry: RouteEntry) => boolean) =>
  until(what, () => {
    const entry = entryOf(label);
    return entry && is(entry) ? entry : null;
  });
const serves = (label: string, deploymentId: string) =>
  published(`${label} serves`, label, (entry) => entry.static !== undefined && entry.deploymentId === deploymentId);
const redirects = (label: string, to: string) =>
  published(`${label} redirects to ${to}`, label, ({ redirect }) => redirect?.host === `${to}.${content.domain}`);
const urlOf = async ({ id }: { id: string }) =>
  (await db.selectFrom("deployment").select("url").where("id", "=", id).executeTakeFirstOrThrow()).url;

test("both hosts of every channel serve until all edges have the new ones; then the slug flips and the old redirect", async () => {
  const project = await aProject();
  const [old, next] = [project.slug, newSlug()];
  const site = await aDeployment(project, "running");
  const before = await aDeployment(project, "superseded");
  const preview = await aDeployment(project, "running", { channel: "preview" });
  const pull = await aDeployment(project, "running", { channel: "preview", prNumber: 7 });
  const building = await aDeployment(project, "building", { channel: "preview", prNumber: 7 });
  const [first, second] = [await anEdge(), await anEdge()];
  await serves(old, site.id);
  await first.follow();
  await second.follow();

  await ask(project, next);
  await using running = work(project);
  for (const [slug, id] of [
    [old, site.id],
    [next, site.id],
    [`preview-${old}`, preview.id],
    [`preview-${next}`, preview.id],
    [`preview-${old}--7`, pull.id],
    [`preview-${next}--7`, pull.id],
  ] as const)
    await serves(slug, id);
  await first.follow();
  expect(await slugOf(project)).toBe(old);
  expect(await urlOf(site)).toBe(`https://${old}.svc.test`);
  expect(entryOf(old)?.redirect).toBeUndefined();

  await second.follow();
  expect(await running.done).toEqual({ state: "done" });
  expect(await slugOf(project)).toBe(next);
  expect(await Promise.all([site, before, preview, pull, building].map(urlOf))).toEqual([
    `https://${next}.svc.test`,
    // In a day the old name may be somebody else's.
    `https://${next}.svc.test`,
    `https://preview-${next}.svc.test`,
    `https://preview-${next}--7.svc.test`,
    `https://preview-${next}--7.svc.test`,
  ]);
  await redirects(old, next);
  await redirects(`preview-${old}`, `preview-${next}`);
  await redirects(`preview-${old}--7`, `preview-${next}--7`);
  await serves(next, site.id);
});

describe("an edge that does not answer", () => {
  test.each([
    { what: "acknowledges at last", recover: (edge: Awaited<ReturnType<typeof anEdge>>) => edge.follow() },
    {
      what: "is taken out of rotation",
      recover: ({ id }: { id: string }) =>
        db.updateTable("node").set({ schedulable: false }).where("id", "=", id).execute(),
    },
  ])("holds up the slug for 30 s, and the redirects until it $what", async ({ recover }) => {
    await using _healthy = await healthyEdge();
    const dead = await anEdge();
    const project = await aProject();
    const [old, next] = [project.slug, newSlug()];
    const site = await aDeployment(project, "running");
    let now = new Date();
    await ask(project, next, now);
    await using running = work(project, { now: () => now });
    await serves(next, site.id);
    expect(await slugOf(project)).toBe(old);

    now = new Date(now.getTime() + edgesWaitMs);
    await until("the slug is the new one", async () => (await slugOf(project)) === next);
    await serves(old, site.id);
    // A deployment that comes now has the new address, and is served at both.
    const newer = await aDeployment(project, "running");
    expect(newer.url).toBe(`https://${next}.svc.test`);
    await serves(old, newer.id);
    await serves(next, newer.id);

    await recover(dead);
    expect(await running.done).toEqual({ state: "done" });
    await redirects(old, next);
  });

  test("is not waited for by a worker that others need", async () => {
    await using healthy = await healthyEdge();
    await anEdge();
    const project = await aProject();
    const slug = newSlug();
    await aDeployment(project, "running");
    let now = new Date();
    await ask(project, slug, now);
    await using running = work(project, { now: () => now });
    await published("the new host is there", slug, () => true);
    await healthy.follow();
    const looks = async () => {
      const { done } = work(project, { now: () => now, looks: 1 });
      return (await done) as { retryAfterMs: number; refund: boolean };
    };
    await running[Symbol.asyncDispose]();
    now = new Date(now.getTime() + edgesWaitMs - 1_000);
    expect(await looks()).toEqual({ retryAfterMs: (edgesWaitMs - 1_000) / 4, refund: true });
    expect(await slugOf(project)).toBe(project.slug);
    now = new Date(now.getTime() + 1_000);
    // It flips, and does not wait for the redirects.
    expect(await looks()).toEqual({ retryAfterMs: 500, refund: true });
    expect(await slugOf(project)).toBe(slug);
    expect(await looks()).toEqual({ retryAfterMs: 500, refund: true });
  });

  test("keeps everything as it is when there is no other", async () => {
    await anEdge();
    const project = await aProject();
    await aDeployment(project, "running");
    const next = newSlug();
    const since = new Date();
    await ask(project, next, since);
    const now = () => new Date(since.getTime() + 100 * edgesWaitMs);
    await using running = work(project, { now });
    const entry = await published("the new host is there", next, () => true);
    expect(entry.redirect).toBeUndefined();
    await running[Symbol.asyncDispose]();
    expect(await work(project, { now, looks: 1 }).done).toEqual({ retryAfterMs: 15_000, refund: true });
    expect(await slugOf(project)).toBe(project.slug);
  });
});

test("a stopped site stays stopped, at its new name as well", async () => {
  await using _edge = await healthyEdge();
  const project = await aProject();
  const next = newSlug();
  const site = await aDeployment(project, "stopped");
  await ask(project, next);
  await using running = work(project);
  expect(await running.done).toEqual({ state: "done" });
  expect(entryOf(next)?.page).toEqual({ page: "PAGE_STOPPED" });
  expect(await urlOf(site)).toBe(`https://${next}.svc.test`);
  await redirects(project.slug, next);
});

test("a channel whose first deployment comes during the rename never has a host of the old slug", async () => {
  const edge = await anEdge();
  const project = await aProject();
  const [old, next] = [project.slug, newSlug()];
  const site = await aDeployment(project, "running");
  await ask(project, next);
  await using running = work(project);
  await serves(next, site.id);
  const pull = await aDeployment(project, "running", { channel: "preview", prNumber: 3 });
  expect(pull.url).toBe(`https://preview-${next}--3.svc.test`);
  await serves(`preview-${next}--3`, pull.id);
  await using _following = edge.followFromNowOn();
  await edge.follow();
  expect(await running.done).toEqual({ state: "done" });
  const again = await aDeployment(project, "queued", { channel: "preview", prNumber: 3 });
  expect(again.url).toBe(pull.url);
  expect(entryOf(`preview-${old}--3`)).toBeNull();
});

test("renames in quick succession end at the last one, and every name that the project had leads there", async () => {
  await using _edge = await healthyEdge();
  const project = await aProject();
  const site = await aDeployment(project, "running");
  const [second, third, fourth] = [newSlug(), newSlug(), newSlug()];
  await ask(project, second);
  await ask(project, third);
  await work(project).done;
  expect(await slugOf(project)).toBe(third);
  await redirects(project.slug, third);
  expect(entryOf(second)).toBeNull();
  await ask(project, fourth);
  await work(project).done;
  // No visitor is sent twice.
  for (const slug of [project.slug, third]) await redirects(slug, fourth);
  expect(await urlOf(site)).toBe(`https://${fourth}.svc.test`);
});

test("a custom domain that redirects to the project's own host leads to the next one", async () => {
  await using _edge = await healthyEdge();
  const project = await aProject();
  await aDeployment(project, "running");
  const { domain } = await newDomain(db, project.id, "old.example", { status: "verified", redirects_home: true });
  const leadsTo = (slug: string) =>
    until(`it leads to ${slug}`, () => fleet.route(domain)?.redirect?.host === `${slug}.${content.domain}`);
  await leadsTo(project.slug);
  const next = newSlug();
  for (const slug of [next, project.slug]) {
    await ask(project, slug);
    await work(project).done;
    await leadsTo(slug);
  }
});

test("a rename back makes the old host serve again, and the other redirect", async () => {
  await using _edge = await healthyEdge();
  const project = await aProject();
  const site = await aDeployment(project, "running");
  const next = newSlug();
  for (const slug of [next, project.slug, next, project.slug]) {
    await ask(project, slug);
    await work(project).done;
    expect(await slugOf(project)).toBe(slug);
    await serves(slug, site.id);
    await redirects(slug === next ? project.slug : next, slug);
  }
});

test("a rename that is taken back leaves the slug, and nothing of the other name", async () => {
  const edge = await anEdge();
  const project = await aProject();
  const site = await aDeployment(project, "running");
  const pull = await aDeployment(project, "running", { channel: "preview", prNumber: 2 });
  const next = newSlug();
  await ask(project, next);
  await using running = work(project);
  await serves(next, site.id);
  await serves(`preview-${next}--2`, pull.id);
  const late = await aDeployment(project, "running", { channel: "preview", prNumber: 3 });
  await serves(`preview-${next}--3`, late.id);
  await ask(project, project.slug);
  await using _following = edge.followFromNowOn();
  await edge.follow();
  expect(await running.done).toEqual({ state: "done" });
  expect(await slugOf(project)).toBe(project.slug);
  await until("the other name is gone", () => entryOf(next) === null && entryOf(`preview-${next}--2`) === null);
  await serves(project.slug, site.id);
  await serves(`preview-${project.slug}--2`, pull.id);
  await serves(`preview-${project.slug}--3`, late.id);
  expect(await urlOf(late)).toBe(`https://preview-${project.slug}--3.svc.test`);
});

test("a preview whose new name is another project's gets one of its own", async () => {
  await using _edge = await healthyEdge();
  const next = newSlug();
  const other = await aProject(`${next}--4`);
  await aDeployment(other, "running", { channel: "preview" });
  const project = await aProject();
  const pull = await aDeployment(project, "running", { channel: "preview", prNumber: 4 });
  await ask(project, next);
  await work(project).done;
  const url = await urlOf(pull);
  expect(url).toMatch(new RegExp(`^https://preview-${next}--4-[0-9a-f]{6}\\.svc\\.test$`));
  await serves(new URL(url).hostname.split(".")[0] ?? "", pull.id);
});

test("a project that is deleted meanwhile ends the rename, and takes its redirects along", async () => {
  await using _edge = await healthyEdge();
  const project = await aProject();
  const next = newSlug();
  await ask(project, next);
  await work(project).done;
  await redirects(project.slug, next);
  await ask(project, newSlug());
  await db.updateTable("project").set({ deleting_at: new Date() }).where("id", "=", project.id).execute();
  await notify(db, routeTopic);
  expect(await work(project).done).toEqual({ state: "done" });
  await until("no route is left", () => entryOf(project.slug) === null && entryOf(next) === null);
  await db.deleteFrom("project").where("id", "=", project.id).execute();
  expect(await work(project).done).toEqual({ state: "done" });
  await aProject(project.slug);
});

test("takes turns with a build that is put into the queue at the same time", async () => {
  await using _edge = await healthyEdge();
  const project = await aProject();
  const next = newSlug();
  const site = await aDeployment(project, "running");
  const building = {
    ...(await aDeployment(project, "building")),
    source_repository: `svc/${project.id}/source`,
    source_digest: `sha256:${"0".repeat(64)}`,
    source_size: 1,
  };
  await ask(project, next);
  let renaming: ReturnType<typeof work> | undefined;
  // As the worker of a deployment adds the task that builds it.
  await db.transaction().execute(async (tx) => {
    expect(await lockDeployment(tx, building.id, "building")).toBeTruthy();
    renaming = work(project);
    await until("the rename waits for the deployment", async () => (await lockWaits(db)) > 0);
    const spec = buildTask(building, project, await planOfUser(tx, ownerId), manifestSchema.parse(building.manifest));
    await insertTask(tx, building, spec, { replica: 0 });
  });
  expect(await renaming?.done).toEqual({ state: "done" });
  expect(await slugOf(project)).toBe(next);
  expect(await urlOf(building)).toBe(`https://${next}.svc.test`);
  await serves(next, site.id);
});

test("two workers at once do it once", async () => {
  await using _edge = await healthyEdge();
  const project = await aProject();
  await aDeployment(project, "running");
  const next = newSlug();
  await ask(project, next);
  const outcomes = await Promise.all([work(project), work(project), work(project)].map(({ done }) => done));
  expect(outcomes).toEqual(Array(3).fill({ state: "done" }));
  expect(await slugOf(project)).toBe(next);
  await redirects(project.slug, next);
});

test("a worker that dies at any of its statements is continued by the next one", async () => {
  await using _edge = await healthyEdge();
  const project = await aProject();
  const site = await aDeployment(project, "running");
  const pull = await aDeployment(project, "running", { channel: "preview", prNumber: 1 });
  let present = project.slug;
  let died = true;
  for (let statements = 1; died; statements += 1) {
    const next = newSlug();
    await db
      .updateTable("site_host")
      .set({ redirect_until: new Date(Date.now() - 1_000) })
      .where("project_id", "=", project.id)
      .where("redirect_to", "is not", null)
      .execute();
    await releaseRedirects(db);
    await ask(project, next);
    died = await work(project, { db: mortal(db, statements) }).done.then(
      () => false,
      () => true,
    );
    await work(project).done;
    expect(await slugOf(project)).toBe(next);
    await redirects(present, next);
    await serves(next, site.id);
    await serves(`preview-${next}--1`, pull.id);
    expect(await urlOf(pull)).toBe(`https://preview-${next}--1.svc.test`);
    present = next;
  }
});

test("a redirect ends after its day, and the name is free again", async () => {
  await using _edge = await healthyEdge();
  const project = await aProject();
  const next = newSlug();
  await ask(project, next);
  await work(project).done;
  const row = await db
    .selectFrom("site_host")
    .selectAll()
    .where("host", "=", `${project.slug}.svc.test`)
    .executeTakeFirstOrThrow();
  const hours = ((row.redirect_until?.getTime() ?? 0) - Date.now()) / 3_600_000;
  expect(hours).toBeGreaterThan(23.9);
  expect(hours).toBeLessThan(24.1);
  await releaseRedirects(db);
  await redirects(project.slug, next);
  await db
    .updateTable("site_host")
    .set({ redirect_until: new Date(Date.now() - 1000) })
    .where("host", "=", row.host)
    .execute();
  await releaseRedirects(db);
  await until("the old host is gone", () => entryOf(project.slug) === null);
  expect(entryOf(next)).not.toBeNull();
  await aProject(project.slug);
});

/** Lets the given number of statements through; then every one fails, as for a process that was killed. */
function mortal(of: Db, statements: number): Db {
  let left = statements;
  const plugin: KyselyPlugin = {
    transformQuery({ node }) {
      left -= 1;
      if (left < 0) throw new Error("killed");
      return node;
    },
    transformResult: async ({ result }) => result,
  };
  return of.withPlugin(plugin);
}
