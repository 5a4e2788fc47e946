import { systemClock } from "@svc/runtime/system";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LeaderOutdated } from "../../../fleet/cluster/fenced.ts";
import { keys } from "../../../fleet/cluster/keys.ts";
import { insertRun } from "../../../fleet/tasks/run-rows.ts";
import { createLog } from "../../../log.ts";
import type { Run } from "../../../stores/db/tables.ts";
import { newJobRun } from "../testing/run.ts";
import { type JobWorld, jobWorld } from "../testing/world.ts";
import { driveJobRuns } from "./round.ts";
import { jobRunRows } from "./rows.ts";

let world: JobWorld;
beforeEach(async () => {
  world = await jobWorld({ leads: false, nodes: 3 });
});
afterEach(() => world[Symbol.asyncDispose]());

const patience = { timeout: 150_000 };

test("runs are driven to their ends by leaders that are killed between any two calls of their stores", async () => {
  let fails = 0;
  world.nodes.jobs = () => {
    fails += 1;
    return { exitCode: fails % 5 === 0 ? 1 : 0 };
  };
  const deployment = await world.serve(["report"]);
  const jobs = await Promise.all(
    Array.from({ length: 6 }, (_, at) => world.job({ name: `job-${at}`, deployment_id: deployment.id })),
  );
  const ids = (await Promise.all(jobs.map((job) => world.begin(job)))).map(({ id }) => id);
  // Each dies a little later than the one before it, in the midst of whatever it does by then, and the last one lives.
  for (let calls = 60; calls <= 340; calls += 40) {
    const replica = await world.replica();
    replica.crashAfter(calls);
    await replica.crashed;
    // Its connections end with it, and so does whatever it was in the midst of.
    await replica[Symbol.asyncDispose]();
  }
  await world.replica();
  const isEnded = async () =>
    (await Promise.all(ids.map((id) => world.run(id)))).every(({ finished_at }) => finished_at !== null);
  await expect.poll(isEnded, patience).toBe(true);
  const runs = await Promise.all(ids.map((id) => world.run(id)));
  for (const run of runs) {
    const attempts = await world.attempts(run.id);
    const began = attempts.filter(({ outcome }) => outcome !== "not_started");
    expect(run.attempt_count).toBe(began.length);
    expect(["succeeded", "failed"]).toContain(run.status);
    // Nobody forgot what a node had begun, and nobody had it begun twice.
    expect(began.map(({ id }) => world.nodes.jobStarts.get(id))).toEqual(began.map(() => 1));
    expect(began).toHaveLength(1);
  }
});

test("what one decided that does not lead any more is not done", async () => {
  world.nodes.jobs = () => null;
  const { id: before } = await world.serve(["report"]);
  const job = await world.job({ deployment_id: before, pause_reason: "suspended" });
  const waiting = await world.job({ name: "other", deployment_id: before });
  const running = await newJobRun(world.api.db, job, { status: "running" });
  const { id: attempt } = (await insertRun(world.api.db, {
    ...{ project_id: job.project_id, owner_kind: "job", owner_id: running.id, kind: "job", number: 1 },
    node_id: world.nodes.nodeIds[0] ?? "",
  })) as Run;
  const record = { attemptId: attempt, kind: "job", ownerKind: "job", ownerId: running.id, state: "started" };
  const rest = { cancel: false, acceptedBy: null, token: null, exitCode: null, timedOut: false, message: null };
  const times = { startedAt: null, finishedAt: null, changedAt: new Date(0).toISOString() };
  const value = JSON.stringify({ ...record, projectId: job.project_id, ...rest, ...times });
  const key = keys.run(world.nodes.nodeIds[0] ?? "", attempt);
  await world.etcd.txn({ guards: [], ops: [{ put: { key, value } }] });
  const toMove = await world.begin(waiting);
  const { id: after } = await world.serve(["report", "other"]);
  await world.api.db.updateTable("job").set({ deployment_id: after }).where("id", "=", waiting.id).execute();
  await world.api.db.updateTable("leader_fence").set({ epoch: 7 }).execute();
  const round = driveJobRuns({
    ...{
      clock: systemClock,
      rows: jobRunRows(world.api.db),
      etcd: world.etcd,
      fleet: world.nodes.fleet,
      log: createLog("silent"),
    },
    leadership: { epoch: 6n, txn: async () => ({ succeeded: false }) as never },
  });
  await expect(round).rejects.toBeInstanceOf(LeaderOutdated);
  expect(await world.run(running.id)).toMatchObject({ status: "running" });
  expect(await world.run(toMove.id)).toMatchObject({ deployment_id: before, status: "queued" });
});

test("of two controls that lead at once nobody starts anything twice", async () => {
  await Promise.all([world.replica(), world.replica()]);
  const deployment = await world.serve(["report"]);
  const jobs = await Promise.all(
    Array.from({ length: 8 }, (_, at) => world.job({ name: `job-${at}`, deployment_id: deployment.id })),
  );
  const runs = await Promise.all(jobs.map((job) => world.begin(job)));
  const statuses = () => Promise.all(runs.map(async ({ id }) => (await world.run(id)).status));
  await expect.poll(statuses, patience).toEqual(runs.map(() => "succeeded"));
  expect([...world.nodes.jobStarts.values()]).toEqual(runs.map(() => 1));
});
