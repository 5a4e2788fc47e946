import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { RunOfferSchema, RunPhase, type RunStatus } from "@svc/proto/node";
import { systemClock } from "@svc/runtime/system";
import Docker from "dockerode";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Engine } from "../engine/engine.ts";
import { type Journal, openJournal } from "../journal/journal.ts";
import { createLog } from "../log.ts";
import type { Networks } from "../network/networks.ts";
import { createTestNode, type TestNode } from "../testing/agent.ts";
import { waitFor } from "../testing/wait.ts";
import { createAttempt, runContainerName } from "./attempt.ts";
import { heldBack } from "./gate.ts";
import { gateFiles } from "./gate-files.ts";

// An agent that ends at each step of a run, on a real engine: before the step, or when it is done and nobody heard.

const docker = new Docker({ socketPath: "/var/run/docker.sock" });
const bootId = "this boot";
let node: TestNode;
let dir = "";
let count = 0;

beforeAll(async () => {
  node = await createTestNode();
});
afterAll(() => node?.[Symbol.asyncDispose]());
afterEach(() => rm(dir, { recursive: true, force: true }));

/** A life of an agent with one attempt. It ends at the step of number `endsAt`: nothing that it does from then on happens. */
function live(journal: Journal, options: { endsAt?: number; isDone?: boolean; bootId?: string } = {}) {
  const closing = new AbortController();
  const steps: string[] = [];
  const told: RunStatus[] = [];
  const orders: (Promise<unknown> | null)[] = [];
  const isOver = () => steps.length > (options.endsAt ?? Number.POSITIVE_INFINITY);
  const never = new Promise<never>(() => {});
  /** Whether a step is to be done, and whether it is heard of. */
  const begin = (step: string): { isDone: boolean; isHeard: boolean } => {
    if (isOver()) return { isDone: false, isHeard: false };
    steps.push(step);
    if (!isOver()) return { isDone: true, isHeard: true };
    closing.abort();
    return { isDone: options.isDone === true, isHeard: false };
  };
  const mortal = (name: "createContainer" | "findContainer" | "startContainer") =>
    (async (...args: never[]) => {
      const { isDone, isHeard } = begin(name);
      const order = isDone ? (node.engine[name] as (...all: never[]) => Promise<unknown>)(...args) : null;
      orders.push(order);
      const result = await order;
      return isHeard ? result : never;
    }) as never;
  const engine: Engine = {
    ...node.engine,
    createContainer: mortal("createContainer"),
    findContainer: mortal("findContainer"),
    startContainer: mortal("startContainer"),
  };
  const networks: Networks = {
    ensure: async () => ({ name: "none", address: "" }),
    release: async () => {},
    list: async () => [],
  };
  const mortalJournal: Journal = {
    ...journal,
    saveRun(record) {
      const { isDone, isHeard } = begin(`saveRun ${record.state}`);
      if (isDone) journal.saveRun(record);
      if (!isHeard) throw new Error("the agent has ended");
    },
  };
  const offer = create(RunOfferSchema, {
    ...{ attemptId: `crash-${count}.1`, projectId: "p1", channel: "production", kind: "job" },
    ...{ image: { reference: "node:24-slim" }, command: "echo ran", timeoutSeconds: 60 },
    resources: { memoryMb: 64, cpuMillicores: 1_000, pidsLimit: 32 },
  });
  const [record] = journal.listRuns();
  const fresh = { state: "offer" as const, token: "", exitCode: 0, timedOut: false, message: "" };
  const attempt = createAttempt(record ?? { offer, ...fresh, startedAt: "", finishedAt: "" }, {
    ...{
      clock: systemClock,
      journal: mortalJournal,
      engine,
      networks,
      gates: gateFiles,
      bootId: options.bootId ?? bootId,
    },
    openLog: () => ({ write: () => {}, end: () => {}, done: Promise.resolve() }),
    onEvidence: (status) => void (isOver() || told.push(status)),
    ...{ signal: closing.signal, log: createLog("silent") },
  });
  return { attempt, steps, told, orders, isOver, end: () => closing.abort() };
}

async function begin(options: Parameters<typeof live>[1]) {
  count += 1;
  dir = await mkdtemp(join(tmpdir(), "svc-crash-"));
  const journal = openJournal(dir);
  const life = live(journal, options);
  life.attempt.accepted();
  life.attempt.grant("t", 60_000);
  return { ...life, journal, name: runContainerName(`crash-${count}.1`) };
}

const isFinal = (status: RunStatus | null): status is RunStatus => status !== null && status.phase !== RunPhase.STARTED;
const timesRun = async (name: string): Promise<number> =>
  (await node.engine.readLog(name, 100)).split("\n").filter((line) => line.endsWith(" ran")).length;

