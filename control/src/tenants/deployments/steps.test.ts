import { describe, expect, test } from "vitest";
import type { ObservationValue, RunValue } from "../../fleet/cluster/keys.ts";
import type { TaskFacts } from "../../fleet/tasks/deployment-status.ts";
import { type DeployFacts, deployDeadlines, nextDeployStep } from "./steps.ts";

const now = new Date("2030-01-01T12:00:00Z");
const ago = (ms: number) => new Date(now.getTime() - ms);

const someFacts = (change: Partial<DeployFacts> = {}): DeployFacts => ({
  now,
  id: "d1",
  type: "ssr",
  status: "building",
  statusSince: ago(1_000),
  lookingSince: ago(86_400_000),
  cancelRequested: false,
  held: false,
  projectGone: false,
  suspended: false,
  overtaken: false,
  artifact: null,
  buildAttempts: 0,
  build: null,
  release: { timeoutSeconds: null, status: "not_configured", attempt: 0, run: null, nodeLostAt: null },
  healthTimeoutSeconds: 60,
  replicas: 1,
  serveAttempts: 0,
  replacesContainers: false,
  draining: false,
  serve: [],
  active: false,
  activatedAt: null,
  route: { published: false, edgesCurrent: 0, edgesInRotation: 1 },
  ...change,
});

const aTask = (change: Partial<TaskFacts> = {}): TaskFacts => ({
  id: "t1",
  slot: 0,
  createdAt: ago(1_000),
  desired: "running",
  nodeId: "n1",
  refused: null,
  nodeLostAt: null,
  observation: null,
  ...change,
});

const observed = (state: ObservationValue["observed"], change: Partial<ObservationValue> = {}): ObservationValue => ({
  placementId: "t1",
  epoch: 1,
  statusSeq: 1,
  observed: state,
  health: null,
  restartSeq: 0,
  upstream: null,
  failure: null,
  build: null,
  changedAt: now.toISOString(),
  ...change,
});

const healthy = observed("running", { health: "healthy", upstream: "127.0.1.1:40000" });
const artifact = { kind: "image" as const, digest: "sha256:1" };
const deploying = (change: Partial<DeployFacts> = {}) => someFacts({ status: "deploying", artifact, ...change });

const aRun = (state: RunValue["state"], change: Partial<RunValue> = {}): RunValue => ({
  attemptId: "d1.1",
  kind: "release",
  ownerKind: "deployment",
  ownerId: "d1",
  projectId: "p1",
  state,
  cancel: false,
  acceptedBy: null,
  token: null,
  exitCode: null,
  timedOut: false,
  message: null,
  startedAt: null,
  finishedAt: null,
  changedAt: now.toISOString(),
  ...change,
});
const withRelease = (change: Partial<DeployFacts["release"]>) =>
  deploying({
    release: { timeoutSeconds: 300, status: "pending", attempt: 1, run: null, nodeLostAt: null, ...change },
  });

