import { sql } from "kysely";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Job } from "../../../stores/db/tables.ts";
import { type JobWorld, jobWorld } from "../testing/world.ts";

let world: JobWorld;
beforeEach(async () => {
  world = await jobWorld();
});
afterEach(() => world[Symbol.asyncDispose]());

const patience = { timeout: 60_000 };
const reaches = (id: string, status: string) =>
  expect.poll(async () => (await world.run(id)).status, patience).toBe(status);
const cancel = (id: string) =>
  world.api.call("POST", `/projects/${world.project.id}/job-runs/${id}/cancel`, { session: world.user.session });
/** As if the pause between two attempts had passed. */
const endPause = (id: string) =>
  world.api.db.updateTable("job_run").set({ retry_at: sql<Date>`now()` }).where("id", "=", id).execute();
/** No node has room: nothing can be placed. */
const fill = (schedulable: boolean) => world.api.db.updateTable("node").set({ schedulable }).execute();

async function aJob(values: Partial<Job> = {}): Promise<Job> {
  const deployment = await world.serve(["report"]);
  return world.job({ deployment_id: deployment.id, ...values });
}

test("a run that succeeds says so, and when its job last did", async () => {
  const job = await aJob();
  const { id } = await world.begin(job);
  await reaches(id, "succeeded");
  expect(await world.run(id)).toMatchObject({ attempt_count: 1, reason: null });
  expect(await world.attempts(id)).toMatchObject([{ number: 1, outcome: "succeeded", exit_code: 0 }]);
  const after = await world.api.db.selectFrom("job").selectAll().where("id", "=", job.id).executeTakeFirstOrThrow();
  expect(after.last_success_at).not.toBeNull();
  // Nothing of it is left in etcd.
  await expect.poll(() => world.nodes.fleet.runs().length, patience).toBe(0);
});

test("a run that fails is tried again after a pause, as often as its job says", async () => {
  world.nodes.jobs = () => ({ exitCode: 3 });
  const { id } = await world.begin(await aJob({ retries: 1 }));
  await reaches(id, "waiting");
  const { reason, message, retry_at } = await world.run(id);
  expect([reason, message]).toEqual(["retry", expect.stringContaining("exit code 3")]);
  expect(retry_at?.getTime()).toBeGreaterThan(Date.now());
  await endPause(id);
  await reaches(id, "failed");
  expect(await world.run(id)).toMatchObject({ reason: "exit", attempt_count: 2 });
  expect((await world.attempts(id)).map(({ outcome }) => outcome)).toEqual(["failed", "failed"]);
  expect([...world.nodes.jobStarts.values()]).toEqual([1, 1]);
});

test("its owner is told when a job fails for good, and when it succeeds again", async () => {
  const told = async () => {
    const { body } = await world.api.call("GET", `/projects/${world.project.id}/alerts`, {
      session: world.user.session,
    });
    return body.alerts.open;
  };
  world.nodes.jobs = () => ({ exitCode: 3 });
  const job = await aJob({ retries: 1 });
  const { id } = await world.begin(job);
  await reaches(id, "waiting");
  expect(await told()).toEqual([]);
  await endPause(id);
  await reaches(id, "failed");
  await expect
    .poll(told, patience)
    .toMatchObject([{ event: "jobFailed", subject: "report", detail: expect.stringContaining("exit code 3") }]);
  world.nodes.jobs = () => ({ exitCode: 0 });
  await reaches((await world.begin(job)).id, "succeeded");
  await expect.poll(told, patience).toEqual([]);
});

test("a command that runs out of time has timed out, whatever it made of the signal", async () => {
  world.nodes.jobs = () => ({ exitCode: 143, timedOut: true });
  const { id } = await world.begin(await aJob());
  await reaches(id, "timed_out");
});

test("a command of which nobody knows whether it ran is never run again", async () => {
  world.nodes.jobs = () => ({ state: "indeterminate" });
  const { id } = await world.begin(await aJob({ retries: 5 }));
  await reaches(id, "failed");
  expect(await world.run(id)).toMatchObject({ reason: "unknown", attempt_count: 1 });
  expect(await world.attempts(id)).toHaveLength(1);
});

test("while a run's node is away the run counts as running, and nothing else of its job begins", async () => {
  world.nodes.jobs = () => null;
  const job = await aJob({ overlap: "queue" });
  const first = await world.begin(job, "schedule");
  await expect.poll(() => world.nodes.runningJobs.size, patience).toBe(1);
  const [{ node_id: nodeId } = { node_id: "" }] = await world.attempts(first.id);
  world.nodes.setNodeAway(nodeId, true);
  await expect.poll(() => world.nodes.fleet.nodeLostAt(nodeId), patience).not.toBeNull();
  const second = await world.begin(job, "schedule");
  await reaches(second.id, "waiting");
  expect(await world.run(first.id)).toMatchObject({ status: "running" });
  expect(await world.attempts(second.id)).toEqual([]);
  world.nodes.jobs = () => ({ exitCode: 0 });
  world.nodes.setNodeAway(nodeId, false);
  await reaches(first.id, "succeeded");
  await reaches(second.id, "succeeded");
});

test("one that waits is canceled at once, also in the pause before its next attempt, and again without effect", async () => {
  const job = await aJob({ retries: 3 });
  await fill(false);
  const { id } = await world.begin(job);
  await expect.poll(async () => (await world.run(id)).reason, patience).toBe("capacity");
  expect(await cancel(id)).toMatchObject({ status: 202, body: { run: { status: "canceled", attemptCount: 0 } } });
  expect(await cancel(id)).toMatchObject({ status: 202, body: { run: { status: "canceled" } } });
  await fill(true);
  world.nodes.jobs = () => ({ exitCode: 1 });
  const next = await world.begin(job);
  await expect.poll(async () => (await world.run(next.id)).reason, patience).toBe("retry");
  expect(await cancel(next.id)).toMatchObject({
    body: { run: { status: "canceled", attemptCount: 1, retryAt: null } },
  });
});

