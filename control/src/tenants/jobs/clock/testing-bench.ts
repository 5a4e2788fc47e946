/**
 * Rounds of the clock among 10,000 jobs, on a Postgres of its own, with what comes after them: the pauses' look, and a minute
 * in which a thousand are due. Prints one line of JSON: milliseconds by question.
 *
 * Run by test/bench/jobs.ts.
 */
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { raiseFence } from "../../../fleet/cluster/fenced.ts";
import { testApi } from "../../../http/testing.ts";
import { createLog } from "../../../log.ts";
import { jobPauseRows, settlePauses } from "../definitions/pauses.ts";
import { createJobClock } from "./apply.ts";
import { jobClockRows } from "./rows.ts";

const [projects, jobsEach, due, rounds] = [1_000, 10, 1_000, 500];

await using api = await testApi();
const { db } = api;
const owner = await api.newUser({ plan: { max_scheduled_jobs: jobsEach } });
await sql`insert into project (owner_id, name, slug, type)
  select ${owner.id}, 'P', 'p' || n, 'ssr' from generate_series(1, ${projects}::int) as n`.execute(db);
await sql`insert into job (project_id, channel, name, deployment_id, schedule, timezone, timeout_seconds, retries, overlap,
    source_enabled, next_fire_at)
  select id, 'production', 'job-' || n, gen_random_uuid(), '0 3 * * *', 'Europe/Berlin', 900, 0, 'skip', true,
    now() + interval '1 hour' + random() * interval '1 day'
  from project, generate_series(1, ${jobsEach}::int) as n`.execute(db);
await sql`analyze job`.execute(db);
await raiseFence(db, 1n);

const log = createLog("silent");
let goesOn = false;
const round = createJobClock({
  ...{ clock: systemClock, rows: jobClockRows(db), epoch: 1n, log, periodMs: 1_000 },
  lookAgain: () => {
    goesOn = true;
  },
});

async function timed(times: number, work: () => Promise<unknown>): Promise<number[]> {
  const samples: number[] = [];
  for (let at = 0; at < times; at += 1) {
    const beganMs = systemClock.steadyMs();
    await work();
    samples.push(systemClock.steadyMs() - beganMs);
  }
  return samples;
}

await timed(50, round);
const idle = await timed(rounds, round);
const pauses = await timed(20, () => settlePauses({ rows: jobPauseRows(db), log }));
await sql`update job set next_fire_at = date_trunc('minute', now())
  where id in (select id from job order by id limit ${due})`.execute(db);
const minute = await timed(1, async () => {
  do {
    goesOn = false;
    await round();
  } while (goesOn);
});
console.log(JSON.stringify({ idle, pauses, minute }));