/** What the next life says of it, and how often the command has run when the engine was told to start it once more. */
async function recover(journal: Journal, name: string, boot = bootId) {
  const life = live(journal, { bootId: boot });
  life.attempt.recover();
  // What the life before wrote down is evidence as it is: nothing new is told of it.
  const status = await waitFor("the outcome", () => [...life.told, life.attempt.evidence()].find(isFinal));
  await life.attempt.settled();
  // An order of before that arrives only now.
  const container = await node.engine.findContainer(name);
  if (container !== null && container.state !== "running") await node.engine.startContainer(name);
  await waitFor("the container to end", async () => (await node.engine.findContainer(name))?.state !== "running");
  const times = await timesRun(name);
  life.end();
  await node.engine.removeContainer(name);
  journal[Symbol.dispose]();
  return { phase: status.phase, times };
}

const known = [
  { phase: RunPhase.EXITED, times: 1 },
  { phase: RunPhase.NOT_STARTED, times: 0 },
];

test("wherever an agent ends, the next one knows whether the command ran, and it never runs again", async () => {
  const whole = await begin({});
  await waitFor("the end", () => whole.told.find(isFinal));
  const { steps } = whole;
  expect(steps.slice(0, 6)).toEqual([
    ...["saveRun intent", "createContainer", "findContainer", "saveRun start-sent", "startContainer"],
    "saveRun start-sent",
  ]);
  whole.end();
  await node.engine.removeContainer(whole.name);
  whole.journal[Symbol.dispose]();
  const outcomes = new Set<RunPhase>();
  // What comes after the start is a look at the container, again and again.
  for (let endsAt = 1; endsAt < 8; endsAt += 1) {
    for (const isDone of [false, true]) {
      const life = await begin({ endsAt, isDone });
      await waitFor(`step ${endsAt}`, life.isOver);
      // What the engine was told it has done before the next life begins: nobody gives an order to start what is made later.
      await Promise.allSettled(life.orders);
      const found = await recover(life.journal, life.name);
      expect(known, `${steps[endsAt]}, ${isDone ? "done" : "not done"}`).toContainEqual(found);
      outcomes.add(found.phase);
      await rm(dir, { recursive: true, force: true });
    }
  }
  expect([...outcomes].toSorted()).toEqual([RunPhase.EXITED, RunPhase.NOT_STARTED]);
});

test("an order to start that arrives after the gate was shut runs nothing", async () => {
  // It ends before the engine has the order, which comes when the next life has spoken.
  const life = await begin({ endsAt: 4, isDone: false });
  await waitFor("the order", life.isOver);
  const next = live(life.journal);
  next.attempt.recover();
  expect(await waitFor("the outcome", () => next.told.find(isFinal))).toMatchObject({ phase: RunPhase.NOT_STARTED });
  await node.engine.startContainer(life.name);
  await waitFor("its end", async () => (await node.engine.findContainer(life.name))?.state === "exited");
  expect((await node.engine.findContainer(life.name))?.exitCode).toBe(heldBack);
  expect(await timesRun(life.name)).toBe(0);
  next.end();
  life.journal[Symbol.dispose]();
  await node.engine.removeContainer(life.name);
});

test("after a reboot an open gate proves nothing", async () => {
  const life = await begin({ endsAt: 4, isDone: false });
  await waitFor("the order", life.isOver);
  const next = live(life.journal, { bootId: "the next boot" });
  next.attempt.recover();
  expect(await waitFor("the outcome", () => next.told.find(isFinal))).toMatchObject({ phase: RunPhase.INDETERMINATE });
  next.end();
  life.journal[Symbol.dispose]();
  await node.engine.removeContainer(life.name);
});

test("what an agent had only accepted is told of by the next one, although nothing can be written when that begins", async () => {
  const life = await begin({ endsAt: 1, isDone: false });
  await waitFor("the grant", life.isOver);
  const [record] = life.journal.listRuns();
  if (record === undefined) throw new Error("nothing was written down");
  life.journal.saveRun({ ...record, state: "offer", token: "" });
  let isFull = true;
  let refused = 0;
  const next = live({
    ...life.journal,
    saveRun(each) {
      if (!isFull) return life.journal.saveRun(each);
      refused += 1;
      throw new Error("no space left on device");
    },
  });
  next.attempt.recover();
  await waitFor("a write that fails", () => refused > 0);
  isFull = false;
  expect(await waitFor("the outcome", () => next.told.find(isFinal))).toMatchObject({ phase: RunPhase.NOT_STARTED });
  next.end();
  life.journal[Symbol.dispose]();
});

test("a container that an agent of the version before made is judged by what the engine says", async () => {
  const life = await begin({ endsAt: 4, isDone: false });
  await waitFor("the order", life.isOver);
  const [record] = life.journal.listRuns();
  if (record === undefined) throw new Error("nothing was written down");
  const { gate: _, startedIn: __, ...before } = record;
  life.journal.saveRun(before);
  const next = live(life.journal);
  next.attempt.recover();
  expect(await waitFor("the outcome", () => next.told.find(isFinal))).toMatchObject({ phase: RunPhase.INDETERMINATE });
  await docker.getContainer(life.name).start();
  await waitFor("its end", async () => (await node.engine.findContainer(life.name))?.state === "exited");
  next.attempt.recover();
  await waitFor("what it was after all", () => next.told.find(({ phase }) => phase === RunPhase.EXITED));
  next.end();
  life.journal[Symbol.dispose]();
  await node.engine.removeContainer(life.name);
});
