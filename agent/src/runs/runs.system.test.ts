import { limits } from "@svc/proto/limits";
import { Desired, Observed, RunPhase, type RunStatus } from "@svc/proto/node";
import { systemClock } from "@svc/runtime/system";
import Docker from "dockerode";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { labels } from "../engine/engine.ts";
import { type Agent, start } from "../start.ts";
import { createTestNode, type TestNode } from "../testing/agent.ts";
import { createTestControl, type TestControl } from "../testing/control.ts";
import { startRegistry } from "../testing/registry.ts";
import { packSource, pushSource } from "../testing/source.ts";
import { waitFor } from "../testing/wait.ts";
import { runContainerName } from "./attempt.ts";

const docker = new Docker({ socketPath: "/var/run/docker.sock" });
let registry: Awaited<ReturnType<typeof startRegistry>>;
let node: TestNode;
let control: TestControl;
let agent: Agent;
let image = "";
/** With a user of its own, and without a shell. */
let userImage = "";
let bareImage = "";
let count = 0;

const newAgent = async (): Promise<Agent> => {
  const started = await start(node.config, { openLink: control.openLink });
  await started.ready;
  return started;
};

async function build(placementId: string, Dockerfile: string): Promise<string> {
  const sourceDigest = await pushSource(registry.host, "svc/p1/source", await packSource({ Dockerfile }));
  const value = {
    sourceRepository: "svc/p1/source",
    sourceDigest,
    targetRepository: "svc/p1/app",
    recipe: { case: "image" as const, value: { dockerfile: "Dockerfile", port: 3000 } },
    timeoutSeconds: 120,
    maxImageMb: 1_000,
    maxUnpackedMb: 10,
    cacheNamespace: "p1",
  };
  const spec = { case: "build" as const, value };
  await control.assign({ upserts: [{ placementId, epoch: 1n, desired: Desired.RUNNING, specHash: "h", spec }] });
  const status = await control.status(placementId, ({ observed }) => observed >= Observed.COMPLETED, 124_000);
  return `${registry.host}/svc/p1/app@${status.build?.digest}`;
}

beforeAll(async () => {
  registry = await startRegistry();
  node = await createTestNode();
  control = createTestControl({ registryHost: registry.host });
  agent = await newAgent();
  image = await build("node", "FROM node:24-slim\n");
  userImage = await build("user", "FROM node:24-slim\nUSER node\n");
  bareImage = await build("bare", "FROM node:24-slim\nRUN rm /bin/sh\n");
}, 180_000);

afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  const built = await Promise.all([image, userImage, bareImage].map((each) => node.engine.findImage(each || "none")));
  await node?.[Symbol.asyncDispose]();
  for (const each of built) if (each) await node.engine.removeImage(each.id);
  await registry?.[Symbol.asyncDispose]();
});

afterEach(() => {
  for (const attemptId of control.runs.keys()) acknowledge(attemptId);
});

function offer(command: string, timeoutSeconds = 60, redact: string[] = [], reference = image): string {
  count += 1;
  const attemptId = `deploy-${count}.1`;
  control.send({
    message: {
      case: "runOffer",
      value: {
        attemptId,
        projectId: "p1",
        channel: "production",
        image: { reference },
        kind: "job",
        command,
        env: { NAME: "release" },
        resources: { memoryMb: 128, cpuMillicores: 500, pidsLimit: 64 },
        timeoutSeconds,
        redact,
      },
    },
  });
  return attemptId;
}

const accepted = (attemptId: string) =>
  waitFor("the acceptance", () => control.accepts.find((accept) => accept.attemptId === attemptId));
const grant = (attemptId: string, startWithinMs = 10_000): void =>
  control.send({ message: { case: "runGrant", value: { attemptId, token: "t1", startWithinMs } } });
const cancel = (attemptId: string): void => control.send({ message: { case: "runCancel", value: { attemptId } } });
const acknowledge = (attemptId: string): void => control.send({ message: { case: "runAck", value: { attemptId } } });
const phase = (attemptId: string, wanted: RunStatus["phase"]): Promise<RunStatus> =>
  waitFor(`phase ${wanted} of ${attemptId} (last: ${control.runs.get(attemptId)?.phase})`, () => {
    const status = control.runs.get(attemptId);
    return status?.phase === wanted ? status : null;
  });
const container = (attemptId: string) => node.engine.findContainer(runContainerName(attemptId));

test("a granted command runs once, its output and exit code are told, and then it is gone", async () => {
  const attemptId = offer('echo "hello from $NAME"; exit 4');
  expect(await accepted(attemptId)).toMatchObject({ refusedBecause: "" });
  expect(await container(attemptId)).toBeNull();
  grant(attemptId);
  grant(attemptId);
  const status = await phase(attemptId, RunPhase.EXITED);
  expect(status).toMatchObject({ exitCode: 4, timedOut: false, token: "t1" });
  await waitFor("the output", () => control.logs.get(attemptId) === "hello from release\n");
  acknowledge(attemptId);
  await waitFor("the container to go", async () => (await container(attemptId)) === null);
  await waitFor("the network to go", async () =>
    (await node.engine.listNetworks()).every(({ labels }) => labels["svc.node"] !== node.owner.nodeId),
  );
});

