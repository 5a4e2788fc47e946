import { afterEach, beforeEach, expect, test } from "vitest";
import { type JobWorld, jobWorld } from "../testing/world.ts";

let world: JobWorld;
beforeEach(async () => {
  world = await jobWorld();
});
afterEach(() => world[Symbol.asyncDispose]());

const patience = { timeout: 30_000 };

test("a run that succeeds says so, and when its job last did", async () => {
  const deployment = await world.serve(["report"]);
  const job = await world.job({ deployment_id: deployment.id });
  const { id } = await world.begin(job);
  await expect.poll(() => world.run(id), patience).toMatchObject({ status: "succeeded", attempt_count: 1 });
  expect(await world.attempts(id)).toMatchObject([{ number: 1, outcome: "succeeded", exit_code: 0 }]);
  const after = await world.api.db.selectFrom("job").selectAll().where("id", "=", job.id).executeTakeFirstOrThrow();
  expect(after.last_success_at).not.toBeNull();
  // Nothing of it is left in etcd.
  await expect.poll(() => world.nodes.fleet.runs().length, patience).toBe(0);
});
