import { randomUUID } from "node:crypto";
import { type Channel, type Manifest, manifestSchema } from "@svc/proto";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import type { DeploymentStatus, Project } from "../../stores/db/tables.ts";
import { type EtcdServer, startEtcd, testClient, until } from "../../stores/etcd/testing.ts";
import { acceptDeployment } from "../deployments/testing/accept.ts";
import { type Replica, startReplica } from "../deployments/testing/replica.ts";
import { createRandom, startVirtualFleet, type VirtualFleet } from "../deployments/testing/virtual-fleet.ts";

const stack = new AsyncDisposableStack();
let etcd: EtcdServer;
let api: TestApi;
let virtual: VirtualFleet;
let user: TestUser;
let admin: TestUser;
beforeAll(async () => {
  [etcd, api] = await Promise.all([startEtcd(), testApi()]);
  const client = stack.use(testClient(etcd.endpoint));
  virtual = stack.use(await startVirtualFleet({ db: api.db, etcd: client, random: createRandom(5), nodes: 2 }));
  virtual.calm();
  user = await api.newUser({ plan: { max_deploys_per_hour: 1_000 } });
  admin = await api.newUser({ admin: true });
});
afterAll(async () => {
  await stack.disposeAsync();
  await api?.[Symbol.asyncDispose]();
  await etcd?.[Symbol.asyncDispose]();
});

const newReplica = (options: { edgesWaitMs?: number; now?: () => Date } = {}): Promise<Replica> =>
  startReplica({
    databaseUrl: api.context.config.databaseUrl,
    etcdEndpoint: etcd.endpoint,
    content: api.context.config.content,
    registry: { getManifest: async () => ({ manifest: {}, digest: "", sizeBytes: 0 }) as never },
    ...options,
  });

/** Deploys as the API would. */
async function deploy(project: Project, channel: Channel, extra: object = {}): Promise<string> {
  const id = randomUUID();
  const isServer = project.type === "ssr";
  const manifest: Manifest = manifestSchema.parse({
    version: 2,
    app: { name: "Shop", type: project.type },
    ...(isServer && { start: { command: "node server.js" } }),
    ...extra,
  });
  const caller = await api.callerOf(user);
  const { clock, config, secrets } = api.context;
  await api.db.transaction().execute((tx) =>
    acceptDeployment(tx, { clock, config, secrets }, caller, project.id, {
      id,
      manifest,
      metadata: {},
      admission: { channel, prNumber: null },
      source: { repository: `svc/${project.id}/source`, digest: `sha256:${"0".repeat(64)}`, sizeBytes: 1 },
      fileEnv: {},
    }),
  );
  return id;
}

const rowOf = (id: string) =>
  api.db.selectFrom("deployment").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
const isIn = (id: string, ...statuses: DeploymentStatus[]) =>
  until(`deployment ${id} to be ${statuses.join()}`, async () => statuses.includes((await rowOf(id)).status));

/** A project with these deployments running, by channel. */
async function serving(type: "ssr" | "static", ...channels: Channel[]) {
  const project = await api.newProject(user, { type });
  const ids: string[] = [];
  for (const channel of channels) {
    const id = await deploy(project, channel);
    await isIn(id, "running");
    ids.push(id);
  }
  return { project, ids };
}

const act = async (project: Project, action: "suspend" | "resume") =>
  (await api.call("POST", `/admin/projects/${project.id}/${action}`, { session: admin.session })).status;
const find = async (project: Project) =>
  (await api.call("GET", `/projects/${project.id}`, { session: user.session })).body.project;
const isActive = (project: Project) =>
  until("the project to be resumed", async () => (await find(project)).suspendedAt === null);
const entries = (project: Project) =>
  [...virtual.fleet.routeTable().values()].filter(({ projectId }) => projectId === project.id);
