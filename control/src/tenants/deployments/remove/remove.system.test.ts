import { randomUUID } from "node:crypto";
import { manifestSchema } from "@svc/proto";
import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { keys } from "../../../fleet/cluster/keys.ts";
import { setChannelState } from "../../../fleet/routes/store.ts";
import { findDeployment } from "../../../fleet/tasks/deployment.ts";
import { serveTask } from "../../../fleet/tasks/kinds/serve.ts";
import { insertTask } from "../../../fleet/tasks/store.ts";
import { keepHouse } from "../../../housekeeping.ts";
import { type Answer, type CallOptions, type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import { planOfUser } from "../../../identity/plans/of-user.ts";
import type { Deployment, Project } from "../../../stores/db/tables.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import { type EtcdServer, startEtcd, testClient, until } from "../../../stores/etcd/testing.ts";
import { claimHost } from "../../hosts/hosts.ts";
import { type Replica, startReplica } from "../testing/replica.ts";
import { createRandom, startVirtualFleet, type VirtualFleet } from "../testing/virtual-fleet.ts";

let etcdServer: EtcdServer;
let etcd: Etcd & AsyncDisposable;
let api: TestApi;
let user: TestUser;
let virtual: VirtualFleet;

beforeAll(async () => {
  [etcdServer, api] = await Promise.all([startEtcd(), testApi()]);
  etcd = testClient(etcdServer.endpoint);
  user = await api.newUser();
  virtual = await startVirtualFleet({ db: api.db, etcd, random: createRandom(5), nodes: 1 });
  virtual.calm();
});
afterAll(async () => {
  await virtual?.[Symbol.asyncDispose]();
  await etcd?.[Symbol.asyncDispose]();
  await api?.[Symbol.asyncDispose]();
  await etcdServer?.[Symbol.asyncDispose]();
});
afterEach(() => api.db.deleteFrom("work_item").execute());

const session = () => ({ session: user.session });
const remove = (id: string, options: CallOptions = session()): Promise<Answer> =>
  api.call("DELETE", `/deployments/${id}`, options);
const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];
const replica = (): Promise<Replica> =>
  startReplica({
    databaseUrl: api.context.config.databaseUrl,
    etcdEndpoint: etcdServer.endpoint,
    content: api.context.config.content,
    registry: { getManifest: () => Promise.reject(new Error("not asked")) },
  });

/** A deployment that its channel serves, with its host; its containers are for a replica to place. */
async function serving(
  project: Project,
  values: Partial<Deployment> = {},
): Promise<{ deployment: Deployment; host: string }> {
  const image = {
    artifact_kind: "image",
    artifact_repository: "svc/x/app",
    artifact_digest: `sha256:${"a".repeat(64)}`,
  } as const;
  const bundle = { ...image, artifact_kind: "bundle", artifact_repository: "svc/x/bundle" } as const;
  const deployment = await api.newDeployment(project, {
    channel: "preview",
    status: "running",
    ...(project.type === "static" ? bundle : image),
    ...values,
  });
  const host = await claimHost(
    api.db,
    project,
    { channel: deployment.channel, prNumber: deployment.pr_number },
    "svc.localhost",
  );
  await setChannelState(api.db, deployment, { deploymentId: deployment.id, stopped: false });
  return { deployment, host };
}

async function withContainer(deployment: Deployment): Promise<string> {
  const manifest = manifestSchema.parse(deployment.manifest);
  const task = serveTask(deployment, await planOfUser(api.db, user.id), manifest, null);
  return insertTask(api.db, deployment, task, { replica: 0 });
}

const hostsOf = async (project: Project) =>
  (
    await api.db.selectFrom("site_host").select("host").where("project_id", "=", project.id).orderBy("host").execute()
  ).map(({ host }) => host);
const channelOf = (of: Pick<Deployment, "project_id" | "channel" | "pr_number">) =>
  api.db
    .selectFrom("channel_state")
    .select("deployment_id")
    .where("project_id", "=", of.project_id)
    .where("channel", "=", of.channel)
    .where("pr_number", "=", of.pr_number ?? 0)
    .executeTakeFirst();
const removals = () => api.db.selectFrom("work_item").select("payload").where("kind", "=", "remove").execute();

