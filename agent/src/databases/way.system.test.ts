import type { ChildProcess } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { chown, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { type DatabaseEngine, databaseHost, databaseNames, defaultDatabaseImages } from "@svc/proto";
import { databaseProxyFiles } from "@svc/proto/database-proxy";
import {
  DatabaseEntry_State,
  type DatabaseEntrySchema,
  Desired,
  HealthState,
  Observed,
  type PlacementStatus,
  RunPhase,
} from "@svc/proto/node";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import Docker from "dockerode";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { containerName } from "../placements/names.ts";
import { type Agent, start } from "../start.ts";
import { createTestNode, type TestNode } from "../testing/agent.ts";
import { createTestControl, type TestControl } from "../testing/control.ts";
import { execIn, nativeHash, type Said, scramVerifier, verifierFor } from "../testing/database.ts";
import { startRegistry, type TestRegistry } from "../testing/registry.ts";
import { waitFor } from "../testing/wait.ts";
import { openProxyDir } from "./proxy-dir.ts";
import { removeSocketDir } from "./socket-dir.ts";

// The whole way from an app to its database, with the engine and the database proxy that nodes have.

const docker = new Docker({ socketPath: "/var/run/docker.sock" });
const nobody = 65_534;
/** Containers are named after what runs in them, and agents of this machine share its engine. */
const stamp = randomBytes(4).toString("hex");
const password = randomBytes(16).toString("hex");
/** What apps run here: an image with the client of each engine. */
const images = new Map<DatabaseEngine, string>();
const entries = new Map<string, MessageInitShape<typeof DatabaseEntrySchema>>();
let proxyDir: string;
let registry: TestRegistry;
let node: TestNode;
let control: TestControl;
let agent: Agent;
let proxy: ChildProcess;

async function pushImage(engine: DatabaseEngine): Promise<string> {
  const target = { repository: `${registry.host}/svc/apps/${engine}`, tag: "test" };
  await docker.getImage(defaultDatabaseImages[engine]).tag({ repo: target.repository, tag: target.tag });
  return `${target.repository}@${await node.engine.pushImage(target, null, AbortSignal.timeout(120_000))}`;
}
async function newAgent(): Promise<Agent> {
  const started = await start(node.config, { openLink: control.openLink });
  await started.ready;
  return started;
}

/** As on a node: a process of its own, of a user who owns that directory and nothing else. */
function spawnProxy(): void {
  const rights = ["--pdeathsig", "KILL", `--reuid=${nobody}`, `--regid=${nobody}`, "--clear-groups", "--no-new-privs"];
  const main = fileURLToPath(new URL("../../../dbproxy/src/main.ts", import.meta.url));
  proxy = spawnProgram(["setpriv", ...rights, "--", thisNode, main], {
    cwd: "/",
    env: { SVC_DBPROXY_DIR: proxyDir, SVC_LOG_LEVEL: process.env["SVC_LOG_LEVEL"] ?? "error" },
    stdio: ["ignore", "inherit", "inherit"],
  });
}
async function killProxy(): Promise<void> {
  const ended = new Promise((resolve) => proxy.once("exit", resolve));
  proxy.kill("SIGKILL");
  await ended;
}

beforeAll(async () => {
  proxyDir = await mkdtemp(join(tmpdir(), "svc-dbproxy-"));
  await chown(proxyDir, nobody, nobody);
  registry = await startRegistry();
  node = await createTestNode({ SVC_AGENT_ADDRESS: "127.0.9.15", SVC_DBPROXY_DIR: proxyDir });
  control = createTestControl({ registryHost: registry.host });
  for (const engine of ["postgres", "mariadb"] as const) images.set(engine, await pushImage(engine));
  agent = await newAgent();
  spawnProxy();
});
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  if (proxy !== undefined) await killProxy();
  await node?.[Symbol.asyncDispose]();
  for (const { name } of (await node?.engine.listDatabaseVolumes()) ?? []) await node.engine.removeDatabaseVolume(name);
  for (const id of entries.keys()) await removeSocketDir(node.owner, id);
  await registry?.[Symbol.asyncDispose]();
  await rm(proxyDir, { recursive: true, force: true });
});

const generation = async (): Promise<bigint> => BigInt((await openProxyDir(proxyDir).readTable())?.generation ?? 0);

function tell(entry: MessageInitShape<typeof DatabaseEntrySchema>): void {
  entries.set(entry.databaseId ?? "", entry);
  control.send({ message: { case: "databaseTable", value: { entries: [...entries.values()] } } });
}

