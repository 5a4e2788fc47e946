import { randomBytes, randomUUID } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { databaseNames, defaultDatabaseImages } from "@svc/proto";
import { Desired, HealthState, Observed } from "@svc/proto/node";
import { createRegistry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import Docker from "dockerode";
import { afterAll, beforeAll, expect, test } from "vitest";
import { removeSocketDir } from "../databases/socket-dir.ts";
import { labels } from "../engine/engine.ts";
import { containerName } from "../placements/names.ts";
import { type Agent, start } from "../start.ts";
import { createTestNode, type TestNode } from "../testing/agent.ts";
import { createTestControl, type TestControl } from "../testing/control.ts";
import { verifierFor } from "../testing/database.ts";
import { startRegistry, type TestRegistry } from "../testing/registry.ts";
import { waitFor } from "../testing/wait.ts";

const docker = new Docker({ socketPath: "/var/run/docker.sock" });
const databaseId = randomUUID();
const [adminPassword, password] = [randomBytes(16).toString("hex"), randomBytes(16).toString("hex")];
const repository = "svc/p1/backup";
let registry: TestRegistry;
let node: TestNode;
let control: TestControl;
let agent: Agent;
/** In the registry, as every image is that an agent starts. */
let reference = "";
const newAgent = () => start(node.config, { openLink: control.openLink });

const placement = (placementId: string, kind: "database" | "backup", desired: Desired = Desired.RUNNING) => {
  const image = { reference, maxSizeMb: 1_000 };
  const of = { databaseId, engine: "postgres", image };
  const adminVerifier = verifierFor("postgres", adminPassword);
  return {
    ...{ placementId, epoch: 1n, desired, specHash: placementId, projectId: "p1", channel: "production" },
    ...{ ownerKind: kind, ownerId: placementId },
    resources: { memoryMb: 256, cpuMillicores: 1_000, pidsLimit: 100, generation: 1n, reservedMemoryMb: 64 },
    spec:
      kind === "database"
        ? { case: kind, value: { ...of, adminVerifier, init: true, sizeMb: 256, connections: 40 } }
        : {
            case: kind,
            value: { ...of, password, targetRepository: repository, timeoutSeconds: 300, maxDumpBytes: 1_000_000_000n },
          },
  };
};

/** A statement of the administrator, inside the server's container. */
async function sql(statement: string, database: string): Promise<void> {
  const psql = ["/usr/lib/postgresql/17/bin/psql", "--set=ON_ERROR_STOP=1", "--host=/socket", "--username=svc_admin"];
  const run = await docker.getContainer(containerName("server")).exec({
    Cmd: [...psql, `--command=${statement}`, database],
    Env: [`PGPASSWORD=${adminPassword}`],
    ...{ AttachStdout: true, AttachStderr: true },
  });
  const stream = await run.start({});
  stream.resume();
  await new Promise((resolve) => stream.once("close", resolve).once("end", resolve));
  expect((await run.inspect()).ExitCode).toBe(0);
}

beforeAll(async () => {
  registry = await startRegistry();
  node = await createTestNode({ SVC_AGENT_ADDRESS: "127.0.9.17" });
  control = createTestControl({ registryHost: registry.host });
  const target = { repository: `${registry.host}/databases/postgres`, tag: "test" };
  await docker.getImage(defaultDatabaseImages.postgres).tag({ repo: target.repository, tag: target.tag });
  reference = `${target.repository}@${await node.engine.pushImage(target, null, AbortSignal.timeout(120_000))}`;
  agent = await newAgent();
  await control.assign({ upserts: [placement("server", "database")] });
  await control.status("server", ({ health }) => health === HealthState.HEALTHY);
  const { database, role } = databaseNames(databaseId);
  await sql(`CREATE ROLE ${role} LOGIN PASSWORD '${verifierFor("postgres", password)}'`, "postgres");
  await sql(`CREATE DATABASE ${database} OWNER ${role}`, "postgres");
  await sql(
    `SET ROLE ${role}; CREATE TABLE many AS SELECT g, repeat(md5(g::text), 20) t FROM generate_series(1, 100000) g`,
    database,
  );
});
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  for (const { name } of (await node?.engine.listContainers()) ?? []) await node.engine.removeContainer(name);
  await node?.engine.removeDatabaseVolume(databaseId);
  await removeSocketDir(node.owner, databaseId);
  await node?.[Symbol.asyncDispose]();
  await registry?.[Symbol.asyncDispose]();
});

const program = (placementId: string) => node.engine.findContainer(`svc-b-${placementId}`);
async function linesOf(digest: string): Promise<number> {
  await using client = createRegistry(systemClock, { url: `http://${registry.host}` });
  const parts: Buffer[] = [];
  const stream = await client.pullArtifact(repository, digest, { maxSizeBytes: 1_000_000_000 });
  for await (const part of stream) parts.push(part as Buffer);
  return gunzipSync(Buffer.concat(parts)).toString("latin1").split("\n").length;
}

test("an agent that is restarted in the middle reads the database anew, and tells of a whole one", async () => {
  await control.assign({ upserts: [placement("b1", "backup")] });
  await waitFor("the program to run", async () => (await program("b1"))?.state === "running");
  await agent[Symbol.asyncDispose]();
  expect(control.statuses.get("b1")?.observed).toBe(Observed.RUNNING);
  agent = await newAgent();
  const { backup } = await control.status("b1", ({ observed }) => observed === Observed.COMPLETED);
  expect(await linesOf(backup?.digest ?? "")).toBeGreaterThan(100_000);
  expect(Number(backup?.dumpBytes)).toBeGreaterThan(60_000_000);
  const asked = control.tokensAsked.filter(({ workId }) => workId === "b1");
  expect(new Set(asked.map((wish) => wish.repository))).toEqual(new Set([repository]));
  expect(await program("b1")).toBeNull();
});

test("one that is called off in the middle leaves no program, and tells of nothing", async () => {
  await control.assign({ upserts: [placement("b2", "backup")] });
  await waitFor("the program to run", async () => (await program("b2"))?.state === "running");
  await control.assign({ upserts: [placement("b2", "backup", Desired.REMOVED)] });
  const { backup } = await control.status("b2", ({ observed }) => observed === Observed.REMOVED);
  expect(backup).toBeUndefined();
  expect(await program("b2")).toBeNull();
});

test("what the engine makes when nobody waits for it any more goes with the next look", async () => {
  const limits = { memoryMb: 64, cpuMillicores: 100, pidsLimit: 16 };
  const late = (placementId: string) =>
    node.engine.startDump({
      ...{ name: `svc-b-${placementId}`, databaseId, image: reference, command: ["/usr/bin/sleep", "3600"], env: {} },
      ...{ ...limits, labels: { [labels.placement]: placementId }, reserved: { memoryMb: 16, cpuMillicores: 10 } },
    });
  // Of one that is complete, and of one of which nobody knows.
  await Promise.all([late("b1"), late("b3")]);
  await agent[Symbol.asyncDispose]();
  agent = await newAgent();
  await waitFor("them to be gone", async () => (await program("b1")) === null && (await program("b3")) === null);
  expect(await node.engine.findContainer(containerName("server"))).toMatchObject({ state: "running" });
});