/** What visitors get on the project's hosts: names of pages, or `site`. */
const shown = (project: Project) => [...new Set(entries(project).map(({ page }) => page?.page ?? "site"))];
const containers = (project: Project) =>
  virtual.fleet
    .placements()
    .filter(({ placement: { projectId, kind } }) => projectId === project.id && kind === "serve");
const isGone = (project: Project) => until("its containers to be gone", () => containers(project).length === 0);
const isShown = (project: Project, what: string) =>
  until(`visitors to get ${what}`, () => shown(project).join() === what);
const phases = async (id: string) => {
  const { body } = await api.call("GET", `/deployments/${id}/timeline`, { session: user.session });
  return (body.timeline as { phase: string }[]).map(({ phase }) => phase);
};
const isIdle = (project: Project) =>
  until(
    "its work to be done",
    async () => {
      const items = api.db.selectFrom("work_item").select("id").where("key", "=", `suspension/${project.id}`);
      return (await items.where("state", "in", ["queued", "running"]).execute()).length === 0;
    },
    20_000,
  );

describe("while edges and nodes answer", () => {
  let replica: Replica;
  beforeAll(async () => {
    replica = await newReplica();
  });
  afterAll(() => replica?.[Symbol.asyncDispose]());

  test("every channel goes down and comes back as it was", async () => {
    const { project, ids } = await serving("ssr", "production", "preview", "dev");
    const before = containers(project).map(({ placement }) => placement.placementId);
    expect(before).toHaveLength(3);

    expect(await act(project, "suspend")).toBe(202);
    expect(await find(project)).toMatchObject({ suspendedAt: expect.any(String), suspendReason: "admin" });
    await isGone(project);
    expect(shown(project)).toEqual(["PAGE_SUSPENDED"]);
    for (const id of ids) {
      const { body } = await api.call("GET", `/deployments/${id}`, { session: user.session });
      expect(body.deployment).toMatchObject({ status: "running", placement: { state: "stopped" } });
    }

    expect(await act(project, "resume")).toBe(202);
    await isActive(project);
    expect(await find(project)).toMatchObject({ suspendedAt: null, suspendReason: null });
    await isShown(project, "site");
    const after = containers(project);
    expect(after.map(({ placement }) => placement.ownerId).sort()).toEqual([...ids].sort());
    for (const { placement } of after) expect(before).not.toContain(placement.placementId);
    for (const id of ids) expect((await phases(id)).slice(-2)).toEqual(["suspended", "resumed"]);
  });

  test("a static site goes down and comes back", async () => {
    const { project } = await serving("static", "production");
    await act(project, "suspend");
    await isShown(project, "PAGE_SUSPENDED");
    await act(project, "resume");
    await isShown(project, "site");
  });

  test("an app with several containers gets all of them back", async () => {
    const project = await api.newProject(user, { type: "ssr" });
    const id = await deploy(project, "production", { app: { name: "Shop", type: "ssr", replicas: 3 } });
    await isIn(id, "running");
    await act(project, "suspend");
    await isGone(project);
    await act(project, "resume");
    await isShown(project, "site");
    expect(entries(project)[0]?.proxy?.upstreams).toHaveLength(3);
  });

  test("what its owner had stopped stays stopped, and so does what is stopped meanwhile", async () => {
    const stopIt = async (project: Project, id: string) => {
      const { status } = await api.call("POST", `/projects/${project.id}/stop`, { session: user.session });
      expect(status).toBe(202);
      await isIn(id, "stopped");
    };
    const before = await serving("ssr", "production", "preview");
    await stopIt(before.project, before.ids[0] ?? "");
    const meanwhile = await serving("ssr", "production");
    for (const { project } of [before, meanwhile]) {
      await act(project, "suspend");
      await isGone(project);
    }
    await stopIt(meanwhile.project, meanwhile.ids[0] ?? "");
    for (const { project, ids } of [before, meanwhile]) {
      await act(project, "resume");
      await isActive(project);
      await until("the page of a stopped site", () => shown(project).includes("PAGE_STOPPED"));
      expect((await rowOf(ids[0] ?? "")).status).toBe("stopped");
    }
    expect(containers(before.project).map(({ placement }) => placement.ownerId)).toEqual([before.ids[1]]);
    expect(containers(meanwhile.project)).toEqual([]);
  });

  test("what is on its way ends, its release command too, and what served before comes back", async () => {
    const { project, ids } = await serving("ssr", "production");
    const release = { release: { command: "node migrate.js", timeoutSeconds: 300 } };
    const releasing = await deploy(project, "production", release);
    await until("the release command to run", () => virtual.releaseStarts.has(releasing));
    const queued = await deploy(project, "preview", release);
    await act(project, "suspend");
    for (const id of [releasing, queued]) {
      await isIn(id, "failed", "running");
      const { status, error_code, release_status } = await rowOf(id);
      // The command may have ended just before.
      if (id === queued || status === "failed")
        expect({ status, error_code }).toEqual({ status: "failed", error_code: "PROJECT_SUSPENDED" });
      if (id === queued) expect(release_status).toBe("skipped");
    }
    expect(virtual.releaseStarts.has(queued)).toBe(false);
    await isGone(project);
    await until("no release command to run", () => virtual.runningReleases.size === 0);
    await act(project, "resume");
    await isActive(project);
    const { status } = await rowOf(releasing);
    await isIn(status === "running" ? releasing : (ids[0] ?? ""), "running");
    // The name of the preview is kept, and nothing was ever deployed there.
    await until("the site and an empty preview", () => shown(project).sort().join() === "PAGE_EMPTY,site");
    expect(containers(project)).toHaveLength(1);
  });

  test("taken back before it took effect, a suspension restarts nothing", async () => {
    const { project } = await serving("ssr", "production");
    const before = containers(project).map(({ placement }) => placement.placementId);
    virtual.setEdgeAway(true);
    await act(project, "suspend");
    await isShown(project, "PAGE_SUSPENDED");
    await act(project, "resume");
    await isActive(project);
    virtual.setEdgeAway(false);
    await isShown(project, "site");
    expect(containers(project).map(({ placement }) => placement)).toMatchObject([
      { placementId: before[0], desired: "running" },
    ]);
  });

  test("asked for again and again, the last word counts", async () => {
    const { project } = await serving("ssr", "production", "preview");
    for (let round = 0; round < 4; round += 1) {
      expect(await act(project, "suspend")).toBe(202);
      expect(await act(project, "resume")).toBe(202);
      // It may be over already.
      expect([202, 409]).toContain(await act(project, "resume"));
    }
    expect(await act(project, "suspend")).toBe(202);
    expect(await act(project, "suspend")).toBe(409);
    await isGone(project);
    await isIdle(project);
    expect(shown(project)).toEqual(["PAGE_SUSPENDED"]);
    expect((await find(project)).suspendedAt).not.toBeNull();

    await act(project, "resume");
    await until("a container to be made", () => containers(project).length > 0);
    await act(project, "suspend");
    await isGone(project);
    await isIdle(project);
    expect((await find(project)).suspendedAt).not.toBeNull();
    await act(project, "resume");
    await isShown(project, "site");
    expect(containers(project)).toHaveLength(2);
    expect(await act(project, "resume")).toBe(409);
  });

  test("an app that does not come up is resumed all the same, and says why", async () => {
    const { project, ids } = await serving("ssr", "production", "preview");
    const [production = "", preview = ""] = ids;
    await act(project, "suspend");
    await isGone(project);
    virtual.broken.add(production);
    await act(project, "resume");
    await isActive(project);
    await until("the page of an app that has ended", () => shown(project).includes("PAGE_DOWN"));
    expect(await rowOf(production)).toMatchObject({ status: "running", error: "by intent" });
    expect(await phases(production)).toContain("resume-failed");
    expect(await rowOf(preview)).toMatchObject({ status: "running", error: null });
    expect(shown(project)).toContain("site");
    virtual.broken.clear();
    const next = await deploy(project, "production");
    await isIn(next, "running");
    await isShown(project, "site");
  });

  test("a rename goes on, and no name of the project leads to its app", async () => {
    const { project } = await serving("ssr", "production", "preview");
    virtual.setEdgeAway(true);
    const slug = `moved-${project.slug}`.slice(0, 30);
    const renamed = await api.call("PUT", `/projects/${project.id}`, { session: user.session, body: { slug } });
    expect(renamed.status).toBe(202);
    await act(project, "suspend");
    virtual.setEdgeAway(false);
    await until("the slug to be the new one", async () => (await find(project)).slug === slug);
    await isGone(project);
    await until("the old names to redirect", () => entries(project).filter(({ redirect }) => redirect).length === 2);
    expect(entries(project).flatMap(({ page }) => page?.page ?? [])).toEqual(["PAGE_SUSPENDED", "PAGE_SUSPENDED"]);
    await act(project, "resume");
    await until("its two new names to serve", () => entries(project).filter(({ proxy }) => proxy).length === 2);
  });

  test("a project that is deleted leaves it nothing to do", async () => {
    const { project } = await serving("ssr", "production");
    await act(project, "suspend");
    await act(project, "resume");
    expect((await api.call("DELETE", `/projects/${project.id}`, { session: user.session })).status).toBe(200);
    expect(await act(project, "suspend")).toBe(404);
    expect(await act(project, "resume")).toBe(404);
    await isIdle(project);
    const tasks = await api.db.selectFrom("task").select("id").where("project_id", "=", project.id).execute();
    await api.db.updateTable("task").set({ desired: "removed" }).where("project_id", "=", project.id).execute();
    expect(tasks.length).toBeLessThanOrEqual(2);
  });

  test("a start that waited in the queue does not bring a suspended site up", async () => {
    const { project, ids } = await serving("ssr", "production");
    const [id = ""] = ids;
    await api.call("POST", `/projects/${project.id}/stop`, { session: user.session });
    await isIn(id, "stopped");
    await isGone(project);
    virtual.setEdgeAway(true);
    expect((await api.call("POST", `/projects/${project.id}/start`, { session: user.session })).status).toBe(202);
    await act(project, "suspend");
    virtual.setEdgeAway(false);
    await until(
      "the start to be over",
      async () => {
        const items = await api.db
          .selectFrom("work_item")
          .select("state")
          .where("key", "=", `lifecycle/${project.id}`)
          .where("state", "in", ["queued", "running"])
          .execute();
        return items.length === 0;
      },
      40_000,
    );
    await isGone(project);
    await isIdle(project);
    await act(project, "resume");
    await isActive(project);
    const { status } = await rowOf(id);
    const isRunning = status === "running";
    await isShown(project, isRunning ? "site" : "PAGE_STOPPED");
    expect(containers(project)).toHaveLength(isRunning ? 1 : 0);
  });
});

