import { readFile } from "node:fs/promises";
import type { Platform } from "@svc/deploy/platform";
import pg from "pg";

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
  await client.query(`
    insert into work_item (kind, key, payload)
    select 'database-check', 'database-check/' || id, jsonb_build_object('databaseId', id)
    from database where status = 'ready'`);
  await client.query("select pg_notify('svc_work', 'database-check')");
}