describe("before and while building", () => {
  test.each<{ when: string; facts: DeployFacts; step: object }>([
    { when: "it waits in the queue", facts: someFacts({ status: "queued" }), step: { do: "claim" } },
    { when: "a newer one is queued", facts: someFacts({ status: "queued", overtaken: true }), step: { do: "cancel" } },
    { when: "a newer one comes while it builds", facts: someFacts({ overtaken: true }), step: { do: "createBuild" } },
    { when: "its project is deleted", facts: someFacts({ projectGone: true }), step: { do: "cancel" } },
    {
      when: "its project is suspended",
      facts: someFacts({ suspended: true }),
      step: { do: "fail", code: "PROJECT_SUSPENDED" },
    },
    { when: "it is an image", facts: someFacts({ type: "ociimage" }), step: { do: "resolveImage" } },
    { when: "nothing builds yet", facts: someFacts(), step: { do: "createBuild" } },
    {
      when: "the build runs",
      facts: someFacts({ build: aTask({ observation: observed("running") }) }),
      step: { do: "wait" },
    },
    {
      when: "the build is done",
      facts: someFacts({
        build: aTask({
          observation: observed("completed", {
            build: { digest: "sha256:1", sizeBytes: 1, os: null, architecture: null },
          }),
        }),
      }),
      step: { do: "acceptBuild", taskId: "t1" },
    },
    {
      when: "the build failed",
      facts: someFacts({
        build: aTask({
          observation: observed("failed", {
            failure: { code: "BUILD_FAILED", message: "npm run build: exit 1", exitCode: 1, oomKilled: false },
          }),
        }),
      }),
      step: { do: "fail", code: "BUILD_FAILED", message: "npm run build: exit 1" },
    },
    {
      when: "no node has room for a minute",
      facts: someFacts({
        build: aTask({
          nodeId: null,
          refused: { "too little memory": 2 },
          createdAt: ago(deployDeadlines.placementMs),
        }),
      }),
      step: { do: "fail", code: "NODE_CAPACITY_UNAVAILABLE" },
    },
    {
      when: "no scheduler has looked at it for a minute",
      facts: someFacts({ build: aTask({ nodeId: null, createdAt: ago(deployDeadlines.placementMs) }) }),
      step: { do: "wait" },
    },
    {
      when: "no scheduler was there for minutes",
      facts: someFacts({ build: aTask({ nodeId: null, createdAt: ago(deployDeadlines.schedulerMs) }) }),
      step: { do: "fail", code: "NODE_UNAVAILABLE" },
    },
    {
      when: "the build took long while nobody looked",
      facts: someFacts({
        lookingSince: ago(5_000),
        build: aTask({ createdAt: ago(deployDeadlines.buildMs + deployDeadlines.graceMs) }),
      }),
      step: { do: "wait" },
    },
    {
      when: "the building node went away for long",
      facts: someFacts({ build: aTask({ nodeLostAt: ago(deployDeadlines.nodeLostMs) }) }),
      step: { do: "abandonTask", taskId: "t1" },
    },
    {
      when: "the building node is away for a moment",
      facts: someFacts({ build: aTask({ nodeLostAt: ago(5_000) }) }),
      step: { do: "wait" },
    },
    {
      when: "every node that built it went away",
      facts: someFacts({ buildAttempts: deployDeadlines.attempts }),
      step: { do: "fail", code: "NODE_UNAVAILABLE" },
    },
    {
      when: "the build takes for ever",
      facts: someFacts({ build: aTask({ createdAt: ago(deployDeadlines.buildMs + deployDeadlines.graceMs) }) }),
      step: { do: "fail", code: "BUILD_TIMEOUT" },
    },
    { when: "the artifact is there", facts: someFacts({ artifact }), step: { do: "beginDeploying" } },
  ])("$when", ({ facts, step }) => {
    expect(nextDeployStep(facts)).toMatchObject(step);
  });
});

