import { once } from "node:events";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { run } from "@svc/runtime/command";
import { getProgram, spawnProgram } from "@svc/runtime/programs";

/** A database of its own on a real server, and its owner, who has a password and no other right. */
export interface OwnedDatabase extends AsyncDisposable {
  socketPath: string;
  /** Its address as the platform gives it: nobody outside of it knows the host. */
  url: string;
  /** What a query as the superuser prints. */
  ask(sql: string): Promise<string>;
}

let made = 0;

/** On the Postgres of the test run. */
export async function postgresDatabase(): Promise<OwnedDatabase> {
  const directory = process.env["SVC_TEST_POSTGRES"];
  if (directory === undefined) throw new Error("No Postgres was started for this run");
  made += 1;
  const name = `cli_${process.pid}_${made}`;
  const psql = async (database: string, sql: string) => {
    const args = ["-h", directory, "-U", "postgres", "-d", database, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1"];
    return (await run(["psql", ...args, "-c", sql])).stdout.trim();
  };
  await psql("postgres", `create role ${name} login password 'clear-password'`);
  await psql("postgres", `create database ${name} owner ${name}`);
  return {
    socketPath: join(directory, ".s.PGSQL.5432"),
    url: `postgres://${name}:clear-password@db.svc.internal:5432/${name}`,
    ask: (sql) => psql(name, sql),
    async [Symbol.asyncDispose]() {
      await psql("postgres", `drop database ${name} with (force)`);
      await psql("postgres", `drop role ${name}`);
    },
  };
}

/**
 * What `work` gives that begins while somebody else has run `statement` on the same Postgres and not committed it, which is done as
 * soon as as many sessions as `waiting` wait for that.
 */
export async function besideUncommitted<T>(
  { ask, socketPath, url }: OwnedDatabase,
  statement: string,
  work: () => Promise<T>,
  waiting = 1,
): Promise<T> {
  const { pathname, username } = new URL(url);
  const other = spawnProgram(
    ["psql", "-h", dirname(socketPath), "-U", "postgres", "-d", pathname.slice(1), "-X", "-q", "-v", "ON_ERROR_STOP=1"],
    { stdio: ["pipe", "pipe", "inherit"] },
  );
  const ended = once(other, "exit");
  try {
    other.stdin.write(`begin;\nset local role ${username};\n${statement};\nselect 'done';\n`);
    await once(other.stdout, "data");
    const result = work();
    await untilAnswers(async () => {
      const found = await ask(
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
      );
      if (Number(found) < waiting) throw new Error(`Only ${found} wait for what was not committed`);
    });
    other.stdin.end("commit;\n");
    return await result;
  } finally {
    other.kill("SIGKILL");
    await ended;
  }
}

/** The same on MariaDB, where somebody else has locked `table`. */
export async function besideLocked<T>(
  { ask, socketPath, url }: OwnedDatabase,
  table: string,
  work: () => Promise<T>,
  waiting: number,
): Promise<T> {
  const other = spawnProgram(
    [
      "mariadb",
      "--no-defaults",
      `--socket=${socketPath}`,
      "--user=root",
      "--batch",
      "--unbuffered",
      new URL(url).pathname.slice(1),
    ],
    { stdio: ["pipe", "pipe", "inherit"] },
  );
  const ended = once(other, "exit");
  try {
    other.stdin.write(`lock tables ${table} write;\nselect 'done';\n`);
    await once(other.stdout, "data");
    const result = work();
    await untilAnswers(async () => {
      const found = await ask(
        "select count(*) from information_schema.processlist where state like 'Waiting for table%' or state = 'User lock'",
      );
      if (Number(found) < waiting) throw new Error(`Only ${found} wait for the table`);
    });
    other.stdin.end();
    return await result;
  } finally {
    other.kill("SIGKILL");
    await ended;
  }
}

/** On a MariaDB of its own. */
export async function mariadbDatabase(): Promise<OwnedDatabase> {
  const directory = await mkdtemp(join(tmpdir(), "svc-mariadb-"));
  await chmod(directory, 0o755);
  const data = join(directory, "data");
  const socketPath = join(directory, "mysqld.sock");
  const asRoot = process.getuid?.() === 0 ? ["--user=root"] : [];
  await run(
    [
      "mariadb-install-db",
      "--no-defaults",
      `--datadir=${data}`,
      "--auth-root-authentication-method=normal",
      "--skip-test-db",
      ...asRoot,
    ],
    { timeoutMs: 120_000 },
  );
  const server = spawnProgram(
    [
      getProgram("mariadbd"),
      ...["--no-defaults", `--datadir=${data}`, `--socket=${socketPath}`, "--skip-networking", ...asRoot],
      ...[
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-buffer-pool-size=32M",
        `--pid-file=${join(directory, "pid")}`,
      ],
    ],
    { cwd: directory, stdio: "ignore" },
  );
  const sql = async (text: string, ...args: string[]) =>
    (
      await run([
        "mariadb",
        "--no-defaults",
        `--socket=${socketPath}`,
        "--user=root",
        "--batch",
        "--skip-column-names",
        ...args,
        "-e",
        text,
      ])
    ).stdout.trim();
  const stop = async () => {
    const ended = new Promise((resolve) => server.once("exit", resolve));
    if (server.exitCode === null && server.signalCode === null && server.kill("SIGTERM")) await ended;
    await rm(directory, { recursive: true, force: true });
  };
  try {
    await untilAnswers(() => sql("select 1"));
    await sql(
      "create database d_1; create user 'r_1'@'localhost' identified by 'clear-password'; grant all on `d\\_1`.* to 'r_1'@'localhost'",
    );
  } catch (thrown) {
    await stop();
    throw thrown;
  }
  return {
    socketPath,
    url: "mysql://r_1:clear-password@db.svc.internal:3306/d_1",
    ask: (text) => sql(text, "d_1"),
    [Symbol.asyncDispose]: stop,
  };
}

async function untilAnswers(ask: () => Promise<unknown>): Promise<void> {
  const until = Date.now() + 60_000;
  for (;;) {
    try {
      await ask();
      return;
    } catch (thrown) {
      if (Date.now() > until) throw thrown;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}
