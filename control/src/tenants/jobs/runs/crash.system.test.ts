import { afterEach, beforeEach, expect, test } from "vitest";
import { type JobWorld, jobWorld } from "../testing/world.ts";

let world: JobWorld;
beforeEach(async () => {
  world = await jobWorld({ leads: false, nodes: 3 });
});
afterEach(() => world[Symbol.asyncDispose]());

const patience = { timeout: 240_000 };

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
