import { systemClock } from "@svc/runtime/system";
import { type KyselyPlugin, sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { LeaderOutdated, raiseFence } from "../../../fleet/cluster/fenced.ts";
import { type TestApi, testApi } from "../../../http/testing.ts";
import { createLog } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Project } from "../../../stores/db/tables.ts";
import { startEtcd, until } from "../../../stores/etcd/testing.ts";
import { startReplica } from "../../deployments/testing/replica.ts";
import { newJob } from "../testing/job.ts";
import { createJobClock } from "./apply.ts";
import { readClockLag } from "./lag.ts";
import { jobClockRows } from "./rows.ts";

let api: TestApi;
let db: Db;
let project: Project;
let epoch = 0n;
beforeAll(async () => {
  api = await testApi();
  db = api.db;
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await db.deleteFrom("job").execute();
  project = await api.newProject(await api.newUser({ plan: { max_scheduled_jobs: 1_000 } }));
  epoch += 1n;
  await raiseFence(db, epoch);
});

const log = createLog("silent");
const aClock = ({
  db: of = db,
  ...options
}: {
  db?: Db;
  epoch?: bigint;
  clock?: typeof systemClock;
  lookAgain?: () => void;
  periodMs?: number;
} = {}) =>
  createJobClock({
    ...{ rows: jobClockRows(of), epoch, clock: systemClock, log, lookAgain: () => {}, periodMs: 1_000 },
    ...options,
  });

/** A schedule that fires in this very minute, and then in a year at the earliest: whatever time a test takes. */
async function thisMinute(): Promise<{ schedule: string; next_fire_at: Date }> {
  const { rows } = await sql<{ at: Date }>`select date_trunc('minute', clock_timestamp()) as at`.execute(db);
  const at = rows[0]?.at ?? new Date(0);
  const day = `${at.getUTCDate()} ${at.getUTCMonth() + 1}`;
  return { schedule: `${at.getUTCMinutes()} ${at.getUTCHours()} ${day} *`, next_fire_at: at };
}
async function dueJobs(count: number): Promise<string[]> {
  const { schedule, next_fire_at } = await thisMinute();
  const { rows } = await sql<{ id: string }>`
    insert into job (project_id, channel, name, deployment_id, schedule, timezone, timeout_seconds, retries, overlap,
      source_enabled, next_fire_at)
    select ${project.id}, 'production', 'job-' || n, gen_random_uuid(), ${schedule}, 'UTC', 900, 0, 'skip', true, ${next_fire_at}
    from generate_series(1, ${count}::int) n returning id`.execute(db);
  return rows.map(({ id }) => id);
}
const runs = () =>
  db.selectFrom("job_run").selectAll().where("project_id", "=", project.id).orderBy("number").execute();
const dueNow = async () =>
  (await db.selectFrom("job").select("id").where("next_fire_at", "<=", sql<Date>`now()`).execute()).length;

/** Each of the jobs ran once for its one instant, and waits for the next one. */
async function expectOneRunEach(ids: readonly string[]): Promise<void> {
  expect((await runs()).map(({ job_id }) => job_id).sort()).toEqual([...ids].sort());
  const jobs = await db.selectFrom("job").selectAll().where("id", "in", ids).execute();
  for (const { next_fire_at, last_fire_at } of jobs)
    expect((next_fire_at?.getTime() ?? 0) - (last_fire_at?.getTime() ?? 0)).toBeGreaterThan(300 * 86_400_000);
}

test("what is due begins once, with the instant that it is for, and waits for the next one", async () => {
  const { schedule, next_fire_at } = await thisMinute();
  const job = await newJob(db, { project_id: project.id, schedule, next_fire_at });
  const later = await newJob(db, { project_id: project.id, next_fire_at: new Date(Date.now() + 86_400_000) });
  const round = aClock();
  await round();
  await round();
  expect(await runs()).toMatchObject([
    { job_id: job.id, deployment_id: job.deployment_id, trigger: "schedule", fire_at: next_fire_at, missed: 0 },
  ]);
  await expectOneRunEach([job.id]);
  const untouched = await db.selectFrom("job").selectAll().where("id", "=", later.id).executeTakeFirstOrThrow();
  expect(untouched).toEqual(later);
});

test("what nobody was there for is told of once, and what is late and not too late runs", async () => {
  const now = Date.now();
  const hours = new Date(now - 30 * 3_600_000);
  const hour = await newJob(db, { project_id: project.id, schedule: "*/1 * * * *", next_fire_at: hours });
  await aClock()();
  const of = (await runs()).filter(({ job_id }) => job_id === hour.id);
  expect(of).toMatchObject([
    { status: "skipped", reason: "missed", missed: 100 },
    { status: "queued", missed: 0 },
  ]);
});

