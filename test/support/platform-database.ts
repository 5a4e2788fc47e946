import { readFile } from "node:fs/promises";
import type { Platform } from "@svc/deploy/platform";
import pg from "pg";
import { waitFor } from "./wait-for.ts";

/** A connection to what control keeps, for what nobody can do or see from outside. */
export async function connectPlatformDatabase({ layout, ports }: Platform): Promise<pg.Client & AsyncDisposable> {
  const password = (await readFile(layout.secrets.databasePassword, "utf8")).trim();
  const client = new pg.Client({ host: "127.0.0.1", port: ports.postgres, user: "svc", database: "svc", password });
  await client.connect();
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() });
}

/** Has every branch looked at as if it were the first time in this night. */
export async function beginNight(client: pg.Client): Promise<void> {
  await client.query("delete from database_sample");
  await lookAtDatabases(client);
}

/**
 * The same, until every branch was looked at. Of one whose server does not answer in that moment, since another plan changes it,
 * control thinks again within ten minutes; here that is at once.
 */
export async function passNight(client: pg.Client): Promise<void> {
  await client.query("delete from database_sample");
  await waitFor("every database to be looked at", 120_000, async () => {
    await lookAtDatabases(client);
    const { rowCount } = await client.query(`
      select from database where status = 'ready'
        and not exists (select from database_sample where database_id = database.id)`);
    return rowCount === 0;
  });
}

/** Queues a look at every branch that has no sample, unless one is queued or under way. */
async function lookAtDatabases(client: pg.Client): Promise<void> {
  await client.query(`
    insert into work_item (kind, key, payload)
    select 'database-check', 'database-check/' || id, jsonb_build_object('databaseId', id)
    from database where status = 'ready'
      and not exists (select from database_sample where database_id = database.id)
      and not exists (
        select from work_item where key = 'database-check/' || database.id and state in ('queued', 'running'))`);
  await client.query("select pg_notify('svc_work', 'database-check')");
}