test("an edge that does not answer keeps nothing running, and no port is given away before it is back", async () => {
  await using _replica = await newReplica({ edgesWaitMs: 300 });
  const { project, ids } = await serving("ssr", "production");
  const [first] = containers(project);
  virtual.setEdgeAway(true);
  await act(project, "suspend");
  const observedOf = () => first && virtual.fleet.observation(first.nodeId, first.placement.placementId)?.observed;
  await until("the app to be stopped", () => observedOf() === "stopped");
  expect(containers(project)).toHaveLength(1);

  await act(project, "resume");
  await isActive(project);
  expect(
    containers(project)
      .map(({ placement }) => placement.desired)
      .sort(),
  ).toEqual(["running", "stopped"]);
  virtual.setEdgeAway(false);
  await until("the old container to be removed", () => containers(project).length === 1);
  await isIdle(project);
  expect(containers(project)[0]?.placement).toMatchObject({ ownerId: ids[0], desired: "running" });
  // The edge may have left the old container at the table that shows the page still.
  await isShown(project, "site");
});

describe.each([-1, 1])("a replica whose clock is %d hours off", (hours) => {
  const now = () => new Date(Date.now() + hours * 3_600_000);
  const served = async () => {
    await using _replica = await newReplica();
    return await serving("ssr", "production");
  };

  test("waits for edges as long as any other", async () => {
    const { project } = await served();
    await using _skewed = await newReplica({ edgesWaitMs: 300, now });
    const [first] = containers(project);
    virtual.setEdgeAway(true);
    await act(project, "suspend");
    const observedOf = () => first && virtual.fleet.observation(first.nodeId, first.placement.placementId)?.observed;
    await until("the app to be stopped", () => observedOf() === "stopped");
    virtual.setEdgeAway(false);
    await isGone(project);
    await act(project, "resume");
    await isActive(project);
    await isShown(project, "site");
  });

  test("notes that no visitor reaches it any more by the database's clock", async () => {
    const { project } = await served();
    await using _skewed = await newReplica({ now });
    await act(project, "suspend");
    await isGone(project);
    const { rows } = await sql<{ isNow: boolean }>`
      select unrouted_at between suspended_at and clock_timestamp() as "isNow" from project where id = ${project.id}`.execute(
      api.db,
    );
    expect(rows).toEqual([{ isNow: true }]);
  });
});

