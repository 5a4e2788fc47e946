import { randomBytes, randomUUID } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { type DatabaseEngine, databaseEngines, databaseNames } from "@svc/proto";
import { createRegistry, type Registry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import Docker from "dockerode";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase, verifierFor } from "../testing/database.ts";
import { startRegistry, type TestRegistry } from "../testing/registry.ts";
import { waitFor } from "../testing/wait.ts";
import { type Backups, createBackups } from "./backups.ts";
import { createPushDump } from "./push.ts";
import { schemas, sumsOf } from "./testing/schemas.ts";

const docker = new Docker({ socketPath: "/var/run/docker.sock" });
const mebibyte = 1024 * 1024;
const never = new AbortController().signal;
let registry: TestRegistry;
let client: Registry;
beforeAll(async () => {
  registry = await startRegistry();
  client = createRegistry(systemClock, { url: `http://${registry.host}` });
});
afterAll(async () => {
  await client?.close();
  await registry?.[Symbol.asyncDispose]();
});

/** A server with a tenant's database, as control makes one. */
async function aBranch(kind: DatabaseEngine) {
  const database = createTestDatabase(kind);
  const { database: name, role } = databaseNames(database.id);
  const password = randomBytes(16).toString("hex");
  const verifier = verifierFor(kind, password);
  await database.run();
  await database.serves();
  const make =
    kind === "postgres"
      ? [`CREATE ROLE ${role} LOGIN PASSWORD '${verifier}'`, `CREATE DATABASE ${name} OWNER ${role}`]
      : [
          `CREATE DATABASE ${name}`,
          `CREATE USER '${role}'@'%' IDENTIFIED BY PASSWORD '${verifier}'`,
          `GRANT ALL PRIVILEGES ON \`${name.replaceAll("_", "\\_")}\`.* TO '${role}'@'%'`,
        ];
  for (const statement of make) expect(await database.sql(statement)).toMatchObject({ code: 0 });
  const tenant = { user: role, password, database: name };
  const sql = async (statement: string): Promise<string> => {
    const { code, text } = await database.sql(statement, tenant);
    expect({ code, text }).toMatchObject({ code: 0 });
    return text;
  };
  return { database, tenant, sql };
}
type Branch = Awaited<ReturnType<typeof aBranch>>;

const repository = `svc/${randomUUID()}/backup`;
const backupsOf = ({ database }: Branch): Backups =>
  createBackups({
    clock: systemClock,
    engine: database.engine,
    push: createPushDump({
      clock: systemClock,
      registry: {
        find: () => ({ $typeName: "svc.node.v1.RegistryAccess", host: registry.host, insecure: true }) as never,
        token: async () => ({ token: "none", expiresInSeconds: 900 }),
      },
    }),
  });

function aRequest(kind: DatabaseEngine, { database, tenant }: Branch, changes: object = {}) {
  return {
    placementId: randomUUID(),
    labels: {},
    databaseId: database.id,
    engine: kind,
    image: database.spec().image,
    password: tenant.password,
    targetRepository: repository,
    timeoutSeconds: 120,
    maxDumpBytes: 64 * mebibyte,
    limits: { memoryMb: 256, cpuMillicores: 1_000, pidsLimit: 32 },
    reserved: { memoryMb: 64, cpuMillicores: 100 },
    onStart() {},
    ...changes,
  };
}
type Request = ReturnType<typeof aRequest>;

const containerOf = ({ placementId }: Pick<Request, "placementId">) => `svc-b-${placementId}`;
/** What the registry has of it; null: nothing that anybody would find. */
const found = ({ placementId }: Request) => client.findManifest(repository, placementId);

async function pulled(digest: string): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of await client.pullArtifact(repository, digest, { maxSizeBytes: 64 * mebibyte })) {
    parts.push(part as Buffer);
  }
  return Buffer.concat(parts);
}

