import { RunPhase } from "@svc/proto/node";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { keys, type RunValue } from "../cluster/keys.ts";
import type { Link } from "../daemons/start.ts";
import { aDaemon, anAgent, aReconciledAgent, aWorld, type DaemonFiles, until, type World } from "../daemons/testing.ts";

let world: World;
let link: Link;
let node: DaemonFiles;
beforeAll(async () => {
  world = await aWorld();
  link = await world.startLink();
});
afterAll(async () => {
  await link[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});
beforeEach(async () => {
  node = await aDaemon(world, link, "node");
});

const attemptId = "5a1d0c37-0000-4000-8000-000000000002.1";
const at = () => keys.run(node.id, attemptId);
const runNow = () => world.read<RunValue>(at());
const reaches = (state: RunValue["state"]) =>
  until(`the run is ${state}`, async () => ((await runNow())?.state === state ? runNow() : null));
const putRun = (overrides: Partial<RunValue> = {}) =>
  world.put(at(), {
    attemptId,
    kind: "release",
    ownerKind: "deployment",
    ownerId: "5a1d0c37-0000-4000-8000-000000000002",
    projectId: "5a1d0c37-0000-4000-8000-000000000001",
    state: "offered",
    cancel: false,
    acceptedBy: null,
    token: null,
    exitCode: null,
    timedOut: false,
    message: null,
    startedAt: null,
    finishedAt: null,
    changedAt: new Date().toISOString(),
    ...overrides,
  } satisfies RunValue);
const update = async (change: Partial<RunValue>) => {
  const run = await runNow();
  if (run === null) throw new Error("there is no run");
  return world.put(at(), { ...run, ...change });
};

describe("a run", () => {
  test("is offered, accepted, granted, and its evidence stored before it is acknowledged", async () => {
    await using agent = await aReconciledAgent(world, link, node);
    await putRun();
    expect(await agent.next("runOffer")).toMatchObject({ attemptId, command: "npm run migrate", timeoutSeconds: 60 });
    agent.send({ case: "runAccept", value: { attemptId } });
    await reaches("accepted");
    expect(agent.waiting("runGrant")).toBe(0);

    await update({ state: "granted", token: "t1" });
    expect(await agent.next("runGrant")).toMatchObject({ attemptId, token: "t1", startWithinMs: 30_000 });
    const startedAt = "2030-01-01T00:00:00.000Z";
    agent.send({ case: "runStatus", value: { attemptId, token: "t1", phase: RunPhase.STARTED, startedAt } });
    expect(await reaches("started")).toMatchObject({ startedAt });
    expect(agent.waiting("runAck")).toBe(0);

    const finishedAt = "2030-01-01T00:00:09.000Z";
    const exit = { attemptId, token: "t1", phase: RunPhase.EXITED, exitCode: 3, startedAt, finishedAt };
    agent.send({ case: "runStatus", value: exit });
    await agent.next("runAck");
    expect(await runNow()).toMatchObject({ state: "exited", exitCode: 3, startedAt, finishedAt });
    expect(agent.waiting("runOffer") + agent.waiting("runGrant")).toBe(0);

    // The agent may not have heard it.
    agent.send({ case: "runStatus", value: { ...exit, exitCode: 0 } });
    await agent.next("runAck");
    expect(await runNow()).toMatchObject({ state: "exited", exitCode: 3 });
  });

  test("may be refused", async () => {
    await using agent = await aReconciledAgent(world, link, node);
    await putRun();
    await agent.next("runOffer");
    agent.send({ case: "runAccept", value: { attemptId, refusedBecause: "no room" } });
    expect(await reaches("refused")).toMatchObject({ message: "no room" });
    // A grant that comes too late is not passed on: the agent has forgotten the offer.
    agent.send({ case: "renew", value: { n: 1n } });
    await agent.next("renewAck");
    expect(agent.waiting("runGrant")).toBe(0);
  });

  test("is offered again to a new session of the same agent", async () => {
    await using first = await aReconciledAgent(world, link, node);
    await putRun();
    await first.next("runOffer");
    await using second = await anAgent(link, node, { hello: { instanceId: "instance-2" } });
    expect(await second.next("runOffer")).toMatchObject({ attemptId });
  });

  test("that is over is neither offered nor granted again", async () => {
    await using first = await aReconciledAgent(world, link, node);
    await putRun({ state: "granted", token: "t1" });
    await first.next("runGrant");
    first.send({ case: "runStatus", value: { attemptId, token: "t1", phase: RunPhase.NOT_STARTED, message: "late" } });
    await first.next("runAck");
    expect(await runNow()).toMatchObject({ state: "not_started", message: "late" });

    await using second = await aReconciledAgent(world, link, node);
    second.send({ case: "renew", value: { n: 1n } });
    await second.next("renewAck");
    expect(second.waiting("runOffer") + second.waiting("runGrant")).toBe(0);
  });

  test("moves by evidence from the inventory", async () => {
    await putRun({ state: "granted", token: "t1" });
    const runs = [{ attemptId, token: "t1", phase: RunPhase.EXITED, exitCode: 0 }];
    await using agent = await anAgent(link, node, { runs });
    await agent.next("runAck");
    expect(await runNow()).toMatchObject({ state: "exited", exitCode: 0 });
    expect(agent.waiting("runGrant")).toBe(0);
  });

  test("does not move by a token that is not its own", async () => {
    await using agent = await aReconciledAgent(world, link, node);
    await putRun({ state: "granted", token: "t1" });
    await agent.next("runGrant");
    agent.send({ case: "runStatus", value: { attemptId, token: "t0", phase: RunPhase.EXITED, exitCode: 0 } });
    agent.send({ case: "runStatus", value: { attemptId, token: "t1", phase: RunPhase.STARTED } });
    await reaches("started");
  });

  test("is cancelled when its key says so", async () => {
    await using agent = await aReconciledAgent(world, link, node);
    await putRun({ state: "started", token: "t1", cancel: true });
    expect(await agent.next("runCancel")).toMatchObject({ attemptId });
  });

  test("that nobody knows of may be forgotten by the agent", async () => {
    await using agent = await aReconciledAgent(world, link, node);
    agent.send({ case: "runStatus", value: { attemptId: "other.1", token: "t", phase: RunPhase.EXITED } });
    expect(await agent.next("runAck")).toMatchObject({ attemptId: "other.1" });
  });
});
