import { randomBytes, randomUUID } from "node:crypto";
import { type DatabaseEngine, databaseNames, defaultDatabaseImages } from "@svc/proto";
import { Assign_Kind, Desired, HealthState, Observed } from "@svc/proto/node";
import { systemClock } from "@svc/runtime/system";
import Docker from "dockerode";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openJournal } from "../journal/journal.ts";
import { containerName } from "../placements/names.ts";
import { type Agent, start } from "../start.ts";
import { createTestNode, type TestNode } from "../testing/agent.ts";
import { createTestControl, type TestControl } from "../testing/control.ts";
import { verifierFor } from "../testing/database.ts";
import { startRegistry, type TestRegistry } from "../testing/registry.ts";
import { waitFor } from "../testing/wait.ts";
import { probeDatabase } from "./probe.ts";
import { removeSocketDir, socketPathOf } from "./socket-dir.ts";

const docker = new Docker({ socketPath: "/var/run/docker.sock" });
const password = randomBytes(16).toString("hex");
const made: string[] = [];
const images = new Map<DatabaseEngine, string>();
let registry: TestRegistry;
let node: TestNode;
let control: TestControl;
let agent: Agent;

async function pushDatabaseImage(engine: DatabaseEngine): Promise<string> {
  const target = { repository: `${registry.host}/databases/${engine}`, tag: "test" };
  await docker.getImage(defaultDatabaseImages[engine]).tag({ repo: target.repository, tag: target.tag });
  return `${target.repository}@${await node.engine.pushImage(target, null, AbortSignal.timeout(120_000))}`;
}
const newAgent = () => start(node.config, { openLink: control.openLink });

beforeAll(async () => {
  registry = await startRegistry();
  node = await createTestNode({ SVC_AGENT_ADDRESS: "127.0.9.14" });
  control = createTestControl({ registryHost: registry.host });
  for (const engine of ["postgres", "mariadb"] as const) images.set(engine, await pushDatabaseImage(engine));
  agent = await newAgent();
});
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  await node?.[Symbol.asyncDispose]();
  for (const { name } of (await node?.engine.listDatabaseVolumes()) ?? []) await node.engine.removeDatabaseVolume(name);
  for (const id of made) await removeSocketDir(node.owner, id);
  await registry?.[Symbol.asyncDispose]();
});

function aDatabase(engine: DatabaseEngine, databaseId: string = randomUUID()) {
  made.push(databaseId);
  return (placementId: string, changes: { epoch?: bigint; init?: boolean; desired?: Desired } = {}) => ({
    placementId,
    epoch: changes.epoch ?? 1n,
    desired: changes.desired ?? Desired.RUNNING,
    specHash: `${databaseId} ${changes.init ?? true}`,
    projectId: "p1",
    channel: "production",
    ownerKind: "database",
    ownerId: databaseId,
    resources: { memoryMb: 192, cpuMillicores: 1_000, pidsLimit: 200, generation: 1n, reservedMemoryMb: 64 },
    spec: {
      case: "database" as const,
      value: {
        databaseId,
        engine,
        image: { reference: images.get(engine) ?? "", maxSizeMb: 1_000 },
        adminVerifier: verifierFor(engine, password),
        init: changes.init ?? true,
        sizeMb: 256,
        connections: 40,
      },
    },
  });
}
const serves = (engine: DatabaseEngine, databaseId: string): Promise<boolean> =>
  probeDatabase(
    { clock: systemClock, engine, socketPath: socketPathOf(node.owner, databaseId, engine) },
    2_000,
    AbortSignal.timeout(2_000),
  );
const isHealthy = ({ observed, health }: { observed: Observed; health: HealthState }) =>
  observed === Observed.RUNNING && health === HealthState.HEALTHY;