describe("the release command", () => {
  test.each<{ when: string; facts: DeployFacts; step: object }>([
    { when: "there is none", facts: deploying(), step: { do: "createServe" } },
    { when: "it was not offered yet", facts: withRelease({ attempt: 0 }), step: { do: "offerRelease", attempt: 1 } },
    {
      when: "no node has room for it for a minute",
      facts: {
        ...withRelease({ attempt: 0, refused: { "too little memory": 2, cordoned: 1 } }),
        statusSince: ago(deployDeadlines.placementMs),
      },
      step: {
        ...{ do: "fail", code: "NODE_CAPACITY_UNAVAILABLE" },
        message: "No node takes the release command (2 nodes: too little memory; 1 node: cordoned).",
      },
    },
    {
      when: "the offer was lost before it was written",
      facts: withRelease({}),
      step: { do: "offerRelease", attempt: 1 },
    },
    { when: "a node thinks about it", facts: withRelease({ run: aRun("offered") }), step: { do: "wait" } },
    { when: "a node accepted", facts: withRelease({ run: aRun("accepted") }), step: { do: "grantRelease" } },
    {
      when: "the node that accepted is away for a moment",
      facts: withRelease({ run: aRun("accepted"), nodeLostAt: ago(1) }),
      step: { do: "wait" },
    },
    {
      when: "the node that accepted went away before the grant",
      facts: withRelease({ run: aRun("accepted"), nodeLostAt: ago(20_000) }),
      step: { do: "withdrawRelease" },
    },
    { when: "a node refused", facts: withRelease({ run: aRun("refused") }), step: { do: "offerRelease", attempt: 2 } },
    {
      when: "it certainly did not start",
      facts: withRelease({ run: aRun("not_started") }),
      step: { do: "offerRelease", attempt: 2 },
    },
    {
      when: "it did not start three times",
      facts: withRelease({ attempt: 3, run: aRun("not_started") }),
      step: { do: "failRelease", code: "RELEASE_FAILED" },
    },
    { when: "it was granted", facts: withRelease({ run: aRun("granted") }), step: { do: "wait" } },
    {
      when: "the granted node went away: it may have run, so it is never offered again",
      facts: withRelease({ run: aRun("granted"), nodeLostAt: ago(600_000) }),
      step: { do: "wait" },
    },
    {
      when: "it started",
      facts: withRelease({ run: aRun("started") }),
      step: { do: "recordRelease", status: "running" },
    },
    {
      when: "it succeeded",
      facts: withRelease({ status: "running", run: aRun("exited", { exitCode: 0 }) }),
      step: { do: "recordRelease", status: "succeeded" },
    },
    {
      when: "it failed",
      facts: withRelease({ status: "running", run: aRun("exited", { exitCode: 3 }) }),
      step: { do: "failRelease", code: "RELEASE_FAILED" },
    },
    {
      when: "it took too long",
      facts: withRelease({ run: aRun("exited", { timedOut: true }) }),
      step: { do: "failRelease", code: "RELEASE_TIMEOUT" },
    },
    {
      when: "nobody knows",
      facts: withRelease({ run: aRun("indeterminate") }),
      step: { do: "failRelease", code: "RELEASE_INDETERMINATE" },
    },
    {
      when: "its record is lost while it ran",
      facts: withRelease({ status: "running", run: null }),
      step: { do: "failRelease", code: "RELEASE_INDETERMINATE" },
    },
    {
      when: "its node is silent past every deadline",
      facts: withRelease({
        status: "running",
        run: aRun("started", { changedAt: ago(300_000 + 2 * deployDeadlines.graceMs).toISOString() }),
      }),
      step: { do: "failRelease", code: "RELEASE_INDETERMINATE" },
    },
    { when: "it is over", facts: withRelease({ status: "succeeded" }), step: { do: "createServe" } },
  ])("$when", ({ facts, step }) => {
    expect(nextDeployStep(facts)).toMatchObject(step);
  });
});

describe("an end that was asked for", () => {
  const canceled = (change: Partial<DeployFacts["release"]>) => ({ ...withRelease(change), cancelRequested: true });
  test.each<{ when: string; facts: DeployFacts; step: object }>([
    { when: "it waits", facts: someFacts({ status: "queued", cancelRequested: true }), step: { do: "cancel" } },
    {
      when: "it builds",
      facts: someFacts({ cancelRequested: true, build: aTask({ observation: observed("running") }) }),
      step: { do: "cancel" },
    },
    { when: "the release was not offered", facts: canceled({ attempt: 0 }), step: { do: "cancel" } },
    {
      when: "a node thinks about the release",
      facts: canceled({ run: aRun("offered") }),
      step: { do: "cancelRelease" },
    },
    { when: "a node accepted the release", facts: canceled({ run: aRun("accepted") }), step: { do: "cancelRelease" } },
    {
      when: "the node that was offered the release is away",
      facts: canceled({ run: aRun("accepted"), nodeLostAt: ago(1_000) }),
      step: { do: "withdrawRelease" },
    },
    { when: "the release runs", facts: canceled({ run: aRun("started") }), step: { do: "cancelRelease" } },
    {
      when: "the release is being ended",
      facts: canceled({ status: "running", run: aRun("started", { cancel: true }) }),
      step: { do: "wait" },
    },
    {
      when: "the release was ended",
      facts: canceled({ status: "running", run: aRun("exited", { exitCode: 143 }) }),
      step: { do: "cancel" },
    },
    {
      when: "the node of the release does not answer",
      facts: canceled({
        run: aRun("started", { cancel: true, changedAt: ago(deployDeadlines.graceMs).toISOString() }),
      }),
      step: { do: "cancel" },
    },
    {
      when: "the project is suspended while the release runs",
      facts: { ...withRelease({ run: aRun("started") }), suspended: true },
      step: { do: "cancelRelease" },
    },
    { when: "it is being routed", facts: deploying({ active: true, cancelRequested: true }), step: { do: "cancel" } },
  ])("when $when", ({ facts, step }) => {
    expect(nextDeployStep(facts)).toMatchObject(step);
  });
});

