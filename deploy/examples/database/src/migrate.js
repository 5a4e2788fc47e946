import { readdir, readFile } from "node:fs/promises";
import pg from "pg";
import { databaseUrl } from "./connection.js";

// Runs once per deployment, after the build and before traffic. A non-zero exit keeps the old deployment. The table is
// that of `svc db migrate`, so `svc db migrate --dir migrations` finds applied what was applied here, and the other way round.
const directory = new URL("../migrations/", import.meta.url);

const client = new pg.Client({ connectionString: databaseUrl(), connectionTimeoutMillis: 10_000 });
// A connection that is lost fails the query that waits for it; nobody listening would end the process without its name.
client.on("error", () => {});

/** Applies one file unless it was, in one transaction with the row that says so. Returns whether it had to be. */
async function apply(name) {
  await client.query("begin");
  await client.query("lock table public._svc_migrations in share row exclusive mode");
  const { rowCount } = await client.query("select from public._svc_migrations where name = $1", [name]);
  if (rowCount === 0) {
    await client.query(await readFile(new URL(name, directory), "utf8"));
    await client.query("insert into public._svc_migrations (name) values ($1)", [name]);
  }
  await client.query("commit");
  return rowCount === 0;
}

let doing = "connecting";
try {
  await client.connect();
  doing = "preparing the table of migrations";
  await client.query(
    'create table if not exists public._svc_migrations (name text primary key, "appliedAt" timestamptz not null default now())',
  );
  const names = (await readdir(directory)).filter((name) => name.endsWith(".sql")).sort();
  for (const name of names) {
    doing = name;
    console.log(`release: ${name} ${(await apply(name)) ? "applied" : "was applied before"}`);
  }
  console.log(`release: the schema is that of ${names.length} migrations`);
} catch (error) {
  console.error(`release: ${doing} failed: ${error.message}`);
  process.exitCode = 1;
} finally {
  // What was begun and not committed the server takes back.
  await client.end();
}
