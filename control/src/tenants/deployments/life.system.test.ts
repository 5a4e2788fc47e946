import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { type DeploymentStatus, deploymentTransitions, isOpen, manifestSchema } from "@svc/proto";
import { RegistryError } from "@svc/registry";
import { sql } from "kysely";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Caller } from "../../http/caller.ts";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import type { Project } from "../../stores/db/tables.ts";
import { type EtcdServer, startEtcd, testClient, until } from "../../stores/etcd/testing.ts";
import { Refused } from "../../stores/refused.ts";
import { requestRedeploy } from "./redeploy/request.ts";
import { acceptDeployment } from "./testing/accept.ts";
import { type Replica, startReplica } from "./testing/replica.ts";
import { createRandom, type Random, startVirtualFleet, type VirtualFleet } from "./testing/virtual-fleet.ts";

/*
 * The life of deployments under chance: people deploy, cancel, rename, stop and start; administrators suspend and
 * resume; nodes lose their streams and fail things; control replicas are killed between any two calls of their stores.
 * Afterwards everything has to add up.
 */

let etcd: EtcdServer;
let api: TestApi;
beforeEach(async () => {
  [etcd, api] = await Promise.all([startEtcd(), testApi()]);
});
afterEach(async () => {
  await api[Symbol.asyncDispose]();
  await etcd[Symbol.asyncDispose]();
});