describe.each(databaseEngines)("a database on %s", (kind) => {
  const opened: TestDatabase[] = [];
  const open = async (): Promise<Branch> => {
    const branch = await aBranch(kind);
    opened.push(branch.database);
    return branch;
  };
  afterEach(async () => {
    for (const database of opened.splice(0)) await database[Symbol.asyncDispose]();
  });

  test("is in its backup, from which another one is made that is equal", async () => {
    const [source, target] = [await open(), await open()];
    for (const statement of schemas[kind]) await source.sql(statement);
    const request = aRequest(kind, source);
    const { digest, sizeBytes, dumpBytes } = await backupsOf(source).make(request, never);
    const file = await pulled(digest);
    expect(file.length).toBe(sizeBytes);
    const sql = gunzipSync(file);
    expect(sql.length).toBe(dumpBytes);
    expect(sql.toString("utf8")).not.toContain(source.tenant.password);
    expect((await found(request))?.digest).toBe(digest);
    expect(await source.database.engine.findContainer(containerOf(request))).toBeNull();

    await restore(kind, target, kind === "mariadb" ? withoutDefiner(sql) : sql);
    expect(await sumsOf(kind, target.sql)).toEqual(await sumsOf(kind, source.sql));
  });

  test("that is empty has a backup, too, and two at once are two backups", async () => {
    const branch = await open();
    const backups = backupsOf(branch);
    const requests = [aRequest(kind, branch), aRequest(kind, branch)];
    const made = await Promise.all(requests.map((request) => backups.make(request, never)));
    for (const { digest, dumpBytes } of made) {
      const sql = gunzipSync(await pulled(digest));
      expect(sql.length).toBe(dumpBytes);
      expect(sql.toString("utf8")).toMatch(/Dump completed|PostgreSQL database dump complete/);
    }
  });

  test("is not backed up with a password that is not its own: there is a reason, and nothing is pushed", async () => {
    const branch = await open();
    const request = aRequest(kind, branch, { password: "of-somebody-else" });
    await expect(backupsOf(branch).make(request, never)).rejects.toMatchObject({
      code: "BACKUP_FAILED",
      message: expect.stringMatching(/password authentication failed|Access denied/),
    });
    expect(await found(request)).toBeNull();
    expect(await branch.database.engine.findContainer(containerOf(request))).toBeNull();
  });

  test("that is larger than is allowed has no backup", async () => {
    const branch = await open();
    for (const statement of schemas[kind]) await branch.sql(statement);
    const request = aRequest(kind, branch, { maxDumpBytes: 1_000 });
    await expect(backupsOf(branch).make(request, never)).rejects.toMatchObject({ code: "BACKUP_TOO_LARGE" });
    expect(await found(request)).toBeNull();
  });

  test.each(["program", "server"] as const)("whose %s is killed meanwhile has no backup", async (which) => {
    const branch = await open();
    await branch.sql(manyRows[kind]);
    const request = aRequest(kind, branch);
    const making = backupsOf(branch).make(request, never);
    making.catch(() => {});
    await waitFor("the program to run", async () => {
      const container = await branch.database.engine.findContainer(containerOf(request));
      return container?.state === "running";
    });
    const name = which === "program" ? containerOf(request) : branch.database.name;
    await docker.getContainer(name).kill({ signal: "SIGKILL" });
    await expect(making).rejects.toMatchObject({ code: "BACKUP_FAILED" });
    expect(await found(request)).toBeNull();
  });

  test("is read anew by whoever comes after one that was killed, and leaves no program behind", async () => {
    const branch = await open();
    const request = aRequest(kind, branch);
    // What an agent that was killed leaves: its program, with nobody who reads.
    const { engine } = branch.database;
    await engine.startDump({
      ...{ name: containerOf(request), databaseId: branch.database.id, image: request.image },
      ...{ command: ["/bin/sleep", "1000"], env: {}, labels: {}, ...request.limits, reserved: request.reserved },
    });
    const { digest } = await backupsOf(branch).make(request, never);
    expect(gunzipSync(await pulled(digest)).toString("utf8")).toMatch(/dump complete/i);
    expect(await engine.findContainer(containerOf(request))).toBeNull();
  });

  test("whose backup is called off has none, and no program any more", async () => {
    const branch = await open();
    await branch.sql(manyRows[kind]);
    const request = aRequest(kind, branch);
    const abort = new AbortController();
    const making = backupsOf(branch).make(request, abort.signal);
    making.catch(() => {});
    const container = () => branch.database.engine.findContainer(containerOf(request));
    await waitFor("the program to run", async () => (await container())?.state === "running");
    abort.abort();
    await expect(making).rejects.toThrow();
    expect(await container()).toBeNull();
    expect(await found(request)).toBeNull();
  });

  test("is read by a program that has its server's socket, and nothing else", async () => {
    const branch = await open();
    const request = aRequest(kind, branch);
    const { engine } = branch.database;
    const script = [
      '[ -e /data/lock ] || echo "no data"',
      '( : >/x ) 2>/dev/null || echo "no file in the root"',
      '( : >/socket/x ) 2>/dev/null || echo "no file beside the socket"',
      'while read -r line; do echo "$line"; done </proc/net/dev',
    ].join("; ");
    const dump = await engine.startDump({
      ...{ name: containerOf(request), databaseId: branch.database.id, image: request.image },
      ...{ command: ["/bin/sh", "-c", script], env: {}, labels: {}, ...request.limits, reserved: request.reserved },
    });
    let text = "";
    for await (const part of dump.output) text += part;
    expect(await dump.end()).toMatchObject({ exitCode: 0 });
    await engine.removeContainer(containerOf(request));
    expect(text).toMatch(/^no data\nno file in the root\nno file beside the socket\n/);
    expect(text).not.toMatch(/^ *(?!lo)\w+: /m);
  });
});

