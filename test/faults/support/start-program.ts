import { writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";

/**
 * What the jobs of a fault test run. `make` makes the table; `note <seconds> <failures>` writes down that this attempt at this run
 * was started, before anything else, and then works for a while and fails in its first attempts; `read <file>` writes down all that was noted.
 *
 * A start is noted by one statement that is never repeated: two rows are two starts. Who could not note it fails.
 */
const [task = "", first = "0", second = "0"] = process.argv.slice(2);
const { DATABASE_URL = "", DATABASE_AT, SVC_RUN_ID, SVC_RUN_ATTEMPT, HOSTNAME } = process.env;
const answerMs = 30_000;
const url = new URL(DATABASE_URL);

async function session(): Promise<pg.Client> {
  const client = new pg.Client({
    // Whoever has no names of containers is told the address.
    ...{ host: DATABASE_AT ?? url.hostname, port: Number(url.port), database: url.pathname.slice(1) },
    ...{ user: url.username, password: url.password, connectionTimeoutMillis: answerMs, query_timeout: answerMs },
  });
  client.on("error", () => {});
  await client.connect();
  return client;
}

const client = await session();
if (task === "make") {
  await client.query(
    "create table if not exists started (run text, attempt int, host text, at timestamptz default now())",
  );
} else if (task === "note") {
  await client.query("insert into started (run, attempt, host) values ($1, $2, $3)", [
    ...[SVC_RUN_ID, SVC_RUN_ATTEMPT, HOSTNAME],
  ]);
  await delay(Number(first) * 1000);
} else {
  const { rows } = await client.query("select run, attempt, host, at::text from started order by at");
  writeFileSync(first, JSON.stringify(rows));
}
client.connection.stream.destroy();
process.exit(task === "note" && Number(SVC_RUN_ATTEMPT) <= Number(second) ? 1 : 0);
