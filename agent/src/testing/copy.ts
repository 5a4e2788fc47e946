import { randomBytes, randomUUID } from "node:crypto";
import { chmod, rm } from "node:fs/promises";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { copyVolume, type DatabaseEngine, databaseNames, defaultDatabaseImages, keeperUser } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import Docker from "dockerode";
import { copyDoorOf, layCopyDoor, removeCopyDoor } from "../databases/copy-door.ts";
import type { DatabaseContainerSpec, KeeperContainerSpec } from "../engine/engine.ts";
import { findCopyStatus } from "../keepers/read-status.ts";
import type { CopyStatus } from "../keepers/status.ts";
import { createTestDatabase, nativeHash, scramVerifier, type TestDatabase, verifierFor } from "./database.ts";
import { waitFor } from "./wait.ts";

const docker = new Docker({ socketPath: "/var/run/docker.sock" });
/** Until there is a base, on a machine that does other things. */
const baseMs = 240_000;
/** By itself a keeper lets eight times as long pass between its looks, and tests would wait for nothing else. */
const lookEveryMs = 250;

/** Rows that a server has acknowledged: which, and by when at the latest. */
export interface Acknowledged {
  id: number;
  atMs: number;
}

/** A database with a tenant's table `w`, and a keeper that follows it through a relay at the copy's door. */
export type TestCopy = AsyncDisposable & {
  database: TestDatabase;
  copyId: string;
  /** Lets the keeper in, or does not any more. */
  openDoor(): Promise<void>;
  closeDoor(): Promise<void>;
  /** Connections of the keeper that have brought it more than this bring nothing any more; Infinity: none. */
  stallAfter(bytes: number): void;
  keep(changes?: Partial<KeeperContainerSpec>): Promise<void>;
  keeper: string;
  status(): Promise<CopyStatus | null>;
  /** The copy once it is as `isSo` says. */
  once(what: string, isSo: (status: CopyStatus) => boolean): Promise<CopyStatus>;
  /** As the administrator, in the tenant's database. */
  sql(statement: string): Promise<string>;
  /** Inserts rows one after the other until the server ends or `stop` is called. */
  write(): { acknowledged: Acknowledged[]; stop(): Promise<void> };
  /** Kills the server and destroys its data, as the loss of its machine does. */
  lose(): Promise<void>;
  /** What becomes of the server's container when the volume of the next generation is filled from the copy. */
  restore(until?: string | null, changes?: Partial<DatabaseContainerSpec>): Promise<void>;
};