describe("starting and routing", () => {
  const active = { active: true, activatedAt: ago(1_000) };
  test.each<{ when: string; facts: DeployFacts; step: object }>([
    {
      when: "a static site has no container",
      facts: deploying({ type: "static", replicas: 0 }),
      step: { do: "activate" },
    },
    { when: "two replicas are wanted", facts: deploying({ replicas: 2 }), step: { do: "createServe" } },
    {
      when: "the container starts",
      facts: deploying({ serve: [aTask({ observation: observed("starting") })] }),
      step: { do: "wait" },
    },
    {
      when: "the container runs but does not answer",
      facts: deploying({ serve: [aTask({ observation: observed("running", { health: "starting" }) })] }),
      step: { do: "wait" },
    },
    {
      when: "the container fails",
      facts: deploying({
        serve: [
          aTask({
            observation: observed("failed", {
              failure: { code: "HEALTH_CHECK_FAILED", message: "saw 500", exitCode: null, oomKilled: false },
            }),
          }),
        ],
      }),
      step: { do: "fail", code: "HEALTH_CHECK_FAILED", message: "saw 500" },
    },
    {
      when: "its node could not start the container",
      facts: deploying({
        serveAttempts: 1,
        serve: [
          aTask({
            observation: observed("failed", {
              failure: { code: "NODE_TASK_FAILED", message: "no disk", exitCode: null, oomKilled: false },
            }),
          }),
        ],
      }),
      step: { do: "createServe", slots: [0], abandoned: [{ taskId: "t1", why: "no disk" }] },
    },
    {
      when: "the container answers",
      facts: deploying({ serve: [aTask({ observation: healthy })] }),
      step: { do: "activate" },
    },
    {
      when: "edges have not followed",
      facts: deploying({ ...active, serve: [aTask({ observation: healthy })] }),
      step: { do: "wait" },
    },
    {
      when: "every edge has followed",
      facts: deploying({ ...active, route: { published: true, edgesCurrent: 2, edgesInRotation: 2 } }),
      step: { do: "finish", detail: null },
    },
    {
      when: "there is no edge at all",
      facts: deploying({ ...active, route: { published: true, edgesCurrent: 0, edgesInRotation: 0 } }),
      step: { do: "wait" },
    },
    {
      when: "one edge is behind for long",
      facts: deploying({
        active: true,
        activatedAt: ago(deployDeadlines.routeMs),
        route: { published: true, edgesCurrent: 1, edgesInRotation: 2 },
      }),
      step: { do: "finish", detail: expect.stringContaining("ROUTE_DIVERGED") },
    },
    {
      when: "no edge followed at all",
      facts: deploying({
        active: true,
        activatedAt: ago(deployDeadlines.routeMs),
        route: { published: true, edgesCurrent: 0, edgesInRotation: 2 },
      }),
      step: { do: "revert" },
    },
  ])("$when", ({ facts, step }) => {
    expect(nextDeployStep(facts)).toMatchObject(step);
  });

  test.each(["running", "failed", "superseded", "canceled", "stopped"] as const)(
    "a deployment that is %s is left alone",
    (status) => {
      expect(nextDeployStep(someFacts({ status }))).toEqual({ do: "end" });
    },
  );
});

