import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { gunzipSync } from "node:zlib";
import { createTestDatabase, type TestDatabase } from "@svc/agent/testing/database";
import type { DatabaseEngine } from "@svc/proto";
import { run } from "@svc/runtime/command";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../cluster.ts";
import { waitFor } from "../support/wait-for.ts";
import { mariadbFacts, mariadbFixtures } from "./database-dumps/mariadb.ts";
import { postgresFacts, postgresFixtures } from "./database-dumps/postgres.ts";

/** A backup's file, given to a server that knows nothing of the platform: it has all that was in the database. */

let cluster: Cluster;
let dir: string;
beforeAll(async () => {
  cluster = await startCluster({ agents: 1 });
  dir = await mkdtemp(join(tmpdir(), "svc-database-dumps-"));
});
afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

const rowsReply = z.looseObject({ rows: z.array(z.array(z.unknown())) });
const backupReply = z.looseObject({ backupId: z.string(), status: z.literal("complete") });

async function newProject(engine: DatabaseEngine): Promise<string> {
  const { body } = await cluster.api("POST", "/projects", { name: `Dumps of ${engine}`, type: "ssr" });
  const { id } = z.looseObject({ id: z.string() }).parse(body["project"]);
  await cluster.api("POST", `/projects/${id}/database`, { engine });
  await waitFor("the branch to be ready", 120_000, async () => {
    const { body: branch } = await cluster.api("GET", `/projects/${id}/database`);
    return branch["status"] === "ready";
  });
  return id;
}

/** Statements for a server outside, as its administrator, by the engine's own client: a text, or those of a file. */
async function outside(
  engine: DatabaseEngine,
  { path, password }: TestDatabase,
  database: string,
  statements: { sql: string } | { file: string },
): Promise<string> {
  const { PATH } = process.env;
  if (engine === "postgres") {
    const what = "sql" in statements ? ["-c", statements.sql] : ["-f", statements.file];
    const how = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", dirname(path), "-U", "svc_admin"];
    const env = { PATH, PGPASSWORD: password, PGCLIENTENCODING: "UTF8" };
    return (await run(["psql", ...how, ...what, database], { env })).stdout.replace(/\n$/, "");
  }
  const what = "sql" in statements ? statements.sql : `source ${statements.file}`;
  const how = ["--no-defaults", "-N", "-B", "-r", "-S", path, "-u", "svc_admin", "--default-character-set=utf8mb4"];
  const env = { PATH, MYSQL_PWD: password };
  return (await run(["mariadb", ...how, "-e", what, database], { env })).stdout.replace(/\n$/, "");
}

const dialects = {
  postgres: {
    fixtures: postgresFixtures,
    facts: postgresFacts,
    admin: "postgres",
    create: (name: string) => `create database ${name} template template0`,
    /** Of a dump, what another server takes of it. */
    plain: (dump: string) => dump,
    told: (text: string) => text,
  },
  mariadb: {
    fixtures: mariadbFixtures,
    facts: mariadbFacts,
    admin: "mysql",
    create: (name: string) => `create database ${name} character set utf8mb4`,
    // Views name the role that made them, which another server has not.
    plain: (dump: string) => dump.replaceAll(/^\/\*!50013 DEFINER=.*\n/gm, ""),
    /** Checksums name the database as well, which has another name outside. */
    told: (text: string) => text.replaceAll(/^(?:d_[0-9a-f]+|outside_[a-z]+)\.(?=.*\t\d+$)/gm, ""),
  },
};

describe.each(["postgres", "mariadb"] as const)("a backup of %s", (engine) => {
  const { fixtures, facts, admin, create, plain, told } = dialects[engine];
  let project: string;
  let server: TestDatabase;
  beforeAll(async () => {
    project = await newProject(engine);
    server = createTestDatabase(engine);
    await server.run();
    await server.serves();
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  async function svc(...args: string[]): Promise<Record<string, unknown>> {
    const result = await cluster.cli([...args, "--project", project, "--json"], { cwd: dir });
    if (result.exitCode !== 0) throw new Error(`svc ${args.join(" ")}: ${result.stdout}${result.stderr}`);
    return result.json();
  }
  async function inside(sql: string): Promise<string> {
    const { status, body } = await cluster.api("POST", `/projects/${project}/database/query`, { sql });
    if (status !== 200) throw new Error(`${JSON.stringify(body)} to ${sql}`);
    const { rows } = rowsReply.parse(body);
    return rows.map((row) => row.map((value) => (value === null ? "NULL" : String(value))).join("\t")).join("\n");
  }

  test.each(Object.entries(fixtures))("has all of %s", async (name, { sql, also = [] }) => {
    await inside(sql);
    const looks = [...facts, ...also];
    const before: string[] = [];
    for (const look of looks) before.push(told(await inside(look)));
    const { backupId } = backupReply.parse(await svc("db", "backup", "create"));
    const file = join(dir, `${name}.sql.gz`);
    await svc("db", "backup", "download", backupId, "--output", file);
    const target = `outside_${name}`;
    const dump = join(dir, `${name}.sql`);
    // Bytes, whatever they mean: columns may hold what is no text.
    await writeFile(dump, plain(gunzipSync(await readFile(file)).toString("latin1")), "latin1");
    await outside(engine, server, admin, { sql: create(target) });
    await outside(engine, server, target, { file: dump });
    const after: string[] = [];
    for (const look of looks) after.push(told(await outside(engine, server, target, { sql: look })));
    expect(after).toEqual(before);
    expect(before.join("\n")).toContain(name);
  });
});