test("one that runs is asked to end, and canceled when it has", async () => {
  world.nodes.jobs = () => null;
  const { id } = await world.begin(await aJob({ retries: 3 }));
  await expect.poll(() => world.nodes.runningJobs.size, patience).toBe(1);
  expect(await cancel(id)).toMatchObject({ status: 202, body: { run: { status: "cancel_requested" } } });
  await reaches(id, "canceled");
  expect(await world.attempts(id)).toMatchObject([{ outcome: "canceled", exit_code: 143 }]);
  expect(world.nodes.runningJobs.size).toBe(0);
});

test("a run that is canceled while it is offered never begins", async () => {
  // The one node that there is does not answer, so the offer stays one.
  const job = await aJob();
  const [nodeId = "", ...others] = world.nodes.nodeIds;
  await world.api.db.updateTable("node").set({ schedulable: false }).where("id", "in", others).execute();
  world.nodes.stall(nodeId, true);
  const { id } = await world.begin(job);
  await expect.poll(() => world.nodes.fleet.runs().length, patience).toBe(1);
  expect(await cancel(id)).toMatchObject({ body: { run: { status: "canceled" } } });
  world.nodes.stall(nodeId, false);
  await expect.poll(() => world.nodes.fleet.runs().length, patience).toBe(0);
  expect(world.nodes.jobStarts.size).toBe(0);
});

test("what finds no room waits until its next instant, and then gives its place to the next", async () => {
  const job = await aJob();
  await fill(false);
  const first = await world.begin(job, "schedule");
  await expect.poll(async () => (await world.run(first.id)).reason, patience).toBe("capacity");
  const second = await world.begin(job, "schedule");
  expect(await world.run(first.id)).toMatchObject({ status: "skipped", reason: "capacity" });
  await fill(true);
  await reaches(second.id, "succeeded");
});

test("a command that runs takes room on its node, which others do not get", async () => {
  await world[Symbol.asyncDispose]();
  world = await jobWorld({ nodes: 3 });
  // Of the three nodes each has room for one, and one has the container of the app.
  await world.api.db.updateTable("plan").set({ memory_mb: 600_000, reserved_memory_mb: 600_000 }).execute();
  world.nodes.jobs = () => null;
  const { id: deployment_id } = await world.serve(["one", "two", "three"]);
  await expect.poll(() => world.nodes.fleet.placements().length, patience).toBe(1);
  const jobs = await Promise.all(["one", "two", "three"].map((name) => world.job({ name, deployment_id })));
  const runs = await Promise.all(jobs.map((job) => world.begin(job)));
  await expect.poll(() => world.nodes.runningJobs.size, patience).toBe(2);
  const reasons = async () => (await Promise.all(runs.map(({ id }) => world.run(id)))).map(({ reason }) => reason);
  await expect.poll(async () => (await reasons()).filter((reason) => reason === "capacity").length, patience).toBe(1);
  world.nodes.jobs = () => ({ exitCode: 0 });
  for (const { id } of runs) await reaches(id, "succeeded");
});

test("overlap: skip leaves out what comes while one runs, and queue has one wait", async () => {
  world.nodes.jobs = () => null;
  const job = await aJob();
  const first = await world.begin(job, "schedule");
  await reaches(first.id, "running");
  expect(await world.begin(job, "schedule")).toMatchObject({ status: "skipped", reason: "overlap" });
  const waiting = await world.begin(job);
  expect(waiting).toMatchObject({ status: "waiting", reason: "overlap" });
  expect((await world.begin(job)).id).toBe(waiting.id);
  world.nodes.jobs = () => ({ exitCode: 0 });
  await reaches(waiting.id, "succeeded");
  const [one, two] = await Promise.all([world.run(first.id), world.run(waiting.id)]);
  expect(two.started_at?.getTime()).toBeGreaterThanOrEqual(one.finished_at?.getTime() ?? Number.POSITIVE_INFINITY);
});

test("a deployment in mid-run: what runs ends in the old image, what waits runs in the new one", async () => {
  world.nodes.jobs = () => null;
  const job = await aJob({ overlap: "queue" });
  const running = await world.begin(job, "schedule");
  await reaches(running.id, "running");
  const waiting = await world.begin(job, "schedule");
  const next = await world.serve(["report"]);
  await world.api.db.updateTable("job").set({ deployment_id: next.id }).where("id", "=", job.id).execute();
  await expect.poll(async () => (await world.run(waiting.id)).deployment_id, patience).toBe(next.id);
  world.nodes.jobs = () => ({ exitCode: 0 });
  await reaches(waiting.id, "succeeded");
  expect(await world.run(running.id)).toMatchObject({ status: "succeeded", deployment_id: job.deployment_id });
});

test("a suspension ends what runs, and what waits does not begin", async () => {
  world.nodes.jobs = () => null;
  const job = await aJob({ overlap: "queue" });
  const running = await world.begin(job, "schedule");
  await reaches(running.id, "running");
  const waiting = await world.begin(job, "schedule");
  await world.api.db.updateTable("job").set({ pause_reason: "suspended" }).where("id", "=", job.id).execute();
  await reaches(waiting.id, "skipped");
  await reaches(running.id, "canceled");
  expect(await world.run(running.id)).toMatchObject({ reason: "paused" });
});