describe("DELETE /deployments/:id", () => {
  test("takes a preview off its host at once, gives up its name, and says who asked", async () => {
    const project = await api.newProject(user);
    const { deployment, host } = await serving(project, { pr_number: 7 });
    const answer = await remove(deployment.id);
    expect([answer.status, answer.body]).toEqual([202, { ok: true, deploymentId: deployment.id, queued: true }]);
    expect(await hostsOf(project)).toEqual([`${project.slug}.svc.localhost`]);
    expect(await channelOf(deployment)).toBeUndefined();
    expect(await removals()).toEqual([{ payload: { deploymentId: deployment.id, hosts: [host] } }]);
    const left = await api.call("GET", `/deployments/${deployment.id}`, session());
    expect(left.body.deployment.error).toBe("Deleted: removed by its owner.");
    const events = await api.call("GET", `/deployments/${deployment.id}/timeline`, session());
    expect(events.body.timeline).toMatchObject([
      { phase: "removing", from: "running", to: "superseded", detail: "removed by its owner" },
    ]);
    const audit = await api.db
      .selectFrom("audit")
      .select(["action", "user_id", "detail"])
      .where("target", "=", deployment.id)
      .execute();
    expect(audit).toEqual([
      {
        action: "deployment.delete",
        user_id: user.id,
        detail: { projectId: project.id, channel: "preview", status: "running" },
      },
    ]);
  });

  test("asked for twice, is done once", async () => {
    const { deployment } = await serving(await api.newProject(user));
    const answers = await Promise.all([remove(deployment.id), remove(deployment.id)]);
    expect([...answers, await remove(deployment.id)].map(({ status }) => status)).toEqual([202, 202, 202]);
    expect(await removals()).toHaveLength(1);
  });

  test("leaves the other channels and pull requests alone", async () => {
    const project = await api.newProject(user);
    const kept = [
      await serving(project),
      await serving(project, { pr_number: 8 }),
      await serving(project, { channel: "dev" }),
      await serving(project, { channel: "production" }),
    ];
    const { deployment } = await serving(project, { pr_number: 7 });
    await remove(deployment.id);
    expect(await hostsOf(project)).toEqual(kept.map(({ host }) => host).toSorted());
    for (const each of kept) expect(await channelOf(each.deployment)).toEqual({ deployment_id: each.deployment.id });
  });

  test("of what a channel serves ends what it has replaced, which serves what is open, there alone", async () => {
    const project = await api.newProject(user);
    const drainingOn = async (prNumber: number) => {
      const { deployment: replaced } = await serving(project, { pr_number: prNumber, status: "superseded" });
      const id = await withContainer(replaced);
      await api.db.updateTable("task").set({ desired: "removed", drain_seconds: 3_600 }).where("id", "=", id).execute();
      return { replaced, id };
    };
    const [here, elsewhere] = [await drainingOn(7), await drainingOn(8)];
    const { deployment } = await serving(project, { pr_number: 7 });
    const leftOf = async ({ id }: { id: string }) =>
      (await api.db.selectFrom("task").select("drain_seconds").where("id", "=", id).executeTakeFirstOrThrow())
        .drain_seconds;
    await remove(here.replaced.id);
    expect(await leftOf(here)).toBe(3_600);
    await remove(deployment.id);
    expect([await leftOf(here), await leftOf(elsewhere)]).toEqual([0, 3_600]);
  });

  test("keeps the name for a newer deployment that is on its way there", async () => {
    const project = await api.newProject(user);
    const { deployment, host } = await serving(project);
    await api.newDeployment(project, { channel: "preview", status: "building" });
    expect((await remove(deployment.id)).status).toBe(202);
    expect(await hostsOf(project)).toContain(host);
    expect(await channelOf(deployment)).toEqual({ deployment_id: null });
  });

  test("of what is over touches no channel", async () => {
    const project = await api.newProject(user);
    const current = await serving(project, { channel: "production" });
    const preview = await serving(project);
    for (const values of [
      { channel: "production", status: "superseded" },
      { channel: "production", status: "failed" },
      { channel: "preview", status: "canceled" },
    ] as const) {
      expect((await remove((await api.newDeployment(project, values)).id)).status).toBe(202);
    }
    expect(await channelOf(current.deployment)).toEqual({ deployment_id: current.deployment.id });
    expect(await hostsOf(project)).toEqual([current.host, preview.host].toSorted());
  });

  test("of a preview that never came up gives up its name, too", async () => {
    const project = await api.newProject(user);
    const failed = await api.newDeployment(project, { channel: "preview", pr_number: 9, status: "failed" });
    await claimHost(api.db, project, { channel: "preview", prNumber: 9 }, "svc.localhost");
    await remove(failed.id);
    expect(await hostsOf(project)).toEqual([`${project.slug}.svc.localhost`]);
  });

  test.each([
    { what: "production serves", channel: "production", status: "running" },
    { what: "production would start again", channel: "production", status: "stopped" },
    { what: "is queued", channel: "preview", status: "queued" },
    { what: "is being built", channel: "dev", status: "building" },
    { what: "is on its way", channel: "production", status: "deploying" },
  ] as const)("of what $what is refused", async ({ channel, status }) => {
    const project = await api.newProject(user);
    const deployment = await api.newDeployment(project, { channel, status });
    expect(codeOf(await remove(deployment.id))).toEqual([409, "DELETE_UNAVAILABLE"]);
    expect(await removals()).toEqual([]);
  });

  test("is for whoever may change the project, also a suspended one", async () => {
    const project = await api.newProject(user);
    const newest = async () => (await serving(project)).deployment.id;
    const { key: deployer } = await api.newKey(user, { scopes: ["deploy"] });
    expect(codeOf(await remove(await newest(), { key: deployer }))).toEqual([403, "FORBIDDEN_SCOPE"]);
    const stranger = await api.newUser();
    expect(codeOf(await remove(await newest(), { session: stranger.session }))).toEqual([404, "NOT_FOUND"]);
    expect(codeOf(await remove(randomUUID()))).toEqual([404, "NOT_FOUND"]);
    await api.db
      .updateTable("project")
      .set({ suspended_at: new Date(), suspend_reason: "admin" })
      .where("id", "=", project.id)
      .execute();
    const { key } = await api.newKey(user, { scopes: ["projects:write"] });
    expect((await remove(await newest(), { key })).status).toBe(202);
  });

  test("does not give a deployment of the hour back", async () => {
    const owner = await api.newUser({ plan: { max_deploys_per_hour: 1 } });
    const project = await api.newProject(owner, { type: "ociimage" });
    const failed = await api.newDeployment(project, { status: "failed" });
    expect((await remove(failed.id, { session: owner.session })).status).toBe(202);
    await api.db.deleteFrom("deployment").where("id", "=", failed.id).execute();
    const manifest = { version: 2, name: "S", type: "ociimage", port: 80, image: { reference: "a.test/b:1" } };
    const { status, body } = await api.call("POST", `/projects/${project.id}/deployments`, {
      session: owner.session,
      body: { manifest },
    });
    expect([status, body.error.code]).toEqual([429, "RATE_LIMITED"]);
  });
});

