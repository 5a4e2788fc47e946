import { describe, expect, test } from "vitest";
import type { ObservationValue } from "../../fleet/cluster/keys.ts";
import {
  type ContainerFacts,
  edgesWaitMs,
  nextSuspensionStep,
  resumeWaitMs,
  type ServedFacts,
  type SuspensionFacts,
} from "./steps.ts";

const now = new Date("2026-03-01T12:00:00Z");
const ago = (ms: number) => new Date(now.getTime() - ms);

const observed = (state: ObservationValue["observed"], code?: string): ObservationValue => ({
  placementId: "t1",
  epoch: 1,
  statusSeq: 1,
  observed: state,
  health: state === "running" ? "healthy" : null,
  restartSeq: 0,
  upstream: state === "running" ? "127.0.9.1:20000" : null,
  failure: code === undefined ? null : { code, message: `because of ${code}`, exitCode: 1, oomKilled: false },
  build: null,
  changedAt: now.toISOString(),
});
const aContainer = (change: Partial<ContainerFacts> = {}): ContainerFacts => ({
  id: "t1",
  slot: 0,
  deploymentId: "d1",
  createdAt: ago(1_000),
  desired: "running",
  nodeId: "n1",
  refused: null,
  nodeLostAt: null,
  observation: observed("running"),
  ...change,
});
const aServed = (change: Partial<ServedFacts> = {}): ServedFacts => ({
  deploymentId: "d1",
  replicas: 1,
  attempts: 0,
  healthTimeoutSeconds: 60,
  ...change,
});

const someFacts = (change: Partial<SuspensionFacts>): SuspensionFacts => ({
  now,
  lookingSince: ago(3_600_000),
  projectGone: false,
  suspension: { since: ago(1_000), resumingSince: null, unroutedAt: null },
  open: [],
  served: [aServed()],
  containers: [aContainer()],
  unrouted: false,
  drainMs: 5_000,
  edgesWaitMs,
  ...change,
});
const suspended = (sinceMs: number, change: Partial<SuspensionFacts> & { unroutedAt?: Date } = {}) => {
  const { unroutedAt = null, ...more } = change;
  return someFacts({ suspension: { since: ago(sinceMs), resumingSince: null, unroutedAt }, ...more });
};
const resuming = (sinceMs: number, change: Partial<SuspensionFacts> = {}) =>
  someFacts({ suspension: { since: ago(3_600_000), resumingSince: ago(sinceMs), unroutedAt: null }, ...change });

interface Case {
  when: string;
  facts: SuspensionFacts;
  step: object;
}
const run = ({ facts, step }: Case) => expect(nextSuspensionStep(facts)).toMatchObject(step);

describe("a project that was suspended", () => {
  test.each<Case>([
    {
      when: "visitors may still reach its container",
      facts: suspended(1_000),
      step: { do: "wait", isLong: false },
    },
    {
      when: "every edge shows the page",
      facts: suspended(1_000, { unrouted: true }),
      step: { do: "noteUnrouted" },
    },
    {
      when: "requests are still under way",
      facts: suspended(6_000, { unrouted: true, unroutedAt: ago(4_999) }),
      step: { do: "wait" },
    },
    {
      when: "requests have drained",
      facts: suspended(6_000, { unrouted: true, unroutedAt: ago(5_000) }),
      step: { do: "stop", taskIds: ["t1"], desired: "removed" },
    },
    {
      when: "visitors reach its container all the same, or again",
      facts: suspended(edgesWaitMs, { unroutedAt: ago(5_000) }),
      step: { do: "forgetUnrouted" },
    },
    {
      when: "an edge does not answer",
      facts: suspended(edgesWaitMs - 1),
      step: { do: "wait", isLong: true },
    },
    {
      when: "an edge has not answered for too long: the app stops, and its port stays its own",
      facts: suspended(edgesWaitMs),
      step: { do: "stop", taskIds: ["t1"], desired: "stopped" },
    },
    {
      when: "nobody has looked for long",
      facts: suspended(3_600_000, { lookingSince: ago(1_000) }),
      step: { do: "wait" },
    },
    {
      when: "the app is stopped and the edge still away",
      facts: suspended(600_000, { containers: [aContainer({ desired: "stopped" })] }),
      step: { do: "wait", isLong: true },
    },
    {
      when: "the edge is back",
      facts: suspended(600_000, { containers: [aContainer({ desired: "stopped" })], unrouted: true }),
      step: { do: "stop", taskIds: ["t1"], desired: "removed" },
    },
    { when: "it has no container", facts: suspended(1_000, { containers: [] }), step: { do: "end" } },
    {
      when: "deployments wait in the queue, with containers and without",
      facts: suspended(1_000, { open: [{ id: "d2", status: "queued", hasWork: true }] }),
      step: { do: "endQueued" },
    },
    {
      when: "a deployment is on its way that may still start something",
      facts: suspended(1_000, { containers: [], open: [{ id: "d2", status: "deploying", hasWork: true }] }),
      step: { do: "wait" },
    },
    {
      when: "nobody works on a deployment that is on its way",
      facts: suspended(1_000, { open: [{ id: "d2", status: "building", hasWork: false }] }),
      step: { do: "takeUp", deploymentIds: ["d2"] },
    },
    { when: "it is being deleted", facts: suspended(1_000, { projectGone: true }), step: { do: "end" } },
  ])("when $when", run);
});