test("a command that needs too much memory is told so", async () => {
  const attemptId = offer("node -e 'const all = []; for (;;) all.push(Buffer.alloc(1e6, 1))'");
  await accepted(attemptId);
  grant(attemptId);
  const status = await phase(attemptId, RunPhase.EXITED);
  expect(status).toMatchObject({ exitCode: 137, message: expect.stringMatching(/killed .*memory/) });
});

test("values of the environment do not show in the output, nor does what moves the cursor", async () => {
  const say = "printf 'url is postgres://u:pa'; sleep 0.5; printf 'ss@db/x\\n10 %%\\r99 %%\\r\\033[2Jdone\\n'";
  const attemptId = offer(say, 60, ["postgres://u:pass@db/x"]);
  await accepted(attemptId);
  grant(attemptId);
  await phase(attemptId, RunPhase.EXITED);
  await waitFor("the output", () => control.logs.get(attemptId) === "url is [redacted]\ndone\n");
});

test("a grant that comes too late starts nothing", async () => {
  const attemptId = offer("echo no");
  await accepted(attemptId);
  // The agent's clock goes in steps: within one of them nothing is late.
  const acceptedBeforeMs = systemClock.bootMs();
  await waitFor("the clock to go on", () => systemClock.bootMs() > acceptedBeforeMs);
  grant(attemptId, 0);
  await phase(attemptId, RunPhase.NOT_STARTED);
  grant(attemptId);
  expect(await container(attemptId)).toBeNull();
});

test("a command past its time is ended", async () => {
  const attemptId = offer("trap 'echo bye; exit 9' TERM; echo up; while true; do sleep 0.1; done", 2);
  await accepted(attemptId);
  grant(attemptId);
  expect(await phase(attemptId, RunPhase.EXITED)).toMatchObject({ timedOut: true, exitCode: 9 });
  await waitFor("the output", () => control.logs.get(attemptId) === "up\nbye\n");
});

test("a cancelled command is ended, one that was not granted never starts", async () => {
  const running = offer("exec sleep 60");
  await accepted(running);
  grant(running);
  await phase(running, RunPhase.STARTED);
  cancel(running);
  expect(await phase(running, RunPhase.EXITED)).toMatchObject({ timedOut: false, exitCode: 143 });
  const waiting = offer("echo no");
  await accepted(waiting);
  cancel(waiting);
  await phase(waiting, RunPhase.NOT_STARTED);
  grant(waiting);
  expect(await container(waiting)).toBeNull();
});

test("an image that cannot be had is a refusal", async () => {
  count += 1;
  const attemptId = `deploy-${count}.1`;
  const reference = `${registry.host}/svc/p1/app@sha256:${"0".repeat(64)}`;
  control.send({
    message: {
      case: "runOffer",
      value: { attemptId, projectId: "p1", channel: "production", image: { reference }, command: "x" },
    },
  });
  expect((await accepted(attemptId)).refusedBecause).not.toBe("");
});

test("a restarted agent attaches to what runs, and tells all of its output once", async () => {
  const attemptId = offer("echo one; sleep 3; echo two");
  await accepted(attemptId);
  grant(attemptId);
  await phase(attemptId, RunPhase.STARTED);
  await waitFor("the first line", () => control.logs.get(attemptId) === "one\n");
  const before = await container(attemptId);
  await agent[Symbol.asyncDispose]();
  agent = await newAgent();
  expect(await phase(attemptId, RunPhase.EXITED)).toMatchObject({ exitCode: 0 });
  await waitFor("all of the output", () => control.logs.get(attemptId) === "one\ntwo\n");
  expect((await container(attemptId))?.id).toBe(before?.id);
});

test("a restarted agent does not start what it had only accepted", async () => {
  const attemptId = offer("echo no");
  await accepted(attemptId);
  await agent[Symbol.asyncDispose]();
  agent = await newAgent();
  await phase(attemptId, RunPhase.NOT_STARTED);
  grant(attemptId);
  expect(await container(attemptId)).toBeNull();
});

test("a container that vanishes leaves its end unknown", async () => {
  const attemptId = offer("sleep 60");
  await accepted(attemptId);
  grant(attemptId);
  await phase(attemptId, RunPhase.STARTED);
  await node.engine.removeContainer(runContainerName(attemptId));
  await phase(attemptId, RunPhase.INDETERMINATE);
});

test("a grant for an attempt that nobody remembers starts nothing", async () => {
  grant("unknown.1");
  await phase("unknown.1", RunPhase.INDETERMINATE);
  expect(await container("unknown.1")).toBeNull();
});

const gates = async (): Promise<{ Name: string }[]> => {
  const filters = JSON.stringify({ label: [`${labels.node}=${node.owner.nodeId}`] });
  return (await docker.listVolumes({ filters })).Volumes ?? [];
};