/** Enough that reading it takes a while. */
const manyRows = {
  postgres: "CREATE TABLE many AS SELECT g, repeat(md5(g::text), 20) t FROM generate_series(1, 200000) g",
  mariadb: "CREATE TABLE many AS SELECT seq g, repeat(md5(seq), 20) t FROM seq_1_to_200000",
} as const;

/** The role that made a view is not there where the view is restored. No line of data begins so. */
const withoutDefiner = (sql: Buffer): Buffer =>
  Buffer.from(sql.toString("latin1").replaceAll(/^\/\*!50013 DEFINER=.*$/gm, ""), "latin1");

/** With the image's own client, as the tenant of another database. */
async function restore(kind: DatabaseEngine, { database, tenant }: Branch, sql: Buffer): Promise<void> {
  const container = docker.getContainer(database.name);
  const client =
    kind === "postgres"
      ? [
          ...["/usr/lib/postgresql/17/bin/psql", "--no-psqlrc", "--quiet", "--single-transaction"],
          ...["--set=ON_ERROR_STOP=1", "--host=/socket", `--username=${tenant.user}`, tenant.database],
        ]
      : ["/usr/bin/mariadb", "--no-defaults", "--socket=/socket/mysqld.sock", `--user=${tenant.user}`, tenant.database];
  const run = await container.exec({
    Cmd: client,
    Env: [`PGPASSWORD=${tenant.password}`, `MYSQL_PWD=${tenant.password}`],
    ...{ AttachStdin: true, AttachStdout: true, AttachStderr: true },
  });
  const stream = await run.start({ hijack: true, stdin: true });
  const heard: Buffer[] = [];
  stream.on("data", (part: Buffer) => heard.push(part));
  const ended = new Promise((resolve) => stream.once("close", resolve).once("end", resolve));
  stream.end(sql);
  await ended;
  const { ExitCode } = await run.inspect();
  const said = Buffer.concat(heard).toString("utf8").slice(-2_000);
  expect(ExitCode, said).toBe(0);
}