const pick = <T>(random: Random, values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
/** Fewer than there are projects and wishes, so that people want the same ones, and their old ones back. */
const slugs = ["shop-one", "shop-two", "shop-three", "shop-four"];

/** What a person may do, each as the API would. Refusals are fine: the state may have moved on. */
function people(
  { db, context, call }: TestApi,
  { user, admin, caller }: { user: TestUser; admin: TestUser; caller: Caller },
  projects: readonly Project[],
  random: Random,
) {
  const session = { session: user.session };
  const { config } = context;
  let renames = 0;
  let deploys = 0;
  const mayBeRefused = (error: unknown) => {
    if (!(error instanceof Refused)) throw error;
  };
  return {
    async deploy() {
      const project = pick(random, projects);
      const channel = pick(random, ["production", "production", "preview"] as const);
      const release = random() < 0.5 ? { command: "node migrate.js", timeoutSeconds: 60 } : undefined;
      const manifest = manifestSchema.parse({
        version: 2,
        app: { name: "Shop", type: project.type },
        ...(project.type === "ssr" && { start: { command: "node server.js" } }),
        ...(project.type === "ssr" && release && { release }),
      });
      const id = randomUUID();
      await db
        .transaction()
        .execute((tx) =>
          acceptDeployment(tx, { clock: context.clock, config, secrets: context.secrets }, caller, project.id, {
            id,
            manifest,
            metadata: {},
            admission: { channel, prNumber: null },
            source: { repository: `svc/${project.id}/source`, digest: `sha256:${"0".repeat(64)}`, sizeBytes: 1 },
            fileEnv: {},
          }),
        )
        .then(() => {
          if (channel === "production") deploys += 1;
        })
        .catch(mayBeRefused);
    },
    /** How often anybody was allowed to deploy what nobody removes. */
    countDeploys: () => deploys,
    async cancel() {
      const open = await db
        .selectFrom("deployment")
        .select(["id", "status"])
        .where("status", "in", ["queued", "building", "deploying"])
        .execute();
      // The later it is, the more there is to take back.
      const late = open.filter(({ status }) => status === "deploying");
      const among = late.length > 0 ? late : open;
      if (among.length > 0) await call("POST", `/deployments/${pick(random, among).id}/cancel`, session);
    },
    async redeploy() {
      const action = pick(random, ["rollback", "promote"] as const);
      const sources = await db
        .selectFrom("deployment")
        .selectAll()
        .where(
          "project_id",
          "in",
          projects.map(({ id }) => id),
        )
        .where("channel", "=", action === "rollback" ? "production" : "preview")
        .where("status", "=", action === "rollback" ? "superseded" : "running")
        .execute();
      if (sources.length === 0) return;
      const from = { id: randomUUID(), source: pick(random, sources), artifact: "there" as const };
      const deps = { clock: context.clock, config, secrets: context.secrets };
      await db
        .transaction()
        .execute((tx) => requestRedeploy(tx, deps, caller, action, from))
        .catch(mayBeRefused);
    },
    async remove() {
      const rows = await db.selectFrom("deployment").select("id").where("channel", "=", "preview").execute();
      if (rows.length > 0) await call("DELETE", `/deployments/${pick(random, rows).id}`, session);
    },
    async rename() {
      const body = { slug: pick(random, slugs) };
      const { status } = await call("PUT", `/projects/${pick(random, projects).id}`, { ...session, body });
      if (status === 202) renames += 1;
    },
    /** Whether anybody was allowed to rename anything. */
    hasRenamed: () => renames > 0,
    stop: () => call("POST", `/projects/${pick(random, projects).id}/stop`, session),
    start: () => call("POST", `/projects/${pick(random, projects).id}/start`, session),
    suspend: () => call("POST", `/admin/projects/${pick(random, projects).id}/suspend`, { session: admin.session }),
    async resume() {
      const suspended = await db.selectFrom("project").select("id").where("suspended_at", "is not", null).execute();
      if (suspended.length === 0) return;
      await call("POST", `/admin/projects/${pick(random, suspended).id}/resume`, { session: admin.session });
    },
  };
}

/** Two replicas, of which one is killed now and then and replaced. */
function keepCrashing(start: () => Promise<Replica>, random: Random) {
  let isCalm = false;
  let crashes = 0;
  const keep = async () => {
    while (!isCalm) {
      const replica = await start();
      replica.crashAfter(50 + Math.floor(random() * 1_500));
      const calmed = async () => {
        while (!isCalm) await delay(20);
      };
      await Promise.race([replica.crashed, calmed()]);
      if (!isCalm) crashes += 1;
      await replica[Symbol.asyncDispose]();
    }
  };
  const done = Promise.all([keep(), keep()]);
  return {
    count: () => crashes,
    async calm() {
      isCalm = true;
      await done;
      return crashes;
    },
  };
}

const seeds = process.env["SVC_TEST_SEEDS"]?.split(",").map(Number) ?? [11, 23, 37];

test.each(seeds)(
  "whatever happens, everything adds up in the end (seed %i)",
  async (seed) => {
    const random = createRandom(seed);
    const user = await api.newUser({ plan: { max_deploys_per_hour: 10_000, max_projects: 10_000 } });
    const admin = await api.newUser({ admin: true });
    const projects = [
      await api.newProject(user, { type: "ssr" }),
      await api.newProject(user, { type: "ssr" }),
      await api.newProject(user, { type: "static" }),
    ];
    await using client = testClient(etcd.endpoint);
    await using virtual = await startVirtualFleet({ db: api.db, etcd: client, random, nodes: 2 });
    const registry = {
      async getManifest(_: string, digest: string) {
        if (!virtual.pushed.has(digest)) throw new RegistryError("ARTIFACT_NOT_FOUND", "nobody pushed it");
        return { manifest: {}, digest, mediaType: "", sizeBytes: 1 } as never;
      },
    };
    const { databaseUrl, content } = api.context.config;
    // Less than the edge sometimes takes: what edges keep from being removed is stopped then.
    const edgesWaitMs = 150;
    const options = { databaseUrl, content, etcdEndpoint: etcd.endpoint, registry, edgesWaitMs };
    const crashing = keepCrashing(() => startReplica(options), random);

    const watching = watchChannels();
    const acts = people(api, { user, admin, caller: await api.callerOf(user) }, projects, random);
    // How far a replica is killed is chance, and so is how much happens meanwhile, and what: some go on for longer.
    const hasSeenLittle = () => crashing.count() < 2 || acts.countDeploys() < 3;
    for (let event = 0; event < 55 || (hasSeenLittle() && event < 300); event += 1) {
      await delay(random() * 350);
      await pick(random, [
        acts.deploy,
        acts.deploy,
        acts.deploy,
        acts.cancel,
        acts.redeploy,
        acts.remove,
        acts.rename,
        acts.rename,
        acts.stop,
        acts.start,
        acts.suspend,
        acts.resume,
        acts.resume,
      ])();
    }
    const crashes = await crashing.calm();
    virtual.calm();
    await using _survivor = await startReplica(options);
    const projectIds = projects.map(({ id }) => id);
    const settled = async () => {
      await until("every deployment is over and all work is done", () => isSettled(projectIds), 60_000).catch(
        async (error) => {
          throw new Error(`seed ${seed}: ${await whatIsLeft(projectIds)}`, { cause: error });
        },
      );
      await until("the routes say what the channels say", () => routesAgree(projectIds, virtual));
      await suspendedAreDown(virtual);
    };
    await settled();
    const before = await channelsOf(projectIds);
    for (const action of ["suspend", "resume"] as const) {
      for (const id of projectIds)
        await api.call("POST", `/admin/projects/${id}/${action}`, { session: admin.session });
      await settled();
    }
    expect(await channelsOf(projectIds)).toEqual(before);
    expect(await watching.end()).toEqual([]);
    expect(crashes).toBeGreaterThan(1);
    await everythingAddsUp(projectIds, virtual, acts.hasRenamed());
  },
  180_000,
);

/** Looks all the time for what must not be true at any moment, and collects it. */
function watchChannels() {
  let isOver = false;
  const wrong: unknown[] = [];
  const watch = async () => {
    while (!isOver) {
      const { rows } = await sql`
        select channel_state.project_id, channel_state.channel, deployment.status, 'points at it' as problem
        from channel_state join deployment on deployment.id = channel_state.deployment_id
        where deployment.status not in ('deploying', 'running', 'stopped')
        union all
        select project_id, channel, 'running', 'more than one' from deployment
        where status in ('running', 'stopped') group by project_id, channel having count(*) > 1`.execute(api.db);
      wrong.push(...rows);
      await delay(10);
    }
    return wrong;
  };
  const done = watch();
  return {
    end() {
      isOver = true;
      return done;
    },
  };
}

const deploymentsOf = (projectIds: string[]) =>
  api.db.selectFrom("deployment").selectAll().where("project_id", "in", projectIds).orderBy("number").execute();

const openTasks = (projectIds: string[]) =>
  api.db.selectFrom("task").selectAll().where("project_id", "in", projectIds).where("reaped_at", "is", null).execute();

/** But for what waits for nothing but its time. */
const openWork = () =>
  api.db
    .selectFrom("work_item")
    .selectAll()
    .where("state", "in", ["queued", "running"])
    .where("kind", "!=", "alert-look")
    .execute();

async function isSettled(projectIds: string[]): Promise<boolean> {
  const [deployments, work, tasks] = await Promise.all([deploymentsOf(projectIds), openWork(), openTasks(projectIds)]);
  const serving = new Set(deployments.filter(({ status }) => status === "running").map(({ id }) => id));
  return (
    work.length === 0 &&
    deployments.every(({ status }) => !isOpen(status)) &&
    tasks.every((task) => task.kind === "serve" && task.desired === "running" && serving.has(task.owner_id))
  );
}

async function whatIsLeft(projectIds: string[]): Promise<string> {
  const deployments = (await deploymentsOf(projectIds)).filter(({ status }) => isOpen(status));
  const work = (await openWork()).map(({ kind, key, state, attempt, error }) => ({ kind, key, state, attempt, error }));
  const tasks = (await openTasks(projectIds)).map(({ id, kind, desired, owner_id }) => ({
    id,
    kind,
    desired,
    owner_id,
  }));
  return JSON.stringify({ deployments: deployments.map(({ id, status }) => ({ id, status })), work, tasks }, null, 1);
}

async function routesAgree(projectIds: string[], { fleet }: VirtualFleet): Promise<boolean> {
  const rows = await api.db
    .selectFrom("site_host")
    .leftJoin("channel_state", (join) =>
      join
        .onRef("channel_state.project_id", "=", "site_host.project_id")
        .onRef("channel_state.channel", "=", "site_host.channel"),
    )
    .innerJoin("project", "project.id", "site_host.project_id")
    .select(["site_host.host", "site_host.redirect_to", "channel_state.deployment_id", "channel_state.stopped"])
    .select("project.suspended_at")
    .where("site_host.project_id", "in", projectIds)
    .execute();
  return rows.every(({ host, redirect_to, deployment_id, stopped, suspended_at }) => {
    const entry = fleet.route(host);
    if (redirect_to !== null) return entry?.redirect?.host === redirect_to;
    if (entry === null || (entry.deploymentId ?? null) !== deployment_id) return false;
    if (suspended_at !== null) return entry.page?.page === "PAGE_SUSPENDED";
    if (deployment_id === null) return entry.page?.page === "PAGE_EMPTY";
    return stopped ? entry.page?.page === "PAGE_STOPPED" : (entry.proxy ?? entry.static) !== undefined;
  });
}

/** What each channel serves, and whether its owner has stopped it. */
const channelsOf = (projectIds: string[]) =>
  api.db
    .selectFrom("channel_state")
    .leftJoin("deployment", "deployment.id", "channel_state.deployment_id")
    .select(["channel_state.project_id", "channel_state.channel", "channel_state.stopped", "deployment.id", "status"])
    .where("channel_state.project_id", "in", projectIds)
    .orderBy("channel_state.project_id")
    .orderBy("channel_state.channel")
    .execute();

/** Nothing of a suspended project runs, and none of its hosts leads to anything but the page. */
async function suspendedAreDown({ fleet }: VirtualFleet): Promise<void> {
  const rows = await api.db.selectFrom("project").select("id").where("suspended_at", "is not", null).execute();
  const suspended = new Set(rows.map(({ id }) => id));
  expect(fleet.placements().filter(({ placement }) => suspended.has(placement.projectId))).toEqual([]);
  const entries = [...fleet.routeTable().values()].filter(({ projectId }) => suspended.has(projectId));
  for (const { host, page, redirect } of entries)
    expect({ host, page: redirect ? "PAGE_SUSPENDED" : page?.page }).toEqual({ host, page: "PAGE_SUSPENDED" });
}

async function everythingAddsUp(projectIds: string[], virtual: VirtualFleet, hasRenamed: boolean): Promise<void> {
  const deployments = await deploymentsOf(projectIds);
  const statusOf = new Map(deployments.map(({ id, status }) => [id, status]));
  const channels = await api.db.selectFrom("channel_state").selectAll().where("project_id", "in", projectIds).execute();

  // A channel serves at most one deployment, the one that it points at.
  for (const { id, project_id, channel, status } of deployments) {
    const state = channels.find((each) => each.project_id === project_id && each.channel === channel);
    const serves = status === "running" || status === "stopped";
    expect({ id, serves }).toEqual({ id, serves: state?.deployment_id === id });
    if (serves) expect({ id, stopped: state?.stopped }).toEqual({ id, stopped: status === "stopped" });
  }

  // Each one's story is an unbroken walk through the table of states, told once.
  const events = await api.db
    .selectFrom("deployment_event")
    .selectAll()
    .where("deployment_id", "in", [...statusOf.keys()])
    .orderBy("id")
    .execute();
  for (const [id, status] of statusOf) {
    const moves = events.filter(({ deployment_id, to_status }) => deployment_id === id && to_status !== null);
    let at: DeploymentStatus | null = null;
    for (const { from_status, to_status } of moves) {
      expect({ id, from: from_status }).toEqual({ id, from: at });
      const next = to_status as DeploymentStatus;
      if (at !== null) expect(Object.values(deploymentTransitions[at])).toContain(next);
      at = next;
    }
    expect({ id, at }).toEqual({ id, at: status });
  }

  // A release command starts at most once, and nobody's still runs.
  for (const [id, starts] of virtual.releaseStarts) expect({ id, starts }).toEqual({ id, starts: 1 });
  expect([...virtual.runningReleases]).toEqual([]);
  expect(virtual.overlaps).toEqual([]);
  for (const { id, status, release_status, origin } of deployments) {
    if (release_status === "succeeded") expect(virtual.releaseStarts.get(id)).toBe(1);
    if (release_status === "skipped") expect(virtual.releaseStarts.get(id)).toBeUndefined();
    const isBack = origin === "rollback";
    if (status === "running") expect(isBack ? ["skipped"] : ["succeeded", "not_configured"]).toContain(release_status);
    expect(["pending", "running"]).not.toContain(release_status);
  }

  await namesAddUp(projectIds, hasRenamed);

  // Containers are there for what serves, one each, and nothing else is left in etcd.
  const ours = virtual.fleet.placements().filter(({ placement }) => projectIds.includes(placement.projectId));
  const running = deployments.filter(({ status, artifact_kind }) => status === "running" && artifact_kind === "image");
  expect(ours.map(({ placement }) => placement.ownerId).sort()).toEqual(running.map(({ id }) => id).sort());
  expect(virtual.fleet.runs().filter(({ run }) => projectIds.includes(run.projectId))).toEqual([]);
}

/** Renames are over: what serves is of the present slug, everything else leads there, and addresses are the right ones. */
async function namesAddUp(projectIds: string[], hasRenamed: boolean): Promise<void> {
  const { content } = api.context.config;
  const projects = await api.db.selectFrom("project").selectAll().where("id", "in", projectIds).execute();
  expect(projects.some(({ slug }) => slugs.includes(slug))).toBe(hasRenamed);
  for (const { id, slug, next_slug } of projects) {
    expect({ id, next_slug }).toEqual({ id, next_slug: null });
    const hosts = await api.db.selectFrom("site_host").selectAll().where("project_id", "=", id).execute();
    const serving = hosts.filter(({ redirect_to }) => redirect_to === null);
    for (const host of hosts) {
      expect(host).toMatchObject({ for_next_slug: false, redirected_until: null });
      if (host.redirect_to === null) {
        expect({ host: host.host, slug: host.slug ?? slug }).toEqual({ host: host.host, slug });
      } else {
        const to = serving.find((each) => each.host === host.redirect_to);
        expect({ host: host.host, channel: to?.channel }).toEqual({ host: host.host, channel: host.channel });
        expect(host.slug).not.toBe(slug);
      }
    }
    expect(serving.map(({ host }) => host)).toContain(`${slug}.${content.domain}`);
    for (const { channel, status, url } of await deploymentsOf([id])) {
      const { host } = serving.find((each) => each.channel === channel) ?? {};
      if (status === "running" || status === "stopped")
        expect({ channel, url }).toEqual({ channel, url: `${content.scheme}://${host}${content.port}` });
    }
  }
}