test("an image's own user runs its command, and the gate goes with its container", async () => {
  // Its exit code is the one of a container that is held back, too.
  const attemptId = offer("id -u; exit 75", 60, [], userImage);
  await accepted(attemptId);
  grant(attemptId);
  expect(await phase(attemptId, RunPhase.EXITED)).toMatchObject({ exitCode: 75, message: "" });
  expect(control.logs.get(attemptId)).toBe("1000\n");
  expect(await gates()).toHaveLength(1);
  acknowledge(attemptId);
  await waitFor("the gate to go", async () => (await gates()).length === 0);
});

test("of an image without a shell it is said that it has none", async () => {
  const attemptId = offer("echo no", 60, [], bareImage);
  await accepted(attemptId);
  grant(attemptId);
  const status = await phase(attemptId, RunPhase.EXITED);
  expect(status).toMatchObject({
    exitCode: 127,
    message: expect.stringContaining("/bin/sh, which the image does not have"),
  });
  acknowledge(attemptId);
  await waitFor("the gate to go", async () => (await gates()).length === 0);
});

test("a gate whose container was never written down goes as well, and no other", async () => {
  const marks = { [labels.cluster]: node.owner.clusterId, [labels.node]: node.owner.nodeId };
  await docker.createVolume({ Labels: { ...marks, [labels.gate]: "gone.1" } });
  await docker.createVolume({ Labels: marks });
  await node.engine.removeStrayGates((attemptId) => attemptId === "gone.1");
  expect(await gates()).toHaveLength(2);
  await node.engine.removeStrayGates(() => false);
  const [other, ...more] = await gates();
  expect(more).toEqual([]);
  await docker.getVolume(other?.Name ?? "").remove();
});

/** Numbered lines with characters of several bytes, `count` of them, and a value that must not show in each. */
const long = (count: number): string =>
  `i=0; while [ $i -lt ${count} ]; do i=$((i + 1)); echo "$i ééééééééééééééééééééééééééééééééééééé hidden-value €"; done`;
const lineOf = (number: number): string => `${number} ééééééééééééééééééééééééééééééééééééé [redacted] €\n`;
const linesUntil = (count: number): string => Array.from({ length: count }, (_, at) => lineOf(at + 1)).join("");

/** Of a log, that it is the beginning and the end of `whole` with the right numbers in between. */
function expectBothEnds(kept: string, whole: string): void {
  const note = /^\[(\d+) lines left out, (\d+) bytes\]\n/m.exec(kept);
  const [head = "", tail = ""] = kept.split(note?.[0] ?? "none");
  expect([whole.startsWith(head), whole.endsWith(tail)]).toEqual([true, true]);
  const halfBytes = limits.jobLogBytesMax / 2;
  for (const half of [head, tail]) expect(Buffer.byteLength(half)).toBeGreaterThan(halfBytes - 300);
  expect(Buffer.byteLength(kept)).toBeLessThanOrEqual(limits.jobLogBytesMax);
  const gone = whole.slice(head.length, whole.length - tail.length);
  expect(note?.slice(1).map(Number)).toEqual([gone.split("\n").length - 1, Buffer.byteLength(gone)]);
}

test("of 2 MiB of output both ends are there when the run is over, and nothing that must not show", async () => {
  const attemptId = offer(long(24_000), 120, ["hidden-value"]);
  await accepted(attemptId);
  grant(attemptId);
  await phase(attemptId, RunPhase.EXITED);
  const whole = linesUntil(24_000);
  expect(Buffer.byteLength(whole)).toBeGreaterThan(2 * 1024 * 1024);
  expectBothEnds(control.logs.get(attemptId) ?? "", whole);
});

test("an agent that is restarted in the middle loses neither end, and tells none twice", async () => {
  const untilTold = 'while [ -z "$told" ]; do sleep 0.1; done';
  const attemptId = offer(`trap "told=1" USR1; ${long(13_000)}; ${untilTold}; echo last`, 120, ["hidden-value"]);
  await accepted(attemptId);
  grant(attemptId);
  const name = runContainerName(attemptId);
  await waitFor("the first half", async () => (await node.engine.readLog(name, 1)).includes("13000 "));
  await waitFor("the beginning", () => Buffer.byteLength(control.logs.get(attemptId) ?? "") > 500_000);
  const before = control.logs.get(attemptId);
  await agent[Symbol.asyncDispose]();
  expect(control.logs.get(attemptId)).toBe(before);
  agent = await newAgent();
  await docker.getContainer(name).kill({ signal: "SIGUSR1" });
  expect(await phase(attemptId, RunPhase.EXITED)).toMatchObject({ exitCode: 0 });
  expectBothEnds(control.logs.get(attemptId) ?? "", `${linesUntil(13_000)}last\n`);
});

test("an agent that is restarted before control has the end of an output tells it all the same", async () => {
  const attemptId = offer(long(13_000), 120, ["hidden-value"]);
  await accepted(attemptId);
  grant(attemptId);
  await phase(attemptId, RunPhase.EXITED);
  const whole = control.logs.get(attemptId) ?? "";
  // As if the last appends had been lost with the agent.
  control.cutLog(attemptId, 600_000);
  await agent[Symbol.asyncDispose]();
  agent = await newAgent();
  await waitFor("all of it", () => control.logs.get(attemptId) === whole);
});
