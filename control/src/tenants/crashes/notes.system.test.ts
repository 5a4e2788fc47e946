import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ObservationValue, PlacementValue } from "../../fleet/cluster/keys.ts";
import { removeTasks } from "../../fleet/tasks/change.ts";
import { lockDeployment } from "../../fleet/tasks/deployment.ts";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import { createLog } from "../../log.ts";
import type { DeploymentStatus } from "../../stores/db/tables.ts";
import { lockWaits } from "../../stores/db/testing.ts";
import { until } from "../../stores/etcd/testing.ts";
import { createCrashNotes } from "./notes.ts";

let api: TestApi;
let owner: TestUser;
beforeAll(async () => {
  api = await testApi();
  owner = await api.newUser();
});
afterAll(() => api[Symbol.asyncDispose]());

const failure = { code: "CRASH_LOOP", message: "The app exited with code 7.", exitCode: 7, oomKilled: false };

/** A deployment with one container, what its node says of it, and leaders that look. */
async function aContainer(status: DeploymentStatus = "running") {
  const project = await api.newProject(owner);
  const deployment = await api.newDeployment(project, { status });
  const { id } = await api.db
    .insertInto("task")
    .values({
      ...{
        project_id: project.id,
        owner_kind: "deployment",
        owner_id: deployment.id,
        kind: "serve",
        channel: "production",
      },
      ...{ spec: "{}", spec_hash: "x", memory_mb: 1, cpu_millicores: 1, pids_limit: 1, node_id: randomUUID() },
    })
    .returning("id")
    .executeTakeFirstOrThrow();
  const placement = { placementId: id, kind: "serve", desired: "running" } as PlacementValue;
  let observation = {
    placementId: id,
    statusSeq: 1,
    observed: "running",
    health: "healthy",
    restartSeq: 0,
  } as const as unknown as ObservationValue;
  const fleet = {
    placements: () => [{ nodeId: "n1", placement, modRevision: 1n }],
    observation: () => observation,
  };
  return {
    ...{ id, deployment, placement },
    observation: () => observation,
    newLeader: () => createCrashNotes({ db: api.db, fleet, log: createLog("silent") }),
    report(change: Partial<ObservationValue>) {
      observation = { ...observation, ...change, statusSeq: observation.statusSeq + 1 };
    },
    async seen() {
      const session = { session: owner.session };
      const { timeline } = (await api.call("GET", `/deployments/${deployment.id}/timeline`, session)).body;
      const { placement: shown, status: state } = (await api.call("GET", `/deployments/${deployment.id}`, session)).body
        .deployment;
      const phases = timeline.map(({ phase }: { phase: string }) => phase);
      return { phases, state: shown.state, status: state };
    },
  };
}

test("a crash and the return are told once, by whichever leaders look, and the deployment keeps its status", async () => {
  const { newLeader, report, seen } = await aContainer();
  const [first, second] = [newLeader(), newLeader()];
  await first();
  expect(await seen()).toEqual({ phases: [], state: "running", status: "running" });

  report({ health: "backoff", failure });
  await Promise.all([first(), second(), first()]);
  await newLeader()();
  expect(await seen()).toEqual({ phases: ["crashed"], state: "crashing", status: "running" });

  report({ health: "healthy", failure: null, restartSeq: 1 });
  await Promise.all([first(), second()]);
  await second();
  expect(await seen()).toEqual({ phases: ["crashed", "recovered"], state: "running", status: "running" });

  report({ observed: "failed", health: null, failure, restartSeq: 2 });
  await Promise.all([first(), second()]);
  await first();
  expect(await seen()).toEqual({ phases: ["crashed", "recovered", "ended"], state: "failed", status: "running" });
});

test("how often a container falls over, and why, is told of its deployment and its project until it has run for a while", async () => {
  const { deployment, newLeader, report } = await aContainer();
  const leader = newLeader();
  const shown = async () => {
    const session = { session: owner.session };
    const one = (await api.call("GET", `/deployments/${deployment.id}`, session)).body.deployment;
    const { projects } = (await api.call("GET", "/projects", session)).body;
    const project = projects.find(({ id }: { id: string }) => id === deployment.project_id);
    expect(project.crashing).toEqual(one.crashing);
    return one.crashing;
  };
  const at = (seconds: number) => new Date(Date.UTC(2030, 0, 1, 0, 0, seconds)).toISOString();
  const reason = "The app was killed because it used more than its 512 MB of memory and is started again.";
  const crashing = (count: number, seconds: number, nextStartAt: string | null) => ({
    crashing: { ...{ since: at(0), lastAt: at(seconds), count }, reason, nextStartAt },
  });
  expect(await shown()).toBeNull();
  // One that answers again is well.
  report({ ...crashing(1, 0, at(0)), restartSeq: 1 });
  await leader();
  expect(await shown()).toBeNull();
  const again = crashing(2, 7, at(8));
  report({ ...again, health: "backoff", failure });
  await Promise.all([leader(), newLeader()()]);
  expect(await shown()).toEqual(again.crashing);
  const healthy = crashing(3, 14, at(16));
  report({ ...healthy, health: "healthy", failure: null, restartSeq: 3 });
  await leader();
  expect(await shown()).toEqual(healthy.crashing);
  await api.db.updateTable("deployment").set({ status: "stopped" }).where("id", "=", deployment.id).execute();
  expect(await shown()).toBeNull();
  await api.db.updateTable("deployment").set({ status: "running" }).where("id", "=", deployment.id).execute();
  report({ crashing: undefined });
  await leader();
  expect(await shown()).toBeNull();
  report({ ...crashing(1, 90, null), observed: "failed", health: null, failure });
  await leader();
  expect(await shown()).toEqual(crashing(1, 90, null).crashing);
});

test("a note does not wait for whoever ends the container meanwhile", async () => {
  const { id, deployment, newLeader, report, seen } = await aContainer();
  report({ health: "backoff", failure });
  let round: Promise<void> | undefined;
  await api.db.transaction().execute(async (tx) => {
    await lockDeployment(tx, deployment.id, "running");
    round = newLeader()();
    // Looked at below.
    round.catch(() => {});
    await until("the note to wait", async () => (await lockWaits(api.db)) > 0);
    await removeTasks(tx, [id]);
  });
  await round;
  expect((await seen()).phases).toEqual(["crashed"]);
});

test("a container of a deployment that is still on its way is told of once that serves", async () => {
  const { deployment, newLeader, report, seen } = await aContainer("deploying");
  const leader = newLeader();
  report({ health: "backoff", failure });
  await leader();
  expect((await seen()).phases).toEqual([]);
  await api.db.updateTable("deployment").set({ status: "running" }).where("id", "=", deployment.id).execute();
  await leader();
  expect(await seen()).toMatchObject({ phases: ["crashed"], state: "crashing" });
});

test("a container that cannot be noted keeps nobody from being told of others", async () => {
  const [bad, good] = [await aContainer(), await aContainer()];
  // More than the column of its restarts holds.
  bad.report({ observed: "failed", health: null, failure, restartSeq: 2 ** 31 });
  good.report({ health: "backoff", failure });
  const fleet = {
    placements: () => [bad, good].map(({ placement }) => ({ nodeId: "n1", placement, modRevision: 1n })),
    observation: (_: string, id: string) => [bad, good].find((each) => each.id === id)?.observation() ?? null,
  };
  await createCrashNotes({ db: api.db, fleet, log: createLog("silent") })();
  expect((await good.seen()).phases).toEqual(["crashed"]);
});