test("that no visitor reaches it any more is taken back when one does", async () => {
  await using _replica = await newReplica();
  const { project } = await serving("ssr", "production");
  virtual.setEdgeAway(true);
  await act(project, "suspend");
  await isShown(project, "PAGE_SUSPENDED");
  // By a replica that saw the edges as they were.
  await sql`update project set unrouted_at = now() - interval '1 hour' where id = ${project.id}`.execute(api.db);
  const noted = () =>
    api.db.selectFrom("project").select("unrouted_at").where("id", "=", project.id).executeTakeFirstOrThrow();
  await until("the note to be taken back", async () => (await noted()).unrouted_at === null);
  expect(containers(project)).toHaveLength(1);
  virtual.setEdgeAway(false);
  await isGone(project);
});

test("a deployment that nobody works on any more keeps no project suspended", async () => {
  const project = await api.newProject(user, { type: "ssr" });
  const id = await deploy(project, "production");
  await api.db.deleteFrom("work_item").where("key", "=", project.id).execute();
  await api.db.updateTable("deployment").set({ status: "building" }).where("id", "=", id).execute();
  await act(project, "suspend");
  await act(project, "resume");
  await using _replica = await newReplica();
  await isIn(id, "failed");
  await isActive(project);
  expect((await rowOf(id)).error_code).toBe("PROJECT_SUSPENDED");
});