describe("with several at once", () => {
  test("a thousand are begun once each, by two clocks that know nothing of one another", async () => {
    const ids = await dueJobs(1_000);
    const [one, two] = [aClock(), aClock()];
    while ((await dueNow()) > 0) await Promise.all([one(), two()]);
    await expectOneRunEach(ids);
  });

  test("a clock that has more to do goes on at once", async () => {
    await dueJobs(201);
    const lookAgain = vi.fn();
    const round = aClock({ lookAgain });
    await round();
    expect(lookAgain).toHaveBeenCalledTimes(1);
    expect(await dueNow()).toBe(1);
    await round();
    expect(await dueNow()).toBe(0);
  });

  test("one that does not lead any more begins nothing", async () => {
    const ids = await dueJobs(3);
    const [before, after] = [aClock(), aClock({ epoch: epoch + 1n })];
    await raiseFence(db, epoch + 1n);
    await expect(before()).rejects.toBeInstanceOf(LeaderOutdated);
    expect(await runs()).toEqual([]);
    await after();
    await expectOneRunEach(ids);
    epoch += 1n;
  });

  test("a job whose zone nobody knows any more does not hold up the others, and runs once more", async () => {
    const [lost = "", ...others] = await dueJobs(3);
    await db.updateTable("job").set({ timezone: "Mars/Olympus" }).where("id", "=", lost).execute();
    await aClock()();
    expect((await runs()).map(({ job_id }) => job_id).sort()).toEqual([lost, ...others].sort());
    const job = await db.selectFrom("job").selectAll().where("id", "=", lost).executeTakeFirstOrThrow();
    expect(job.next_fire_at).toBeNull();
  });

  test("a job that somebody holds does not hold up the others", async () => {
    const [held = "", ...others] = await dueJobs(3);
    await db.transaction().execute(async (tx) => {
      await tx.selectFrom("job").select("id").where("id", "=", held).forUpdate().execute();
      await aClock()();
      await expectOneRunEach(others);
    });
    await aClock()();
    await expectOneRunEach([held, ...others]);
  });
});

/** From the given number of queries on nothing that goes through it has an effect, before or after a query was run. */
function deathAfter(calls: number): KyselyPlugin {
  let left = calls;
  const strike = () => {
    left -= 1;
    if (left < 0) throw new Error("killed here");
  };
  return {
    transformQuery({ node }) {
      strike();
      return node;
    },
    async transformResult({ result }) {
      strike();
      return result;
    },
  };
}

test("one that is killed anywhere has begun all or nothing, and another one goes on", async () => {
  for (let calls = 0; ; calls += 3) {
    const ids = await dueJobs(4);
    const died = await aClock({ db: db.withPlugin(deathAfter(calls)) })().then(
      () => false,
      () => true,
    );
    expect([0, ids.length]).toContain((await runs()).length);
    await aClock()();
    await expectOneRunEach(ids);
    await db.deleteFrom("job").execute();
    if (!died) break;
    expect(calls).toBeLessThan(200);
  }
});

describe("time", () => {
  test("a round before something is due is followed by one in that moment", async () => {
    const inMs = 600_000;
    await newJob(db, { project_id: project.id, next_fire_at: new Date(Date.now() + inMs) });
    const lookAgain = vi.fn();
    const timers: { ms: number; run: () => void }[] = [];
    const after: typeof systemClock.after = (ms, run) => {
      timers.push({ ms, run });
      return systemClock.after(inMs, () => {});
    };
    const clock = { ...systemClock, after };
    await aClock({ lookAgain, clock })();
    // The loop itself looks sooner than that.
    expect(timers).toEqual([]);
    await aClock({ lookAgain, clock, periodMs: 2 * inMs })();
    expect(timers.map(({ ms }) => ms > 0 && ms <= inMs + 60_000)).toEqual([true]);
    timers[0]?.run();
    expect(lookAgain).toHaveBeenCalledTimes(1);
  });

  test("a clock that was set lets a round pass", async () => {
    let aheadMs = 0;
    const round = aClock({ clock: { ...systemClock, bootMs: () => systemClock.bootMs() + aheadMs } });
    await round();
    const ids = await dueJobs(2);
    aheadMs = 3_600_000;
    await round();
    expect(await runs()).toEqual([]);
    await round();
    await expectOneRunEach(ids);
  });

  test("how far behind it is can be read", async () => {
    expect(await readClockLag(db)).toBe(0);
    await newJob(db, { project_id: project.id, next_fire_at: new Date(Date.now() + 3_600_000) });
    expect(await readClockLag(db)).toBe(0);
    await newJob(db, { project_id: project.id, next_fire_at: new Date(Date.now() - 120_000) });
    expect(await readClockLag(db)).toBeGreaterThan(100);
  });
});

test("the replica that leads has it, and the next one goes on", async () => {
  await using etcd = await startEtcd();
  const newReplica = () =>
    startReplica({
      databaseUrl: api.context.config.databaseUrl,
      etcdEndpoint: etcd.endpoint,
      content: api.context.config.content,
      registry: { getManifest: async () => ({ manifest: {}, digest: "", sizeBytes: 0 }) as never },
    });
  // The epochs of another etcd begin anew.
  await db.updateTable("leader_fence").set({ epoch: 0 }).execute();
  const first = await newReplica();
  await using _second = await newReplica();
  const before = await dueJobs(20);
  await until("the first ones to have begun", async () => (await dueNow()) === 0);
  await first[Symbol.asyncDispose]();
  await db.updateTable("job").set({ name: sql<string>`'old-' || name` }).execute();
  const after = await dueJobs(20);
  await until("the others to have begun", async () => (await dueNow()) === 0);
  await expectOneRunEach([...before, ...after]);
});