describe("the work of a removal", () => {
  /** Everything anywhere that names the deployment. */
  async function traces(deployment: Deployment, workIds: string[]): Promise<Record<string, number>> {
    const count = async (query: ReturnType<typeof sql<{ count: number }>>) =>
      (await query.execute(api.db)).rows[0]?.count ?? -1;
    const under = async (prefix: string) =>
      (await etcd.range(prefix)).entries.filter(({ key, value }) => `${key}${value}`.includes(deployment.id)).length;
    return {
      deployment: await count(sql`select count(*)::int as count from deployment where id = ${deployment.id}`),
      events: await count(
        sql`select count(*)::int as count from deployment_event where deployment_id = ${deployment.id}`,
      ),
      tasks: await count(sql`select count(*)::int as count from task where owner_id = ${deployment.id}`),
      attempts: await count(sql`select count(*)::int as count from run where owner_id = ${deployment.id}`),
      samples: await count(
        sql`select count(*)::int as count from resource_sample where task_id = any(${workIds}::uuid[])`,
      ),
      logs: await count(sql`select count(*)::int as count from log_chunk where stream_id = any(${workIds})`),
      channels: await count(
        sql`select count(*)::int as count from channel_state where deployment_id = ${deployment.id}`,
      ),
      placements: await under("/svc/placements/"),
      observations: (
        await Promise.all(
          workIds.map(
            async (id) => (await etcd.range("/svc/observations/")).entries.filter(({ key }) => key.endsWith(id)).length,
          ),
        )
      ).reduce((sum, each) => sum + each, 0),
      runs: await under("/svc/runs/"),
      routes: await under("/svc/routes/"),
    };
  }

  /** Returns the ids of its work: its container and the attempt at its release command. */
  async function leaveTraces(deployment: Deployment, taskId: string): Promise<string[]> {
    const data = Buffer.from("output\n");
    const { id: attemptId } = await api.newRun(deployment, { node_id: randomUUID() });
    for (const stream_id of [taskId, attemptId])
      await api.db.insertInto("log_chunk").values({ stream_id, offset: 0, data }).execute();
    const sample = { task_id: taskId, project_id: deployment.project_id, at: new Date() };
    await api.db
      .insertInto("resource_sample")
      .values({ ...sample, cpu_percent: 1, memory_bytes: 1, pids: 1 })
      .execute();
    await putRun(deployment, attemptId);
    return [taskId, attemptId];
  }

  /** A release command that has run. Returns its key. */
  async function putRun({ id, project_id }: Deployment, attemptId: string): Promise<string> {
    const run = {
      attemptId,
      kind: "release",
      ownerKind: "deployment",
      ownerId: id,
      projectId: project_id,
      state: "exited",
      cancel: false,
      token: "t",
      exitCode: 0,
      timedOut: false,
      message: null,
      startedAt: null,
      finishedAt: null,
      changedAt: new Date().toISOString(),
    };
    const key = keys.run(randomUUID(), attemptId);
    await etcd.txn({ guards: [], ops: [{ put: { key, value: JSON.stringify(run) } }] });
    return key;
  }

  async function upAndRunning() {
    const project = await api.newProject(user);
    const { deployment, host } = await serving(project, { pr_number: 7 });
    const taskId = await withContainer(deployment);
    const workIds = await leaveTraces(deployment, taskId);
    return { project, deployment, host, taskId, workIds };
  }
  const serves = (host: string, { id }: Deployment) =>
    until(
      "the host serves",
      () => virtual.fleet.route(host)?.deploymentId === id && virtual.fleet.route(host)?.proxy !== undefined,
      20_000,
    );
  const isGone = (id: string) => async () => (await findDeployment(api.db, id)) === null;

  test("leaves nothing, and the host answers no more", async () => {
    await using _replica = await replica();
    const { deployment, host, workIds } = await upAndRunning();
    await serves(host, deployment);
    const isThere = async () => {
      // A new leader takes away what attempts have left, and a busy machine may have got one just now.
      await putRun(deployment, workIds[1] ?? "");
      const none = Object.entries(await traces(deployment, workIds)).filter(([, count]) => count === 0);
      return none.map(([what]) => what).join() === "events";
    };
    await until("everything but a line of its timeline is there", isThere);
    expect((await remove(deployment.id)).status).toBe(202);
    await until("the row is gone", isGone(deployment.id));
    expect(virtual.fleet.route(host)).toBeNull();
    expect(Object.entries(await traces(deployment, workIds)).filter(([, count]) => count !== 0)).toEqual([]);
    expect(codeOf(await api.call("GET", `/deployments/${deployment.id}`, session()))).toEqual([404, "NOT_FOUND"]);
  }, 60_000);

  test("is done although control is killed between any two of its steps", async () => {
    const { deployment, host, workIds } = await upAndRunning();
    {
      await using _replica = await replica();
      await serves(host, deployment);
    }
    await remove(deployment.id);
    for (let calls = 8; !(await isGone(deployment.id)()); calls += 12) {
      await using dying = await replica();
      dying.crashAfter(calls);
      await Promise.race([dying.crashed, until("the row is gone", isGone(deployment.id), 30_000)]);
    }
    await using _survivor = await replica();
    await until(
      "the work is done",
      async () => {
        const items = await api.db.selectFrom("work_item").select("state").where("kind", "=", "remove").execute();
        return items.every(({ state }) => state === "done");
      },
      20_000,
    );
    expect(Object.entries(await traces(deployment, workIds)).filter(([, count]) => count !== 0)).toEqual([]);
  }, 120_000);

  test("of a superseded deployment keeps what its channel serves", async () => {
    await using _replica = await replica();
    const { project, deployment, host } = await upAndRunning();
    await serves(host, deployment);
    const older = await api.newDeployment(project, { channel: "preview", pr_number: 7, status: "superseded" });
    await remove(older.id);
    await until("the row is gone", isGone(older.id));
    expect(virtual.fleet.route(host)).toMatchObject({ deploymentId: deployment.id, proxy: expect.anything() });
    expect(await findDeployment(api.db, deployment.id)).not.toBeNull();
  }, 60_000);

  test("that was given up is taken up again by housekeeping", async () => {
    const { deployment } = await serving(await api.newProject(user));
    await remove(deployment.id);
    await api.db.updateTable("work_item").set({ state: "failed", attempt: 20, finished_at: new Date() }).execute();
    await keepHouse(api.db, api.context.log, { previewIdleDays: 0 });
    const items = await api.db
      .selectFrom("work_item")
      .select(["state", "attempt"])
      .where("kind", "=", "remove")
      .execute();
    expect(items).toEqual([{ state: "queued", attempt: 0 }]);
  });
});

