import { randomBytes, randomUUID } from "node:crypto";
import { chmod, rm } from "node:fs/promises";
import { createConnection, createServer, type Server } from "node:net";
import { type DatabaseEngine, databaseNames, databaseVolume, defaultDatabaseImages, keeperUser } from "@svc/proto";
import { CopySample_State, Desired, HealthState, Observed } from "@svc/proto/node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { copyDoorOf, removeCopyDoor } from "../databases/copy-door.ts";
import { removeSocketDir, socketPathOf } from "../databases/socket-dir.ts";
import { containerName } from "../placements/names.ts";
import { type Agent, start } from "../start.ts";
import { createTestNode, type TestNode } from "../testing/agent.ts";
import { createTestControl, type TestControl } from "../testing/control.ts";
import { execIn, nativeHash, scramVerifier, verifierFor } from "../testing/database.ts";
import { startRegistry, type TestRegistry } from "../testing/registry.ts";
import { waitFor } from "../testing/wait.ts";

const password = randomBytes(16).toString("hex");
const stamp = randomBytes(4).toString("hex");
const made: { databaseId: string; copyId: string }[] = [];
const relays: Server[] = [];
let registry: TestRegistry;
let node: TestNode;
let control: TestControl;
let agent: Agent;

beforeAll(async () => {
  registry = await startRegistry();
  node = await createTestNode({ SVC_AGENT_ADDRESS: "127.0.9.17", SVC_AGENT_COPY_LOOK_MS: "250" });
  control = createTestControl({ registryHost: registry.host });
  agent = await start(node.config, { openLink: control.openLink });
});
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  await node?.[Symbol.asyncDispose]();
  // Whoever was connected has gone with its container.
  await Promise.all(relays.map((relay) => new Promise((resolve) => relay.close(resolve))));
  for (const { name } of (await node?.engine.listDatabaseVolumes()) ?? []) await node.engine.removeDatabaseVolume(name);
  for (const { databaseId, copyId } of made) {
    await removeSocketDir(node.owner, databaseId);
    await removeCopyDoor(node.owner, copyId);
  }
  await registry?.[Symbol.asyncDispose]();
});

const resources = { memoryMb: 256, cpuMillicores: 1_000, pidsLimit: 200, generation: 1n, reservedMemoryMb: 64 };

async function sql(engine: DatabaseEngine, placementId: string, database: string, statement: string): Promise<string> {
  const command =
    engine === "postgres"
      ? [
          ...["/usr/lib/postgresql/17/bin/psql", "-qAt", "--set=ON_ERROR_STOP=1", "--host=/socket"],
          ...["--username=svc_admin", `--command=${statement}`, database],
        ]
      : [
          ...["/usr/bin/mariadb", "--no-defaults", "-BN", "--socket=/socket/mysqld.sock"],
          ...["--user=svc_admin", `--execute=${statement}`, database],
        ];
  const env = [`PGPASSWORD=${password}`, `MYSQL_PWD=${password}`];
  const { code, text } = await execIn(containerName(placementId), command, env);
  expect(code, text).toBe(0);
  return text.trim();
}

/** As the database proxy of the node, whose door it stands in for. */
async function relayAt(path: string, to: string): Promise<void> {
  await rm(path, { force: true });
  const relay = createServer((visitor) => {
    const inner = createConnection(to);
    for (const each of [visitor, inner]) each.on("error", () => {});
    visitor.pipe(inner).pipe(visitor);
    visitor.on("close", () => inner.destroy());
    inner.on("close", () => visitor.destroy());
  });
  await new Promise<void>((resolve) => relay.listen(path, resolve));
  await chmod(path, 0o660);
  relays.push(relay);
}