test.each(["postgres", "mariadb"] as const)("a database on %s is made, serves, and is brought back", async (engine) => {
  const databaseId = randomUUID();
  const placement = aDatabase(engine, databaseId);
  const name = containerName(engine);
  await control.assign({ upserts: [placement(engine)] });
  await control.status(engine, isHealthy);
  expect(await serves(engine, databaseId)).toBe(true);
  const before = await node.engine.findContainer(name);
  expect(before?.labels).toMatchObject({ "svc.kind": "database", "svc.owner": databaseId, "svc.database": databaseId });

  // A restart of the agent is noticed by nobody.
  await agent[Symbol.asyncDispose]();
  agent = await newAgent();
  await waitFor("the new session", () => control.hellos.length > 1);
  expect((await node.engine.findContainer(name))?.startedAt).toBe(before?.startedAt);

  await node.engine.killContainer(name, "SIGKILL");
  await control.status(engine, (status) => status.restartSeq > 0 && isHealthy(status));

  // What goes is the container. The next placement finds the data, and would make none.
  await control.assign({ upserts: [placement(engine, { desired: Desired.REMOVED })] });
  await control.status(engine, ({ observed }) => observed === Observed.REMOVED);
  expect(await node.engine.findContainer(name)).toBeNull();
  const next = `${engine}-2`;
  await control.assign({ upserts: [placement(next, { epoch: 2n, init: false })] });
  await control.status(next, isHealthy);
  await control.assign({ upserts: [placement(next, { epoch: 2n, init: false, desired: Desired.REMOVED })] });
  await control.status(next, ({ observed }) => observed === Observed.REMOVED);

  // The data goes by a word of its own.
  const { volume } = databaseNames(databaseId);
  const isThere = async () => (await node.engine.listDatabaseVolumes()).some((each) => each.name === volume);
  expect(await isThere()).toBe(true);
  control.send({ message: { case: "volumesToRemove", value: { names: [volume] } } });
  await waitFor("the volume to go", async () => !(await isThere()));
});

test("data that is missing is never made anew", async () => {
  await control.assign({ upserts: [aDatabase("postgres")("missing", { init: false })] });
  const { failure } = await control.status("missing", ({ observed }) => observed === Observed.FAILED);
  expect(failure).toMatchObject({ code: "DATABASE_DATA_MISSING", exitCode: 77 });
  expect(JSON.stringify(failure)).not.toContain("SCRAM");
});

test("what is no database is refused", async () => {
  const placement = aDatabase("postgres")("nonsense");
  placement.spec.value.databaseId = "../../etc";
  await control.assign({ upserts: [placement] });
  const { failure } = await control.status("nonsense", ({ observed }) => observed === Observed.FAILED);
  expect(failure?.code).toBe("DATABASE_SPEC_INVALID");
});

test("after a reboot of the machine a database waits until it is named", async () => {
  const placement = aDatabase("postgres")("rebooted");
  const name = containerName("rebooted");
  await control.assign({ upserts: [placement] });
  await control.status("rebooted", isHealthy);
  await agent[Symbol.asyncDispose]();
  // As a machine comes up that lost its power: nothing runs, and what was granted was in another boot.
  await node.engine.killContainer(name, "SIGKILL");
  {
    using journal = openJournal(node.config.dir);
    for (const record of journal.listPlacements()) {
      journal.savePlacement({ ...record, memory: { ...record.memory, grantedIn: "another boot" } });
    }
  }
  const nextSession = async (begin: () => unknown) => {
    const hellos = control.hellos.length;
    await begin();
    return waitFor("the next session", () => control.hellos[hellos]);
  };
  const hello = await nextSession(async () => {
    agent = await newAgent();
  });
  // It asks for everything, since of changes there may be none.
  expect(hello.persistedRevision).toBe("");
  expect((await node.engine.findContainer(name))?.state).toBe("exited");
  // A set without it starts nothing and removes nothing.
  const complete = { kind: Assign_Kind.COMPLETE, clusterEpoch: 1n, leaderEpoch: 1n, appliesTo: "" };
  const say = async (resultsIn: string, upserts: (typeof placement)[]) => {
    control.send({ message: { case: "assign", value: { ...complete, resultsIn, upserts, removes: [] } } });
    await waitFor(resultsIn, () => control.applied.some((answer) => answer.resultsIn === resultsIn));
  };
  await say("900", []);
  expect((await node.engine.findContainer(name))?.state).toBe("exited");
  // Nor does one with it, in a session that another machine of this identity may take back.
  control.contest(3_600_000);
  await nextSession(() => control.hangUp());
  await say("901", [placement]);
  expect((await node.engine.findContainer(name))?.state).toBe("exited");
  control.contest(0);
  const again = await nextSession(() => control.hangUp());
  expect(again.persistedRevision).toBe("");
  await say("902", [placement]);
  await control.status("rebooted", (status) => status.restartSeq > 0 && isHealthy(status));
  expect((await node.engine.findContainer(name))?.state).toBe("running");
  // Nor does a set without it stop what runs.
  await say("903", []);
  expect((await node.engine.findContainer(name))?.state).toBe("running");
});