describe("idle channels", () => {
  const days = (count: number) => new Date(Date.now() - count * 86_400_000);
  const house = (previewIdleDays: number) => keepHouse(api.db, api.context.log, { previewIdleDays });
  const isLeft = async ({ id }: Deployment) => (await findDeployment(api.db, id))?.deployment.removing_at === null;

  test("go after the days that the operator set, and tell so", async () => {
    const project = await api.newProject(user);
    const old = await serving(project, { pr_number: 7, created_at: days(31) });
    const dev = await serving(project, { channel: "dev", created_at: days(31) });
    const fresh = await serving(project, { pr_number: 8, created_at: days(29) });
    const production = await serving(project, { channel: "production", created_at: days(400) });
    await house(30);
    expect(await Promise.all([old, dev, fresh, production].map(({ deployment }) => isLeft(deployment)))).toEqual([
      false,
      false,
      true,
      true,
    ]);
    expect(await hostsOf(project)).toEqual([fresh.host, production.host].toSorted());
    const { timeline } = (await api.call("GET", `/deployments/${old.deployment.id}/timeline`, session())).body;
    expect(timeline).toMatchObject([{ phase: "removing", detail: "nobody deployed to this channel for 30 days" }]);
    const audit = await api.db
      .selectFrom("audit")
      .select(["action", "user_id", "detail"])
      .where("target", "=", old.deployment.id)
      .execute();
    expect(audit).toEqual([
      {
        action: "deployment.expire",
        user_id: null,
        detail: { projectId: project.id, channel: "preview", prNumber: 7, idleDays: 30 },
      },
    ]);
  });

  test("stay when somebody tried to deploy there since, when the project is suspended, and when the days are 0", async () => {
    const project = await api.newProject(user);
    const tried = await serving(project, { created_at: days(100) });
    await api.newDeployment(project, { channel: "preview", status: "failed", created_at: days(1) });
    const blocked = await api.newProject(user);
    const suspended = await serving(blocked, { created_at: days(100) });
    await api.db
      .updateTable("project")
      .set({ suspended_at: days(50), suspend_reason: "quota" })
      .where("id", "=", blocked.id)
      .execute();
    await house(30);
    const never = await serving(await api.newProject(user), { created_at: days(1000) });
    await house(0);
    for (const { deployment } of [tried, suspended, never]) expect(await isLeft(deployment)).toBe(true);
  });

  test("that never served anything give up their names", async () => {
    const project = await api.newProject(user);
    await api.newDeployment(project, { channel: "preview", pr_number: 3, status: "failed", created_at: days(40) });
    await claimHost(api.db, project, { channel: "preview", prNumber: 3 }, "svc.localhost");
    const slow = await api.newDeployment(project, {
      channel: "preview",
      pr_number: 4,
      status: "queued",
      created_at: days(40),
    });
    const host = await claimHost(api.db, project, { channel: "preview", prNumber: 4 }, "svc.localhost");
    await house(30);
    // The one that still waits for its turn keeps its own.
    expect(await hostsOf(project)).toEqual([host, `${project.slug}.svc.localhost`].toSorted());
    expect(await isLeft(slow)).toBe(true);
  });
});
