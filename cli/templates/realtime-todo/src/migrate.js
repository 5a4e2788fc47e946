import { readdir, readFile } from "node:fs/promises";
import { openDatabase } from "./database.js";

// Runs once for each deploy, before visitors come to it. A non-zero exit keeps the deployment of before. Two at once do no harm: each
// file is applied in one transaction with the row that says so, behind a lock. The table is that of `svc db migrate`.
const directory = new URL("../migrations/", import.meta.url);

// How long all of it may take, svc.yml says.
const sql = openDatabase({ max: 1, statementMs: 0 });
const makeTable = () => sql`create table if not exists public._svc_migrations
  (name text primary key, "appliedAt" timestamptz not null default now())`;
const apply = (name) =>
  sql.begin(async (tx) => {
    await tx`lock table public._svc_migrations in share row exclusive mode`;
    const known = await tx`select 1 from public._svc_migrations where name = ${name}`;
    if (known.length > 0) return "was applied before";
    await tx.unsafe(await readFile(new URL(name, directory), "utf8"));
    await tx`insert into public._svc_migrations (name) values (${name})`;
    return "applied";
  });

let doing = "preparing the table of migrations";
try {
  // Of two that make it at the same moment Postgres refuses one, "if not exists" or not. It is there then.
  await makeTable().catch(makeTable);
  for (const name of (await readdir(directory)).filter((each) => each.endsWith(".sql")).sort()) {
    doing = name;
    console.log(`migrate: ${name} ${await apply(name)}`);
  }
} catch (error) {
  console.error(`migrate: ${doing} failed: ${error.message}`);
  process.exitCode = 1;
} finally {
  await sql.end({ timeout: 5 });
}