test("two replicas, each killed again and again, lose nothing and leave nothing behind", async () => {
  const { project, ids } = await (async () => {
    await using _replica = await newReplica();
    return await serving("ssr", "production", "preview");
  })();
  let isOver = false;
  const keep = async (seed: number) => {
    const random = createRandom(seed);
    while (!isOver) {
      const replica = await newReplica();
      replica.crashAfter(20 + Math.floor(random() * 180));
      await Promise.race([replica.crashed, until("the end", () => isOver, 60_000)]);
      await replica[Symbol.asyncDispose]();
    }
  };
  const crashing = Promise.all([keep(1), keep(2)]);
  for (let round = 0; round < 2; round += 1) {
    expect(await act(project, "suspend")).toBe(202);
    await until("its containers to be gone", () => containers(project).length === 0, 60_000);
    expect(shown(project)).toEqual(["PAGE_SUSPENDED"]);
    expect(await act(project, "resume")).toBe(202);
    await until("it to be resumed", async () => (await find(project)).suspendedAt === null, 60_000);
  }
  isOver = true;
  await crashing;
  await using _survivor = await newReplica();
  await isShown(project, "site");
  await isIdle(project);
  expect(
    containers(project)
      .map(({ placement }) => placement.ownerId)
      .sort(),
  ).toEqual([...ids].sort());
}, 200_000);
