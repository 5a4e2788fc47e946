import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ObservationValue, PlacementValue } from "../cluster/keys.ts";
import type { DeploymentStatus } from "../db/tables.ts";
import { lockWaits } from "../db/testing.ts";
import { lockDeployment, removeTasks } from "../deployments/store.ts";
import { until } from "../etcd/testing.ts";
import { type TestApi, type TestUser, testApi } from "../http/testing.ts";
import { createLog } from "../log.ts";
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
      ...{ project_id: project.id, deployment_id: deployment.id, kind: "serve", channel: "production" },
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
    id,
    deployment,
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
