import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "@svc/runtime/command";
import { ownProgram, spawnProgram } from "@svc/runtime/programs";
import { sleep } from "@svc/runtime/sleep";
import { systemClock } from "@svc/runtime/system";
import pg from "pg";
import { postgresBinaries, serverDirectory, serverRights, stopServer } from "../../../stores/db/testing.ts";
import { layData } from "./data.ts";
import { untilListening } from "./listening.ts";
import { adminUser, type TestServer } from "./server.ts";

/** A Postgres that asks everybody for a password, as in an instance, without durability. */
export async function startPostgres(): Promise<TestServer> {
  const dir = await serverDirectory("branch");
  const data = join(dir, "data");
  const password = await layData("postgres", dir, makeData);
  const settings = ["listen_addresses=", "shared_buffers=16MB", "fsync=off", "max_connections=60", "jit=off"].flatMap(
    (setting) => ["-c", setting],
  );
  const postgres = [program("postgres"), "-D", data, "-k", dir, ...settings];
  const child = spawnProgram(["setpriv", "--pdeathsig", "QUIT", ...serverRights, "--", ...postgres], {
    ...{ cwd: dir, env: {}, stdio: "ignore" },
  });
  const socket = join(dir, ".s.PGSQL.5432");
  await untilListening(child, socket);
  // It listens before it lets anybody in.
  await untilAdmits({ host: dir, user: adminUser, password, database: "postgres" });
  return {
    engine: "postgres",
    socket,
    admin: { user: adminUser, password, database: "postgres" },
    async kill() {
      // At once, its children with it.
      child.kill("SIGQUIT");
      await stopServer(child);
    },
    async [Symbol.asyncDispose]() {
      await stopServer(child);
      await rm(dir, { recursive: true, force: true });
    },
  };
}

const program = (name: string) => ownProgram(join(postgresBinaries(), name));

async function makeData(dir: string, password: string): Promise<void> {
  const passwordFile = join(dir, "new-password");
  await writeFile(passwordFile, password, { mode: 0o644 });
  const who = ["-U", adminUser, `--pwfile=${passwordFile}`, "-A", "scram-sha-256"];
  const how = ["--no-sync", "-E", "UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"];
  const initdb = [program("initdb"), "-D", join(dir, "data"), ...who, ...how];
  await run(["setpriv", ...serverRights, "--", ...initdb], { cwd: dir, env: {} });
}

async function untilAdmits(config: pg.ClientConfig): Promise<void> {
  for (;;) {
    const client = new pg.Client(config);
    try {
      await client.connect();
      return;
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || error.code !== "57P03") throw error;
      await sleep(systemClock, 25);
    } finally {
      await client.end();
    }
  }
}