export async function createTestCopy(engine: DatabaseEngine, settings: readonly string[] = []): Promise<TestCopy> {
  const database = createTestDatabase(engine);
  const copyId = randomUUID();
  const { database: name, role } = databaseNames(database.id);
  const keeper = `svc-test-keeper-${copyId}`;
  const password = randomBytes(16).toString("hex");
  const door = copyDoorOf(database.owner, copyId, engine);
  const as = { user: "svc_admin", password: database.password, database: name };
  let generation = 1;
  let relay: Server | null = null;
  const open = new Set<Socket>();
  let stallBytes = Number.POSITIVE_INFINITY;

  const spec = (changes: Partial<DatabaseContainerSpec> = {}): Partial<DatabaseContainerSpec> => ({
    generation,
    settings: [...database.spec().settings, ...settings],
    ...changes,
  });
  const admin = async (statement: string, at = { ...as, database: engine === "postgres" ? "postgres" : "mysql" }) => {
    const { code, text } = await database.sql(statement, at);
    if (code !== 0) throw new Error(`${statement}: ${text}`);
    return text.trim();
  };

  const status = async (): Promise<CopyStatus | null> => {
    const volume = (await database.engine.listDatabaseVolumes()).find((each) => each.name === copyVolume(copyId));
    return volume === undefined ? null : findCopyStatus(volume.path);
  };

  const closeDoor = async (): Promise<void> => {
    for (const socket of open) socket.destroy();
    const server = relay;
    relay = null;
    if (server !== null) await new Promise((resolve) => server.close(resolve));
  };
  const openDoor = async (): Promise<void> => {
    await rm(door.socket, { force: true });
    const server = createServer({ allowHalfOpen: true }, (visitor) => {
      const inner = createConnection({ path: database.path, allowHalfOpen: true });
      for (const [one, other] of [
        [visitor, inner],
        [inner, visitor],
      ] as const) {
        open.add(one);
        one.on("error", () => {});
        one.on("close", () => {
          open.delete(one);
          other.destroy();
        });
        one.pipe(other);
      }
      inner.on("data", () => {
        if (inner.bytesRead > stallBytes) inner.unpipe(visitor).pause();
      });
    });
    await new Promise<void>((resolve) => server.listen(door.socket, resolve));
    await chmod(door.socket, 0o660);
    relay = server;
  };

  const self: TestCopy = {
    ...{ database, copyId, keeper, status, openDoor, closeDoor },
    stallAfter(bytes) {
      stallBytes = bytes;
    },
    async keep(changes = {}) {
      await database.engine.removeContainer(keeper);
      await database.engine.createKeeperContainer({
        ...{ name: keeper, copyId, databaseId: database.id, engine, image: defaultDatabaseImages[engine], password },
        ...{ sizeMb: 4_096, baseEverySeconds: 86_400, keepSeconds: 7 * 86_400, lookEveryMs },
        labels: { "svc.placement": copyId },
        ...{ memoryMb: 256, cpuMillicores: 0, pidsLimit: 64 },
        reserved: { memoryMb: 16, cpuMillicores: 10 },
        ...changes,
      });
      await database.engine.startContainer(keeper);
    },
    async once(what, isSo) {
      try {
        return await waitFor(
          what,
          async () => {
            const now = await status();
            return now !== null && isSo(now) ? now : null;
          },
          baseMs,
        );
      } catch (cause) {
        const said = await database.engine.readLog(keeper, 40);
        throw new Error(
          `${what}: ${JSON.stringify(await status(), (_, v) => (typeof v === "bigint" ? `${v}` : v))} ${said}`,
          {
            cause,
          },
        );
      }
    },
    sql: (statement) => admin(statement, as),
    write() {
      const acknowledged: Acknowledged[] = [];
      let isOver = false;
      const done = writeRows(database, engine, name, () => isOver, acknowledged);
      return {
        acknowledged,
        async stop() {
          isOver = true;
          await done;
        },
      };
    },
    async lose() {
      await database.engine.killContainer(database.name, "SIGKILL");
      await database.ended();
      await database.engine.removeContainer(database.name);
      const volume = (await database.engine.listDatabaseVolumes()).find(({ of }) => of === "database");
      await database.engine.removeDatabaseVolume(volume?.name ?? "");
    },
    async restore(until = null, changes = {}) {
      generation += 1;
      const verifier = verifierFor(engine, database.password);
      await database.run(spec({ init: null, restore: { copyId, until, verifier }, ...changes }));
    },
    async [Symbol.asyncDispose]() {
      await closeDoor();
      await database[Symbol.asyncDispose]();
      await removeCopyDoor(database.owner, copyId);
    },
  };

  await database.run(spec());
  await database.serves();
  if (engine === "postgres") {
    await admin(`CREATE ROLE ${keeperUser} LOGIN REPLICATION PASSWORD '${scramVerifier(password)}'`);
    await admin(`CREATE ROLE ${role} LOGIN PASSWORD '${scramVerifier(password)}'`);
    await admin(`CREATE DATABASE ${name} OWNER ${role}`);
    await self.sql("CREATE TABLE w (id bigserial PRIMARY KEY, at timestamptz DEFAULT clock_timestamp())");
  } else {
    const rights = "SELECT, SHOW VIEW, TRIGGER, PROCESS, BINLOG MONITOR, REPLICATION SLAVE";
    await admin(`CREATE USER '${keeperUser}'@'%' IDENTIFIED BY PASSWORD '${nativeHash(password)}'`);
    await admin(`GRANT ${rights} ON *.* TO '${keeperUser}'@'%'`);
    await admin(`CREATE USER '${role}'@'%' IDENTIFIED BY PASSWORD '${nativeHash(password)}'`);
    await admin(`CREATE DATABASE ${name}`);
    await self.sql(
      "CREATE TABLE w (id bigint AUTO_INCREMENT PRIMARY KEY, at timestamp(6) DEFAULT current_timestamp(6))",
    );
  }
  await layCopyDoor(database.owner, copyId, await database.engine.describe(), { uid: 0, gid: 0 });
  await openDoor();
  return self;
}

/** Some two hundred rows a second, by one session, each told only once the server has said its id. */
async function writeRows(
  { name: container, password }: TestDatabase,
  engine: DatabaseEngine,
  database: string,
  isOver: () => boolean,
  acknowledged: Acknowledged[],
): Promise<void> {
  const [client, insert] =
    engine === "postgres"
      ? [
          [
            "/usr/lib/postgresql/17/bin/psql",
            "--no-psqlrc",
            "-qAt",
            "--host=/socket",
            "--username=svc_admin",
            database,
          ],
          "INSERT INTO w DEFAULT VALUES RETURNING id;\n",
        ]
      : [
          [
            ...["/usr/bin/mariadb", "--no-defaults", "--batch", "--skip-column-names", "--unbuffered"],
            ...["--socket=/socket/mysqld.sock", "--user=svc_admin", database],
          ],
          "INSERT INTO w VALUES (); SELECT last_insert_id();\n",
        ];
  const run = await docker.getContainer(container).exec({
    Cmd: [...client],
    Env: [`PGPASSWORD=${password}`, `MYSQL_PWD=${password}`],
    ...{ AttachStdin: true, AttachStdout: true, AttachStderr: false },
  });
  const stream = await run.start({ hijack: true, stdin: true });
  const ended = new Promise((resolve) => stream.once("close", resolve).once("end", resolve).once("error", resolve));
  let text = "";
  const next = (): void => {
    if (isOver()) stream.end();
    else stream.write(insert);
  };
  stream.on("data", (chunk: Buffer) => {
    // Frames of one output, of a few bytes each: their headers have no digit of a line's.
    text += chunk.toString("latin1");
    for (const [, id] of text.matchAll(/(\d+)\n/g)) {
      acknowledged.push({ id: Number(id), atMs: systemClock.now().getTime() });
      systemClock.after(4, next);
    }
    text = text.slice(text.lastIndexOf("\n") + 1);
  });
  next();
  await ended;
}
