import { describe, expect, test } from "vitest";
import type { ObservationValue } from "../../../fleet/cluster/keys.ts";
import type { TaskFacts } from "../../../fleet/tasks/deployment-status.ts";
import { nextLifecycleStep, type StartFacts, type StopFacts } from "./steps.ts";

const now = new Date("2030-01-01T12:00:00Z");
const ago = (ms: number) => new Date(now.getTime() - ms);
const routeMs = 30_000;

const everywhere = { published: true, edgesCurrent: 2, edgesInRotation: 2 };
const partly = { ...everywhere, edgesCurrent: 0 };
const nowhere = { ...partly, published: false };

const common = { now, lookingSince: ago(86_400_000), askedAt: ago(1_000), projectGone: false };
const stopping = (change: Partial<StopFacts> = {}): StopFacts => ({
  ...{ ...common, action: "stop", status: "running", isCovered: true, route: nowhere },
  channel: { stopped: true, since: ago(1_000) },
  ...change,
});
const starting = (change: Partial<StartFacts> = {}): StartFacts => ({
  ...{ ...common, action: "start", status: "stopped", suspended: false, error: null, retiring: false, route: nowhere },
  channel: { stopped: true, since: ago(3_600_000) },
  app: { replicas: 1, attempts: 1, containers: [aContainer()], healthTimeoutSeconds: 60 },
  ...change,
});

const observed = (state: ObservationValue["observed"], code?: string): ObservationValue => ({
  ...{ placementId: "t1", epoch: 1, statusSeq: 1, observed: state, restartSeq: 0, build: null },
  ...{ health: state === "running" ? "healthy" : null, upstream: state === "running" ? "127.0.1.1:40000" : null },
  failure: code === undefined ? null : { code, message: `because of ${code}`, exitCode: 1, oomKilled: false },
  changedAt: now.toISOString(),
});
function aContainer(change: Partial<TaskFacts> = {}): TaskFacts {
  return {
    ...{ id: "t1", slot: 0, createdAt: ago(1_000), desired: "running", nodeId: "n1", refused: null, nodeLostAt: null },
    observation: observed("running"),
    ...change,
  };
}
const app = (change: Partial<NonNullable<StartFacts["app"]>>): Partial<StartFacts> => ({
  app: { replicas: 1, attempts: 1, containers: [], healthTimeoutSeconds: 60, ...change },
});
const open = { stopped: false, since: ago(1_000) };

interface Case {
  when: string;
  facts: StopFacts | StartFacts;
  step: object;
}
const run = ({ facts, step }: Case) => expect(nextLifecycleStep(facts)).toMatchObject(step);

describe("a stop", () => {
  test.each<Case>([
    {
      when: "visitors get the site",
      facts: stopping({ channel: { stopped: false, since: ago(9_000_000) } }),
      step: { do: "close" },
    },
    { when: "no edge has followed", facts: stopping(), step: { do: "wait", recheckMs: null } },
    { when: "one edge has not followed", facts: stopping({ route: partly }), step: { do: "wait", recheckMs: null } },
    { when: "every edge shows the page", facts: stopping({ route: everywhere }), step: { do: "stopped" } },
    {
      when: "an edge does not answer",
      facts: stopping({ route: partly, channel: { stopped: true, since: ago(routeMs) } }),
      step: { do: "stopped" },
    },
    {
      when: "no leader publishes anything",
      facts: stopping({ channel: { stopped: true, since: ago(routeMs) } }),
      step: { do: "wait", recheckMs: expect.any(Number) },
    },
    {
      when: "an edge did not answer while nobody looked",
      facts: stopping({ route: partly, lookingSince: ago(1), channel: { stopped: true, since: ago(routeMs) } }),
      step: { do: "wait", recheckMs: null },
    },
    {
      when: "another one takes over at this moment",
      facts: stopping({ status: "deploying" }),
      step: { do: "wait", recheckMs: null },
    },
    {
      when: "another one has been taking over for long",
      facts: stopping({ status: "deploying", askedAt: ago(60_000) }),
      step: { do: "wait", recheckMs: 15_000 },
    },
    { when: "what serves came after it", facts: stopping({ isCovered: false }), step: { do: "end", error: null } },
    { when: "it is stopped", facts: stopping({ status: "stopped" }), step: { do: "end", error: null } },
    { when: "the project goes", facts: stopping({ projectGone: true }), step: { do: "end", error: null } },
  ])("when $when", run);
});

