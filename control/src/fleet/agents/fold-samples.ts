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
  const { rows } = await sql<{ since: Date | null }>`
    select max(hour) - ${again} as since from resource_hour`.execute(db);
  const since = rows[0]?.since ?? null;
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
        where ${since === null ? sql`true` : sql`sample.at >= ${since}`}
        group by task.id, 3
      ) as container
      group by grouping sets ((project_id, channel, moment), (project_id, moment))
    ) as together
    group by 1, 2, 3 order by 1, 2, 3
    on conflict (project_id, channel, hour) do update set ${replaced("resource_hour")}`.execute(db);
  await sql`
    insert into resource_day (project_id, channel, day, moments, samples, cpu_sum, cpu_max, memory_sum, memory_max)
    select project_id, channel, (hour at time zone 'UTC')::date, sum(moments), sum(samples), sum(cpu_sum),
      max(cpu_max), sum(memory_sum), max(memory_max)
    from resource_hour where ${since === null ? sql`true` : sql`hour >= date_trunc('day', ${since}::timestamptz, 'UTC')`}
    group by 1, 2, 3 order by 1, 2, 3
    on conflict (project_id, channel, day) do update set ${replaced("resource_day")}`.execute(db);
  return Number(numAffectedRows);
}

/** Deletes samples of whole hours that are over since `hours`: an hour has all of its samples or none. */
export async function expireSamples(db: Db, hours: number): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    delete from resource_sample
    where at < date_trunc('hour', now(), 'UTC') - ${hours} * interval '1 hour'`.execute(db);
  return Number(numAffectedRows);
}

/** Deletes hours of more than `days` ago; days stay. */
export async function expireResourceHours(db: Db, days: number): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    delete from resource_hour where hour < now() - ${days} * interval '1 day'`.execute(db);
  return Number(numAffectedRows);
}