test.each(["postgres", "mariadb"] as const)("a database on %s is kept, proven, lost, and restored", async (engine) => {
  const [databaseId, copyId] = [randomUUID(), randomUUID()];
  made.push({ databaseId, copyId });
  const { database } = databaseNames(databaseId);
  const image = { reference: defaultDatabaseImages[engine], maxSizeMb: 1_000 };
  const of = { projectId: "p1", channel: "production", resources, desired: Desired.RUNNING, epoch: 1n };
  const server = (placementId: string, changes: object, epoch = 1n, desired: Desired = Desired.RUNNING) => ({
    ...{ ...of, placementId, epoch, desired, specHash: placementId, ownerKind: "database", ownerId: databaseId },
    spec: {
      case: "database" as const,
      value: {
        ...{ databaseId, engine, image, adminVerifier: verifierFor(engine, password), sizeMb: 256, connections: 40 },
        ...changes,
      },
    },
  });
  const [first, second] = [`${engine}-a-${stamp}`, `${engine}-b-${stamp}`];
  await control.assign({ upserts: [server(first, { init: true })] });
  await control.status(first, ({ health }) => health === HealthState.HEALTHY);
  const system = engine === "postgres" ? "postgres" : "mysql";
  if (engine === "postgres") {
    await sql(
      engine,
      first,
      system,
      `CREATE ROLE ${keeperUser} LOGIN REPLICATION PASSWORD '${scramVerifier(password)}'`,
    );
  } else {
    await sql(
      engine,
      first,
      system,
      `CREATE USER '${keeperUser}'@'%' IDENTIFIED BY PASSWORD '${nativeHash(password)}'`,
    );
    const rights = "SELECT, SHOW VIEW, TRIGGER, PROCESS, BINLOG MONITOR, REPLICATION SLAVE";
    await sql(engine, first, system, `GRANT ${rights} ON *.* TO '${keeperUser}'@'%'`);
  }
  await sql(engine, first, system, `CREATE DATABASE ${database}`);
  await sql(engine, first, database, "CREATE TABLE t (n int)");
  await sql(engine, first, database, "INSERT INTO t VALUES (7)");

  const keeperId = `${engine}-k-${stamp}`;
  const keeper = {
    ...{ ...of, placementId: keeperId, specHash: keeperId, ownerKind: "copy", ownerId: copyId },
    spec: {
      case: "keeper" as const,
      value: {
        ...{ copyId, databaseId, engine, image, password },
        ...{ sizeMb: 1_024, baseEverySeconds: 86_400, keepSeconds: 604_800 },
      },
    },
  };
  await control.assign({ upserts: [keeper] });
  await control.status(keeperId, ({ observed }) => observed === Observed.RUNNING);
  await relayAt(copyDoorOf(node.owner, copyId, engine).socket, socketPathOf(node.owner, databaseId, engine));
  const sample = await waitFor("a copy that follows", () => {
    const found = control.copies.get(copyId);
    return found?.state === CopySample_State.FOLLOWING && found.coveredAt !== "" ? found : null;
  });
  expect(sample).toMatchObject({ problem: "", bases: [{ number: 1, until: "" }] });

  const proofId = `${engine}-v-${stamp}`;
  const proof = {
    ...{ ...of, placementId: proofId, specHash: proofId, ownerKind: "copy", ownerId: copyId },
    spec: { case: "proof" as const, value: { copyId, databaseId, engine, image, timeoutSeconds: 600 } },
  };
  await control.assign({ upserts: [proof] });
  const { proof: found } = await control.status(proofId, ({ observed }) => observed >= Observed.COMPLETED);
  expect(found?.tables).toEqual([expect.objectContaining({ name: "t", rows: 1n })]);

  await control.assign({ upserts: [server(first, { init: true }, 1n, Desired.REMOVED)] });
  await control.status(first, ({ observed }) => observed === Observed.REMOVED);
  expect(await node.engine.removeDatabaseVolume(databaseVolume(databaseId, 1))).toBe(true);
  const restore = { generation: 2, init: false, restore: { copyId, until: "" } };
  await control.assign({ upserts: [server(second, restore, 2n)] });
  await control.status(second, ({ health }) => health === HealthState.HEALTHY);
  expect(await sql(engine, second, database, "SELECT n FROM t")).toBe("7");
  expect((await node.engine.listDatabaseVolumes()).map(({ name }) => name)).toContain(databaseVolume(databaseId, 2));

  // What is once whole needs the copy no more, and has no hold on it.
  await node.engine.killContainer(containerName(second), "SIGKILL");
  await control.status(second, ({ restartSeq, health }) => restartSeq > 0 && health === HealthState.HEALTHY);
  expect(await sql(engine, second, database, "SELECT n FROM t")).toBe("7");

  const missing = `${engine}-c-${stamp}`;
  const nowhere = { generation: 3, init: false, restore: { copyId: randomUUID(), until: "" } };
  await control.assign({ upserts: [server(missing, nowhere, 3n)] });
  const { failure } = await control.status(missing, ({ observed }) => observed === Observed.FAILED);
  expect(failure?.code).toBe("DATABASE_COPY_MISSING");
});