describe("while a stop covers it", () => {
  const serve = [aTask({ observation: healthy })];
  const withRelease = (status: "pending" | "succeeded") => ({
    release: { timeoutSeconds: 300, status, attempt: status === "pending" ? 0 : 1, run: null, nodeLostAt: null },
  });
  test.each<{ when: string; facts: DeployFacts; does: string }>([
    { when: "it is queued", facts: someFacts({ status: "queued" }), does: "claim" },
    { when: "it is not built", facts: someFacts(), does: "createBuild" },
    { when: "it is built", facts: someFacts({ artifact }), does: "beginDeploying" },
    { when: "its release command has not run", facts: deploying(withRelease("pending")), does: "offerRelease" },
    { when: "its release command has run", facts: deploying(withRelease("succeeded")), does: "hold" },
    { when: "it has nothing to release", facts: deploying(), does: "hold" },
    { when: "it is a static site", facts: deploying({ type: "static", replicas: 0 }), does: "hold" },
    { when: "its containers answer", facts: deploying({ serve, serveAttempts: 1 }), does: "hold" },
    { when: "it has the traffic already", facts: deploying({ serve, active: true, activatedAt: now }), does: "wait" },
    { when: "it is canceled", facts: deploying({ cancelRequested: true }), does: "cancel" },
    { when: "its project is suspended", facts: deploying({ suspended: true }), does: "fail" },
    { when: "it is over", facts: someFacts({ status: "stopped" }), does: "end" },
  ])("when $when: $does", ({ facts, does }) => {
    expect(nextDeployStep({ ...facts, held: true }).do).toBe(does);
  });
});

describe("a release command that has no room", () => {
  const releasing = (change: Partial<DeployFacts["release"]> = {}): DeployFacts => ({
    ...withRelease({ attempt: 0, refused: { "too little memory": 1, cordoned: 1 }, ...change }),
    statusSince: ago(deployDeadlines.roomMs),
  });
  const refusedRun = aRun("refused", { changedAt: ago(deployDeadlines.roomMs).toISOString() });

  test.each([
    { when: "it was not offered yet", facts: releasing() },
    { when: "a node refused it", facts: releasing({ attempt: 1, run: refusedRun }) },
  ])("gets that of replaced containers which serve what is open: $when", ({ facts }) => {
    expect(nextDeployStep({ ...facts, draining: true })).toEqual({ do: "endDrains" });
  });

  test.each([
    { when: "there are none", facts: releasing(), draining: false },
    { when: "room may still be found", facts: { ...releasing(), statusSince: ago(1_000) }, draining: true },
    {
      when: "a node has just refused it",
      facts: releasing({ attempt: 1, run: { ...refusedRun, changedAt: ago(1_000).toISOString() } }),
      draining: true,
    },
    { when: "it has found some", facts: releasing({ refused: null }), draining: true },
    {
      when: "no node would take it with all of its room",
      facts: releasing({ refused: { drained: 1 } }),
      draining: true,
    },
  ])("is offered on when $when", ({ facts, draining }) => {
    expect(nextDeployStep({ ...facts, draining }).do).toBe("offerRelease");
  });
});

describe("several replicas", () => {
  const up = (id: string) => aTask({ id, observation: healthy });
  const blocked = (id: string, sinceMs: number = deployDeadlines.roomMs) =>
    aTask({ id, nodeId: null, refused: { "too little memory": 2 }, createdAt: ago(sinceMs) });
  const of = (serve: TaskFacts[], change: Partial<DeployFacts> = {}) =>
    nextDeployStep(
      deploying({
        ...{ replicas: serve.length, serve: serve.map((task, slot) => ({ ...task, slot })) },
        ...{ serveAttempts: serve.length, ...change },
      }),
    ).do;

  test("take over together", () => {
    expect(of([up("t1"), up("t2")])).toBe("activate");
    expect(of([up("t1"), aTask({ id: "t2" })])).toBe("wait");
  });

  test("take over without those that have no room beside the ones before, when at least half of them serve", () => {
    expect(of([up("t1"), blocked("t2")], { replacesContainers: true })).toBe("activate");
    expect(of([up("t1"), up("t2"), blocked("t3")], { replacesContainers: true })).toBe("activate");
  });

  test.each([
    { when: "nothing would make room", serve: [up("t1"), blocked("t2")], replacesContainers: false },
    { when: "too few serve", serve: [up("t1"), blocked("t2"), blocked("t3")], replacesContainers: true },
    { when: "room may still be found", serve: [up("t1"), blocked("t2", 1_000)], replacesContainers: true },
    { when: "one still starts", serve: [up("t1"), aTask({ id: "t2" }), blocked("t3")], replacesContainers: true },
  ])("wait when $when", ({ serve, replacesContainers }) => {
    expect(of(serve, { replacesContainers })).toBe("wait");
  });
});