describe("a project that is being resumed", () => {
  const failed = (code: string) => aContainer({ observation: observed("failed", code) });
  test.each<Case>([
    { when: "nothing was stopped yet", facts: resuming(100), step: { do: "resume", failures: [] } },
    {
      when: "it served nothing from containers",
      facts: resuming(100, { served: [], containers: [] }),
      step: { do: "resume", failures: [] },
    },
    {
      when: "its containers are gone",
      facts: resuming(100, { containers: [] }),
      step: { do: "start", deploymentId: "d1", slots: [0], abandoned: [] },
    },
    {
      when: "what is left was stopped, and never runs again",
      facts: resuming(100, { containers: [aContainer({ desired: "stopped" })] }),
      step: { do: "start", deploymentId: "d1", slots: [0], abandoned: [] },
    },
    {
      when: "one of two containers is up",
      facts: resuming(100, { served: [aServed({ replicas: 2 })] }),
      step: { do: "start", deploymentId: "d1", slots: [1] },
    },
    {
      when: "the app starts",
      facts: resuming(1_000, { containers: [aContainer({ observation: observed("starting") })] }),
      step: { do: "wait", isLong: false },
    },
    {
      when: "the app takes its time",
      facts: resuming(60_000, { containers: [aContainer({ observation: observed("pulling") })] }),
      step: { do: "wait", isLong: true },
    },
    {
      when: "the app does not answer for too long",
      facts: resuming(resumeWaitMs, { containers: [aContainer({ observation: observed("pulling") })] }),
      step: { do: "resume", failures: [{ deploymentId: "d1", isOver: false }] },
    },
    {
      when: "the app fails by itself",
      facts: resuming(1_000, { containers: [failed("HEALTH_CHECK_FAILED")], served: [aServed({ attempts: 1 })] }),
      step: {
        do: "resume",
        failures: [{ deploymentId: "d1", message: "because of HEALTH_CHECK_FAILED", isOver: true }],
      },
    },
    {
      when: "the node could not do it",
      facts: resuming(1_000, { containers: [failed("NODE_TASK_FAILED")], served: [aServed({ attempts: 1 })] }),
      step: { do: "start", deploymentId: "d1", abandoned: [{ taskId: "t1" }] },
    },
    {
      when: "no node could do it, again and again",
      facts: resuming(1_000, { containers: [failed("NODE_TASK_FAILED")], served: [aServed({ attempts: 3 })] }),
      step: { do: "resume", failures: [{ isOver: false, message: expect.stringContaining("NODE_TASK_FAILED") }] },
    },
    {
      when: "its node went away a moment ago",
      facts: resuming(1_000, { containers: [aContainer({ observation: null, nodeLostAt: ago(1_000) })] }),
      step: { do: "wait" },
    },
    {
      when: "its node went away long ago",
      facts: resuming(90_000, { containers: [aContainer({ nodeLostAt: ago(61_000), observation: null })] }),
      step: { do: "start", abandoned: [{ taskId: "t1" }] },
    },
    {
      when: "no node has had room for a while",
      facts: resuming(90_000, {
        containers: [
          aContainer({ nodeId: null, observation: null, refused: { "too little memory": 2 }, createdAt: ago(60_000) }),
        ],
      }),
      step: { do: "resume", failures: [{ isOver: false, message: expect.stringContaining("too little memory") }] },
    },
    {
      when: "half of its containers are up, and there is no room for the others",
      facts: resuming(20_000, {
        served: [aServed({ replicas: 2 })],
        containers: [
          aContainer(),
          aContainer({
            ...{ id: "t2", slot: 1, nodeId: null, observation: null },
            ...{ refused: { "too little memory": 2 }, createdAt: ago(10_000) },
          }),
        ],
      }),
      step: { do: "resume", failures: [{ isOver: false, message: expect.stringContaining("too little memory") }] },
    },
    {
      when: "one app is up, one has failed, and one still starts",
      facts: resuming(1_000, {
        served: [aServed(), aServed({ deploymentId: "d2" }), aServed({ deploymentId: "d3" })],
        containers: [
          aContainer(),
          aContainer({ id: "t2", deploymentId: "d2", observation: observed("failed", "START_FAILED") }),
          aContainer({ id: "t3", deploymentId: "d3", observation: observed("starting") }),
        ],
      }),
      step: { do: "wait" },
    },
    {
      when: "a deployment of before has not ended yet",
      facts: resuming(1_000, { open: [{ id: "d2", status: "deploying", hasWork: true }] }),
      step: { do: "wait" },
    },
    {
      when: "deployments of before are still queued",
      facts: resuming(1_000, { open: [{ id: "d2", status: "queued", hasWork: true }] }),
      step: { do: "endQueued" },
    },
  ])("when $when", run);
});

describe("a project that is not suspended any more", () => {
  const left = [aContainer(), aContainer({ id: "t2", desired: "stopped" })];
  test.each<Case>([
    { when: "all is as before", facts: someFacts({ suspension: null }), step: { do: "end" } },
    {
      when: "an edge may still lead to a stopped container",
      facts: someFacts({ suspension: null, containers: left }),
      step: { do: "wait", isLong: true },
    },
    {
      when: "no edge does any more",
      facts: someFacts({ suspension: null, containers: left, unrouted: true }),
      step: { do: "stop", taskIds: ["t2"], desired: "removed" },
    },
  ])("when $when", run);
});
