import { createHash, createHmac, pbkdf2Sync, randomBytes, randomUUID } from "node:crypto";
import { PassThrough } from "node:stream";
import { type DatabaseEngine, defaultDatabaseImages } from "@svc/proto";
import { systemClock, systemRandom } from "@svc/runtime/system";
import Docker from "dockerode";
import { probeDatabase } from "../databases/probe.ts";
import { serverSettings } from "../databases/settings.ts";
import { laySocketDir, removeSocketDir, socketPathOf } from "../databases/socket-dir.ts";
import { createDockerEngine } from "../engine/docker.ts";
import type { Container, DatabaseContainerSpec, Engine, Owner } from "../engine/engine.ts";
import { waitFor } from "./wait.ts";

const socketPath = "/var/run/docker.sock";
const docker = new Docker({ socketPath });
const probeMs = 2_000;

/** What Postgres keeps of a password. */
export function scramVerifier(password: string): string {
  const salt = randomBytes(16);
  const key = pbkdf2Sync(password, salt, 4096, 32, "sha256");
  const sign = (text: string) => createHmac("sha256", key).update(text).digest();
  const stored = createHash("sha256").update(sign("Client Key")).digest("base64");
  return `SCRAM-SHA-256$4096:${salt.toString("base64")}$${stored}:${sign("Server Key").toString("base64")}`;
}

/** What MariaDB keeps of one. */
export function nativeHash(password: string): string {
  const sha1 = (data: string | Buffer) => createHash("sha1").update(data).digest();
  return `*${sha1(sha1(password)).toString("hex").toUpperCase()}`;
}

export const verifierFor = (engine: DatabaseEngine, password: string): string =>
  engine === "postgres" ? scramVerifier(password) : nativeHash(password);

/** How a program of a container ended, and everything that it said. */
export interface Said {
  code: number;
  text: string;
}

/** Runs a program in a container, to its end. */
export async function execIn(container: string, command: readonly string[], env: readonly string[]): Promise<Said> {
  const run = await docker.getContainer(container).exec({
    Cmd: [...command],
    Env: [...env],
    AttachStdout: true,
    AttachStderr: true,
  });
  const stream = await run.start({});
  const parts: Buffer[] = [];
  const both = new PassThrough().on("data", (part: Buffer) => parts.push(part));
  docker.modem.demuxStream(stream, both, both);
  await new Promise((resolve) => stream.once("close", resolve).once("end", resolve));
  const { ExitCode } = await run.inspect();
  return { code: ExitCode ?? -1, text: Buffer.concat(parts).toString("utf8") };
}

/** A database server of its own on this machine's engine, and what a test does with it. */
export type TestDatabase = AsyncDisposable & {
  id: string;
  owner: Owner;
  engine: Engine;
  name: string;
  /** Where its server listens. */
  path: string;
  password: string;
  spec(changes?: Partial<DatabaseContainerSpec>): DatabaseContainerSpec;
  /** Removes the container that was there, and makes and starts another one. */
  run(changes?: Partial<DatabaseContainerSpec>): Promise<void>;
  /** Once it takes sessions. */
  serves(): Promise<unknown>;
  /** The container once it has ended. */
  ended(name?: string): Promise<Container>;
  /** Runs a program of the image in the container. */
  exec(command: readonly string[], env?: readonly string[]): Promise<Said>;
  /** One or several statements with the image's own client, through the server's socket. */
  sql(statement: string, as?: { user: string; password: string; database: string }): Promise<Said>;
  /** What its log says. */
  log(): Promise<string>;
};

/** @param as the same one on a machine that is another node by now; absent: a new one */
export function createTestDatabase(
  kind: DatabaseEngine,
  as?: Pick<TestDatabase, "id" | "owner" | "password"> & { formerNodeIds: readonly string[] },
): TestDatabase {
  const id = as?.id ?? randomUUID();
  const owner = as?.owner ?? { clusterId: `test-${randomBytes(4).toString("hex")}`, nodeId: "n1" };
  const formerNodeIds = as?.formerNodeIds ?? [];
  const engine = createDockerEngine({ socketPath, owner, formerNodeIds, clock: systemClock, random: systemRandom });
  const name = `svc-test-db-${id}`;
  const path = socketPathOf(owner, id, kind);
  const password = as?.password ?? randomBytes(16).toString("hex");
  const verifier = verifierFor(kind, password);
  const sizes = { memoryMb: 192, sizeMb: 256, connections: 40 };
  const admin = { user: "svc_admin", password, database: kind === "postgres" ? "postgres" : "mysql" };

  const spec: TestDatabase["spec"] = ({ readOnly = false, ...changes } = {}) => ({
    name,
    databaseId: id,
    engine: kind,
    image: defaultDatabaseImages[kind],
    settings: serverSettings(kind, { ...sizes, readOnly }),
    init: { verifier },
    readOnly,
    generation: 1,
    restore: null,
    labels: { "svc.placement": id },
    memoryMb: sizes.memoryMb,
    cpuMillicores: 0,
    pidsLimit: 200,
    reserved: { memoryMb: 64, cpuMillicores: 100 },
    ...changes,
  });

  const exec: TestDatabase["exec"] = (command, env = []) => execIn(name, command, env);

  return {
    id,
    owner,
    engine,
    name,
    path,
    password,
    spec,
    exec,
    async run(changes) {
      await engine.removeContainer(name);
      await laySocketDir(owner, id, await engine.describe(), 0);
      await engine.createDatabaseContainer(spec(changes));
      await engine.startContainer(name);
    },
    serves: () =>
      waitFor("the server to take sessions", async () => {
        const container = await engine.findContainer(name);
        if (container?.state === "exited") throw new Error(`it ended: ${await engine.readLog(name, 30)}`);
        const at = { clock: systemClock, engine: kind, socketPath: path };
        return probeDatabase(at, probeMs, AbortSignal.timeout(probeMs));
      }),
    ended: (which = name) =>
      waitFor("the end of the container", async () => {
        const container = await engine.findContainer(which);
        return container?.state === "exited" ? container : null;
      }),
    sql: (statement, { user, password: word, database } = admin) =>
      kind === "postgres"
        ? exec(
            [
              ...["/usr/lib/postgresql/17/bin/psql", "--no-psqlrc", "--tuples-only", "--no-align"],
              ...["--set=ON_ERROR_STOP=1", `--host=/socket`, `--username=${user}`, `--command=${statement}`, database],
            ],
            [`PGPASSWORD=${word}`],
          )
        : exec(
            [
              ...[
                "/usr/bin/mariadb",
                "--no-defaults",
                "--batch",
                "--skip-column-names",
                "--socket=/socket/mysqld.sock",
              ],
              ...[`--user=${user}`, `--execute=${statement}`, database],
            ],
            [`MYSQL_PWD=${word}`],
          ),
    log: () => engine.readLog(name, 100),
    async [Symbol.asyncDispose]() {
      for (const container of await engine.listContainers()) await engine.removeContainer(container.name);
      for (const volume of await engine.listDatabaseVolumes()) await engine.removeDatabaseVolume(volume.name);
      await removeSocketDir(owner, id);
    },
  };
}