describe("a start", () => {
  test.each<Case>([
    { when: "there is no container", facts: starting(app({})), step: { do: "make", slots: [0], abandoned: [] } },
    {
      when: "containers of before are on their way out",
      facts: starting({ ...app({}), retiring: true }),
      step: { do: "wait", recheckMs: 500 },
    },
    {
      when: "the app starts",
      facts: starting(app({ containers: [aContainer({ observation: observed("starting") })] })),
      step: { do: "wait", recheckMs: null },
    },
    {
      when: "the app takes its time",
      facts: starting(app({ containers: [aContainer({ observation: null, createdAt: ago(60_000) })] })),
      step: { do: "wait", recheckMs: 15_000 },
    },
    {
      when: "its node went away",
      facts: starting(app({ containers: [aContainer({ observation: null, nodeLostAt: ago(60_000) })] })),
      step: { do: "make", slots: [0], abandoned: [{ taskId: "t1" }] },
    },
    {
      when: "every node that started it went away",
      facts: starting(app({ attempts: 3, containers: [aContainer({ observation: null, nodeLostAt: ago(60_000) })] })),
      step: { do: "fail", message: expect.stringContaining("went away") },
    },
    {
      when: "the app fails",
      facts: starting(app({ containers: [aContainer({ observation: observed("failed", "START_FAILED") })] })),
      step: { do: "fail", message: "because of START_FAILED" },
    },
    {
      when: "no node has room for it",
      facts: starting(
        app({
          containers: [
            aContainer({ nodeId: null, refused: { cordoned: 1 }, observation: null, createdAt: ago(60_000) }),
          ],
        }),
      ),
      step: { do: "fail", message: expect.stringContaining("cordoned") },
    },
    {
      when: "the app does not answer for long",
      facts: starting(app({ containers: [aContainer({ observation: null, createdAt: ago(3_600_000) })] })),
      step: { do: "fail", message: expect.stringContaining("did not answer its health path") },
    },
    { when: "the app answers", facts: starting(), step: { do: "open" } },
    { when: "it is a static site", facts: starting({ app: null }), step: { do: "open" } },
    { when: "no edge has followed", facts: starting({ channel: open }), step: { do: "wait", recheckMs: null } },
    {
      when: "every edge shows it",
      facts: starting({ channel: open, route: everywhere }),
      step: { do: "started", detail: null },
    },
    {
      when: "every edge shows it, and there is no room for all of it",
      facts: starting({
        ...{ channel: open, route: everywhere },
        ...app({
          replicas: 2,
          containers: [
            aContainer(),
            aContainer({ id: "t2", slot: 1, nodeId: null, refused: { cordoned: 1 }, createdAt: ago(20_000) }),
          ].map((each, at) => (at === 1 ? { ...each, observation: null } : each)),
        }),
      }),
      step: { do: "started", detail: expect.stringContaining("cordoned") },
    },
    {
      when: "an edge does not answer",
      facts: starting({ channel: { stopped: false, since: ago(routeMs) }, route: partly }),
      step: { do: "started" },
    },
    {
      when: "no leader publishes anything",
      facts: starting({ channel: { stopped: false, since: ago(routeMs) } }),
      step: { do: "wait", recheckMs: expect.any(Number) },
    },
    {
      when: "the app fails while edges follow",
      facts: starting({
        channel: open,
        ...app({ containers: [aContainer({ observation: observed("failed", "APP_EXITED") })] }),
      }),
      step: { do: "fail" },
    },
    {
      when: "its node goes away while edges follow",
      facts: starting({
        channel: open,
        ...app({ containers: [aContainer({ observation: null, nodeLostAt: ago(60_000) })] }),
      }),
      step: { do: "wait", for: "the edges to follow", recheckMs: null },
    },
    {
      when: "its node went away, and every edge shows it",
      facts: starting({
        ...{ channel: open, route: everywhere },
        ...app({ containers: [aContainer({ observation: null, nodeLostAt: ago(60_000) })] }),
      }),
      step: { do: "started", detail: null },
    },
    {
      when: "the project is suspended while edges follow",
      facts: starting({ channel: open, suspended: true }),
      step: { do: "fail", message: "The project is suspended." },
    },
    {
      when: "it is known why it did not come up",
      facts: starting({ ...app({}), error: "it fell over" }),
      step: { do: "end", error: "it fell over" },
    },
    { when: "another one has the channel", facts: starting({ channel: null }), step: { do: "end", error: null } },
    { when: "it runs", facts: starting({ status: "running" }), step: { do: "end", error: null } },
    { when: "the project goes", facts: starting({ projectGone: true }), step: { do: "end", error: null } },
  ])("when $when", run);
});
