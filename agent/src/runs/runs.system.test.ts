import { Desired, Observed, RunPhase, type RunStatus } from "@svc/proto/node";
import { systemClock } from "@svc/runtime/system";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type Agent, start } from "../start.ts";
import { createTestNode, type TestNode } from "../testing/agent.ts";
import { createTestControl, type TestControl } from "../testing/control.ts";
import { startRegistry } from "../testing/registry.ts";
import { packSource, pushSource } from "../testing/source.ts";
import { waitFor } from "../testing/wait.ts";
import { runContainerName } from "./attempt.ts";

let registry: Awaited<ReturnType<typeof startRegistry>>;
let node: TestNode;
let control: TestControl;
let agent: Agent;
let image = "";
let count = 0;

const newAgent = async (): Promise<Agent> => {
  const started = await start(node.config, { openLink: control.openLink });
  await started.ready;
  return started;
};

beforeAll(async () => {
  registry = await startRegistry();
  node = await createTestNode();
  control = createTestControl({ registryHost: registry.host });
  agent = await newAgent();
  const sourceDigest = await pushSource(
    registry.host,
    "svc/p1/source",
    await packSource({ Dockerfile: "FROM node:24-slim\n" }),
  );
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
  await control.assign({
    upserts: [
      { placementId: "build", epoch: 1n, desired: Desired.RUNNING, specHash: "h", spec: { case: "build", value } },
    ],
  });
  const status = await control.status("build", ({ observed }) => observed >= Observed.COMPLETED, 120_000);
  image = `${registry.host}/svc/p1/app@${status.build?.digest}`;
}, 180_000);

afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  const built = image === "" ? null : await node.engine.findImage(image);
  await node?.[Symbol.asyncDispose]();
  if (built) await node.engine.removeImage(built.id);
  await registry?.[Symbol.asyncDispose]();
});

afterEach(() => {
  for (const attemptId of control.runs.keys()) acknowledge(attemptId);
});

function offer(command: string, timeoutSeconds = 60, redact: string[] = []): string {
  count += 1;
  const attemptId = `deploy-${count}.1`;
  control.send({
    message: {
      case: "runOffer",
      value: {
        attemptId,
        projectId: "p1",
        channel: "production",
        image: { reference: image },
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
