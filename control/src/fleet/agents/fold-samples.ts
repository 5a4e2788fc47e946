import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import { inTransaction } from "../../stores/db/transaction.ts";

/** Samples are taken every 15 s, and not at the same moments on two nodes. */
const moment = sql`interval '30 seconds'`;
/** What comes late is of the hour before, and a clock may be ahead into the next one. */
const again = sql`interval '2 hours'`;

const replaced = (table: string) => {
  const columns = ["moments", "samples", "cpu_sum", "cpu_max", "memory_sum", "memory_max"];
  const sets = columns.map((column) => sql`${sql.ref(column)} = ${sql.ref(`excluded.${column}`)}`);
  // What was folded from more samples knew more: some of these have gone with their tasks since.
  return sql`${sql.join(sets)} where excluded.samples >= ${sql.ref(`${table}.samples`)}`;
};

/**
 * Makes hours and days of samples: the last hours that there are anew, and all since. An hour is replaced by what its
 * samples say now, so this may be repeated and cut off anywhere; hours whose samples are gone stay.
 *
 * Containers of a project are added up within each half-minute: averages are of the sums, and so are peaks. Returns how
 * many hours were written.
 */
export const foldSamples = (db: Db): Promise<number> => inTransaction(db, fold);

/** Hours and their days together: the next round begins where the hours end. */
async function fold(db: Db): Promise<number> {
  const { rows } = await sql<{ since: Date | null; now: Date }>`
    select max(hour) - ${again} as since, date_trunc('hour', now(), 'UTC') as now from resource_hour`.execute(db);
  const [row] = rows;
  if (row === undefined) throw new Error("the database does not say what time it is");
  const { since, now } = row;
  let from = since ?? now;
  // Nothing was ever folded, and there may be samples of weeks.
  let written = since === null ? await eachStepBack(now, (start, end) => foldHours(db, start, end)) : 0;
  for (; from < now; from = new Date(from.getTime() + stepMs))
    written += await foldHours(db, from, new Date(from.getTime() + stepMs));
  written += await foldHours(db, from, null);
  await foldDays(db, since);
  return written;
}

/** Of samples that are folded or deleted by one statement: it may not take longer than any other, however many there are. */
const stepMs = 6 * 3_600_000;
const stepsMax = 500;
/** After so many steps without a sample all that is older is one step: there should be none. */
const emptyStepsMax = 10;

/** Works on all that is before `end`, the newest first. Returns how much that was. */
async function eachStepBack(end: Date, work: (from: Date | null, before: Date) => Promise<number>): Promise<number> {
  let before = end;
  let done = 0;
  let empty = 0;
  for (let step = 0; step < stepsMax && empty < emptyStepsMax; step += 1) {
    const from = new Date(before.getTime() - stepMs);
    const count = await work(from, before);
    done += count;
    empty = count === 0 ? empty + 1 : 0;
    before = from;
  }
  return done + (await work(null, before));
}

/** @param from null: all earlier ones; and `before` null: all later ones */
async function foldHours(db: Db, from: Date | null, before: Date | null): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    insert into resource_hour (project_id, channel, hour, moments, samples, cpu_sum, cpu_max, memory_sum, memory_max)
    select project_id, channel, date_trunc('hour', moment, 'UTC'), count(*), sum(samples), sum(cpu), max(cpu_max),
      sum(memory), max(memory_max)
    from (
      select project_id, coalesce(channel, 'all') as channel, moment, sum(samples) as samples, sum(cpu) as cpu,
        sum(cpu_max) as cpu_max, sum(memory) as memory, sum(memory_max) as memory_max
      from (
        select task.project_id, task.channel, date_bin(${moment}, sample.at, 'epoch') as moment, count(*) as samples,
          avg(sample.cpu_percent) as cpu, max(sample.cpu_percent::float8) as cpu_max,
          avg(sample.memory_bytes) as memory, max(sample.memory_bytes) as memory_max
        from resource_sample sample join task on task.id = sample.task_id and task.kind = 'serve'
          join project on project.id = task.project_id
        where ${from === null ? sql`true` : sql`sample.at >= ${from}`} and ${before === null ? sql`true` : sql`sample.at < ${before}`}
        group by task.id, 3
      ) as container
      group by grouping sets ((project_id, channel, moment), (project_id, moment))
    ) as together
    group by 1, 2, 3 order by 1, 2, 3
    on conflict (project_id, channel, hour) do update set ${replaced("resource_hour")}`.execute(db);
  return Number(numAffectedRows);
}

/** @param since null: all */
async function foldDays(db: Db, since: Date | null): Promise<void> {
  await sql`
    insert into resource_day (project_id, channel, day, moments, samples, cpu_sum, cpu_max, memory_sum, memory_max)
    select project_id, channel, (hour at time zone 'UTC')::date, sum(moments), sum(samples), sum(cpu_sum),
      max(cpu_max), sum(memory_sum), max(memory_max)
    from resource_hour where ${since === null ? sql`true` : sql`hour >= date_trunc('day', ${since}::timestamptz, 'UTC')`}
    group by 1, 2, 3 order by 1, 2, 3
    on conflict (project_id, channel, day) do update set ${replaced("resource_day")}`.execute(db);
}

/** Deletes samples of whole hours that are over since `hours`: an hour has all of its samples or none. */
export async function expireSamples(db: Db, hours: number): Promise<number> {
  const { rows } = await sql<{ end: Date }>`
    select date_trunc('hour', now(), 'UTC') - ${hours} * interval '1 hour' as end`.execute(db);
  const [row] = rows;
  if (row === undefined) throw new Error("the database does not say what time it is");
  return eachStepBack(row.end, async (from, before) => {
    const { numAffectedRows = 0n } = await sql`
      delete from resource_sample where at < ${before} ${from === null ? sql`` : sql`and at >= ${from}`}`.execute(db);
    return Number(numAffectedRows);
  });
}

/** Deletes hours of more than `days` ago; days stay. */
export async function expireResourceHours(db: Db, days: number): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    delete from resource_hour where hour < now() - ${days} * interval '1 day'`.execute(db);
  return Number(numAffectedRows);
}