/** A database of a project's production that serves here, with its owner's role; control has told of it. */
async function aDatabase(engine: DatabaseEngine, projectId: string) {
  const databaseId = randomUUID();
  const { role, database } = databaseNames(databaseId);
  const spec = {
    ...{ databaseId, engine, adminVerifier: verifierFor(engine, password), init: true, sizeMb: 256, connections: 40 },
    // As an operator names it, who has put it on the node.
    image: { reference: defaultDatabaseImages[engine] },
  };
  const placement = {
    ...{ placementId: `${projectId}-db-${stamp}`, epoch: 1n, desired: Desired.RUNNING, specHash: databaseId },
    ...{ projectId, channel: "production", ownerKind: "database", ownerId: databaseId },
    resources: { memoryMb: 192, cpuMillicores: 1_000, pidsLimit: 200, generation: 1n, reservedMemoryMb: 64 },
    spec: { case: "database" as const, value: spec },
  };
  await control.assign({ upserts: [placement] });
  const isHealthy = ({ observed, health }: PlacementStatus) =>
    observed === Observed.RUNNING && health === HealthState.HEALTHY;
  await control.status(placement.placementId, isHealthy);
  const made = await asAdmin(engine, containerName(placement.placementId), rolesOf(engine, role, database));
  expect(made.code, made.text).toBe(0);
  const entry = {
    ...{ databaseId, epoch: 1n, engine, role, database, projectId, channel: "production" },
    ...{ nodeId: node.owner.nodeId, address: "127.0.9.15", connectionLimit: 10, state: DatabaseEntry_State.OPEN },
  };
  tell(entry);
  return { databaseId, role, database, entry };
}

const rolesOf = (engine: DatabaseEngine, role: string, database: string): string[] =>
  engine === "postgres"
    ? [`CREATE ROLE ${role} LOGIN PASSWORD '${scramVerifier(password)}'`, `CREATE DATABASE ${database} OWNER ${role}`]
    : [
        `CREATE DATABASE ${database}`,
        `CREATE USER '${role}'@'%' IDENTIFIED VIA mysql_native_password USING '${nativeHash(password)}'`,
        `GRANT ALL ON \`${database.replaceAll("_", "\\_")}\`.* TO '${role}'@'%'`,
      ];

/** Arguments of an engine's own client, for one session with these statements. */
function clientOf(
  engine: DatabaseEngine,
  { host, user, database }: { host: string; user: string; database: string },
  statements: readonly string[],
): string[] {
  return engine === "postgres"
    ? [
        ...["/usr/lib/postgresql/17/bin/psql", "--no-psqlrc", "--tuples-only", "--no-align", "--quiet"],
        ...[`--host=${host}`, `--username=${user}`, `--dbname=${database}`],
        ...statements.flatMap((each) => ["--command", each]),
      ]
    : [
        ...["/usr/bin/mariadb", "--no-defaults", "--batch", "--skip-column-names", "--skip-ssl"],
        ...[host.startsWith("/") ? `--socket=${host}/mysqld.sock` : `--host=${host}`, `--user=${user}`],
        ...[`--execute=${statements.join("; ")}`, database],
      ];
}
const passwordOf = [`PGPASSWORD=${password}`, `MYSQL_PWD=${password}`, "PGCONNECT_TIMEOUT=5"];
function asAdmin(engine: DatabaseEngine, container: string, statements: string[]): Promise<Said> {
  const database = engine === "postgres" ? "postgres" : "mysql";
  const at = { host: "/socket", user: "svc_admin", database };
  return execIn(container, clientOf(engine, at, statements), passwordOf);
}

/** An app that does nothing by itself, once its container runs. */
async function anApp(
  engine: DatabaseEngine,
  at: { id: string; projectId: string; channel: string; databaseId: string },
) {
  const { id, projectId, channel, databaseId } = at;
  const forEver = ["/usr/bin/flock", "/tmp/held", "/usr/bin/flock", "/tmp/held", "/usr/bin/cat"];
  const value = {
    ...{ image: { reference: images.get(engine) ?? "" }, command: forEver, env: {}, port: 3000, databaseId },
    health: { path: "/", timeoutSeconds: 3_000 },
  };
  const spec = { case: "serve" as const, value };
  const resources = { memoryMb: 128, cpuMillicores: 500, pidsLimit: 64, generation: 1n };
  await control.assign({
    upserts: [
      { placementId: id, epoch: 1n, desired: Desired.RUNNING, specHash: id, projectId, channel, resources, spec },
    ],
  });
  const name = containerName(id);
  await waitFor("the app", async () => (await node.engine.findContainer(name))?.state === "running");
  return (login: { role: string; database: string }, statements: string[], host: string = databaseHost) =>
    execIn(name, clientOf(engine, { host, user: login.role, database: login.database }, statements), passwordOf);
}
const addressOf = async (projectId: string, channel: string): Promise<string> => {
  const found = (await node.engine.listNetworks()).find(
    ({ labels }) =>
      labels["svc.node"] === node.owner.nodeId &&
      labels["svc.project"] === projectId &&
      labels["svc.channel"] === channel,
  );
  return found?.addresses[0] ?? "";
};
/** Rules of this machine are written by every agent that it has, each by its own version: for a moment another's may hold. */
async function reaches(ask: () => Promise<Said>, answer: string): Promise<void> {
  await expect.poll(async () => (await ask()).text.trim(), { timeout: 60_000 }).toBe(answer);
}

describe.each(["postgres", "mariadb"] as const)("an app with a database on %s", (engine) => {
  const sleeps = engine === "postgres" ? "SELECT pg_sleep(6)" : "SELECT SLEEP(6)";

  test("reaches it by its name, as nobody else does, whatever else ends", async () => {
    const projectId = `p-${engine}`;
    const database = await aDatabase(engine, projectId);
    const { databaseId } = database;
    const app = await anApp(engine, { id: `${engine}-app-${stamp}`, projectId, channel: "production", databaseId });
    await reaches(() => app(database, ["SELECT 42"]), "42");
    expect((await app({ ...database, role: "svc_admin" }, ["SELECT 1"])).code).not.toBe(0);

    // A project that was told of the database is let in no more than one that was not, at any address of this machine.
    const bridge = await addressOf(projectId, "production");
    const strangers = [
      { id: `${engine}-other-${stamp}`, projectId: `q-${engine}`, channel: "production", databaseId },
      { id: `${engine}-preview-${stamp}`, projectId, channel: "preview", databaseId },
    ];
    for (const stranger of strangers) {
      const ask = await anApp(engine, stranger);
      for (const host of [databaseHost, bridge, node.config.address]) {
        const { code, text } = await ask(database, ["SELECT 42"], host);
        expect(code, `${stranger.id} at ${host}: ${text}`).not.toBe(0);
      }
    }

    // A restart of the agent ends no session, and the table is the same without a word of control.
    const before = await generation();
    const session = app(database, [sleeps, "SELECT 43"]);
    await agent[Symbol.asyncDispose]();
    agent = await newAgent();
    const { code, text } = await session;
    expect(code, text).toBe(0);
    expect(text.trim().split("\n").at(-1)).toBe("43");
    expect(await generation()).toBe(before);

    // Nor does the proxy need the agent to come back.
    await agent[Symbol.asyncDispose]();
    await killProxy();
    expect((await app(database, ["SELECT 42"])).code).not.toBe(0);
    spawnProxy();
    await reaches(() => app(database, ["SELECT 42"]), "42");
    agent = await newAgent();
  });
});

test("a command that runs once waits until the proxy knows the way", async () => {
  const database = await aDatabase("postgres", "p-run");
  const { databaseId, entry } = database;
  await anApp("postgres", { id: `run-app-${stamp}`, projectId: "p-run", channel: "production", databaseId });
  await killProxy();
  const before = await generation();
  tell({ ...entry, connectionLimit: 5 });
  await waitFor("another table", async () => (await generation()) > before);
  const attemptId = `release-${stamp}.1`;
  const at = { host: databaseHost, user: database.role, database: database.database };
  control.send({
    message: {
      case: "runOffer",
      value: {
        ...{ attemptId, projectId: "p-run", channel: "production", databaseId, timeoutSeconds: 60 },
        image: { reference: images.get("postgres") ?? "" },
        command: clientOf("postgres", at, ["'SELECT 44'"]).join(" "),
        env: { PGPASSWORD: password },
        resources: { memoryMb: 128, cpuMillicores: 500, pidsLimit: 64 },
      },
    },
  });
  spawnProxy();
  await waitFor("the acceptance", () => control.accepts.some((accept) => accept.attemptId === attemptId));
  // What was accepted before the proxy served had waited in vain.
  expect(BigInt((await openProxyDir(proxyDir).readState())?.generation ?? 0)).toBeGreaterThan(before);
  control.send({ message: { case: "runGrant", value: { attemptId, token: "t1", startWithinMs: 30_000 } } });
  const status = await waitFor("the end", () => {
    const found = control.runs.get(attemptId);
    return found?.phase === RunPhase.EXITED ? found : null;
  });
  expect(status.exitCode, control.logs.get(attemptId)).toBe(0);
});

test("the key of the node is the proxy's to read, and nobody else's", async () => {
  const key = await stat(join(proxyDir, databaseProxyFiles.key));
  expect(key).toMatchObject({ uid: nobody, gid: nobody });
  expect(key.mode & 0o777).toBe(0o600);
});
