import { Desired, Observed } from "@svc/proto/node";
import fc from "fast-check";
import { expect, test } from "vitest";
import { freshMemory, type Memory } from "../journal/records.ts";
import { nextContainerStep } from "./kinds/container.ts";
import { nextStep } from "./steps.ts";
import type { View } from "./view.ts";

const nowMs = Date.parse("2030-01-01T12:00:00Z");

type ContainerView = NonNullable<View["container"]>;
const aContainer = (state: ContainerView["state"], changes: Partial<ContainerView> = {}): ContainerView => ({
  id: "c1",
  state,
  exitCode: 0,
  oomKilled: false,
  oomScope: "unknown",
  startedAt: state === "created" ? null : "2030-01-01T11:59:50Z",
  finishedAt: state === "exited" ? "2030-01-01T11:59:59Z" : null,
  ...changes,
});

const aView = (changes: Partial<Omit<View, "memory">> & { memory?: Partial<Memory> } = {}): View => ({
  kind: "serve",
  desired: Desired.RUNNING,
  observed: Observed.STARTING,
  memoryMb: 256,
  healthTimeoutMs: 60_000,
  drainMs: 0,
  container: null,
  limitsDue: false,
  isGranted: true,
  imageReady: true,
  nowMs,
  ...changes,
  memory: { ...freshMemory, ...changes.memory },
});

const healthy = { wasHealthy: true };
const draining = { desired: Desired.REMOVED, container: aContainer("running"), drainMs: 30_000 };
const runsAgain = aContainer("running", { oomKilled: true, finishedAt: "2030-01-01T11:59:59Z" });
const counted = { wasHealthy: true, crashes: 1, countedExit: "2030-01-01T11:59:59Z", countedCode: 137 };

test.each<{ when: string; view: View; does: string }>([
  { when: "the image was not seen yet", view: aView({ imageReady: false }), does: "pull" },
  { when: "there is no container", view: aView(), does: "create" },
  { when: "the container is new", view: aView({ container: aContainer("created") }), does: "start" },
  { when: "it runs and has not answered yet", view: aView({ container: aContainer("running") }), does: "prove" },
  { when: "it runs and is healthy", view: aView({ container: aContainer("running"), memory: healthy }), does: "watch" },
  {
    when: "it runs and is to have other limits",
    view: aView({ container: aContainer("running"), limitsDue: true }),
    does: "limit",
  },
  {
    when: "it ended and is to have other limits",
    view: aView({ container: aContainer("exited"), limitsDue: true, memory: counted }),
    does: "limit",
  },
  {
    when: "it is new and is to have other limits",
    view: aView({ container: aContainer("created"), limitsDue: true }),
    does: "limit",
  },
  {
    when: "only readiness is desired and it is to have other limits",
    view: aView({ desired: Desired.READY, container: aContainer("created"), limitsDue: true }),
    does: "limit",
  },
  {
    when: "it was ended for what it wrote, which was counted, and waits for its next start",
    view: aView({
      container: aContainer("exited", { exitCode: 137 }),
      memory: { ...counted, overflowOf: "c1", retryAtMs: nowMs + 1_000 },
    }),
    does: "discard",
  },
  {
    when: "the one before it was ended for what it wrote, and it waits for its next start",
    view: aView({
      container: aContainer("exited", { exitCode: 1 }),
      memory: { ...counted, overflowOf: "c0", retryAtMs: nowMs + 1_000 },
    }),
    does: "wait",
  },
  {
    when: "it was ended for what it wrote and is not started any more",
    view: aView({
      observed: Observed.FAILED,
      container: aContainer("exited", { exitCode: 137 }),
      memory: { ...counted, overflowOf: "c1" },
    }),
    does: "discard",
  },
  {
    when: "it is about to be ended for what it wrote",
    view: aView({ container: aContainer("running"), memory: { ...healthy, overflowOf: "c1" } }),
    does: "watch",
  },
  {
    when: "its end was not counted yet and it is to have other limits",
    view: aView({ container: aContainer("exited"), limitsDue: true, memory: healthy }),
    does: "count-crash",
  },
  {
    when: "it ended before it answered and was to have other limits",
    view: aView({ container: aContainer("exited"), limitsDue: true }),
    does: "fail",
  },
  {
    when: "it is in a state of its own and was to have other limits",
    view: aView({ container: aContainer("other"), limitsDue: true }),
    does: "discard",
  },
  {
    when: "it is to stop and was to have other limits",
    view: aView({ desired: Desired.STOPPED, container: aContainer("running"), limitsDue: true }),
    does: "stop",
  },
  {
    when: "it failed and was to have other limits",
    view: aView({ observed: Observed.FAILED, container: aContainer("exited"), limitsDue: true }),
    does: "rest",
  },
  { when: "it ended before it answered", view: aView({ container: aContainer("exited") }), does: "fail" },
  {
    when: "a healthy one ended",
    view: aView({ container: aContainer("exited"), memory: healthy }),
    does: "count-crash",
  },
  {
    when: "the wait after a crash goes on",
    view: aView({ container: aContainer("exited"), memory: { ...counted, retryAtMs: nowMs + 1 } }),
    does: "wait",
  },
  {
    when: "the clock was set back since the wait after a crash began",
    view: aView({
      container: aContainer("exited"),
      memory: { ...counted, retrySinceMs: nowMs + 1, retryAtMs: nowMs + 1_001 },
    }),
    does: "start",
  },
  {
    when: "the wait after a crash is over",
    view: aView({ container: aContainer("exited"), memory: { ...counted, retryAtMs: nowMs } }),
    does: "start",
  },
  {
    when: "it was killed a moment ago, and nothing says yet what for",
    view: aView({ container: aContainer("exited", { exitCode: 137, finishedAt: "2030-01-01T11:59:59.001Z" }) }),
    does: "wait",
  },
  {
    when: "a healthy one was killed a moment ago, and nothing says yet what for",
    view: aView({
      container: aContainer("exited", { exitCode: 137, finishedAt: "2030-01-01T11:59:59.001Z" }),
      memory: healthy,
    }),
    does: "count-crash",
  },
  {
    when: "that was counted, and the engine says before its next start that it was for want of memory",
    view: aView({
      container: aContainer("exited", { exitCode: 137, oomKilled: true }),
      memory: { ...counted, crashes: 4, retryAtMs: nowMs + 5_000 },
    }),
    does: "explain-crash",
  },
  {
    when: "the engine says it of one that runs again",
    view: aView({ container: runsAgain, memory: counted }),
    does: "explain-crash",
  },
  {
    when: "it runs again, and that was told already",
    view: aView({ container: runsAgain, memory: { ...counted, countedOom: true } }),
    does: "watch",
  },
  {
    when: "it runs again, and lost a process to want of memory later",
    view: aView({ container: runsAgain, memory: counted, nowMs: nowMs + 1_000 }),
    does: "watch",
  },
  {
    when: "it runs again after an end that was not counted",
    view: aView({ container: runsAgain, memory: { ...counted, countedExit: "2030-01-01T11:59:58Z" } }),
    does: "watch",
  },
  {
    when: "it was killed a moment ago for the eleventh time, and nothing says yet what for",
    view: aView({
      container: aContainer("exited", { exitCode: 137, finishedAt: "2030-01-01T11:59:59.001Z" }),
      memory: { ...healthy, crashes: 10 },
    }),
    does: "wait",
  },
  {
    when: "it was killed a moment ago for want of memory",
    view: aView({
      container: aContainer("exited", { exitCode: 137, oomKilled: true, finishedAt: "2030-01-01T11:59:59.001Z" }),
    }),
    does: "fail",
  },
  {
    when: "it was killed and nobody said what for",
    view: aView({ container: aContainer("exited", { exitCode: 137 }) }),
    does: "fail",
  },
  {
    when: "it was killed a moment ago by a clock that was set back since",
    view: aView({ container: aContainer("exited", { exitCode: 137, finishedAt: "2030-01-01T12:00:00.010Z" }) }),
    does: "wait",
  },
  {
    when: "it crashed for the eleventh time",
    view: aView({ container: aContainer("exited"), memory: { ...healthy, crashes: 10 } }),
    does: "fail",
  },
  {
    when: "a healthy container was removed by hand",
    view: aView({ observed: Observed.RUNNING, memory: healthy }),
    does: "create",
  },
  { when: "the container is in a state of its own", view: aView({ container: aContainer("other") }), does: "discard" },
  { when: "only readiness is desired, without a container", view: aView({ desired: Desired.READY }), does: "create" },
  {
    when: "only readiness is desired and the container is there",
    view: aView({ desired: Desired.READY, container: aContainer("created") }),
    does: "rest",
  },
  {
    when: "it is to stop while it runs",
    view: aView({ desired: Desired.STOPPED, container: aContainer("running") }),
    does: "stop",
  },
  { when: "it is to stop and does not run", view: aView({ desired: Desired.STOPPED }), does: "settle" },
  {
    when: "it is to go",
    view: aView({ desired: Desired.REMOVED, container: aContainer("exited") }),
    does: "remove",
  },
  { when: "it is to go and is gone", view: aView({ desired: Desired.REMOVED }), does: "settle" },
  {
    when: "it is to go and may serve what is open",
    view: aView({ ...draining, memory: healthy }),
    does: "drain",
  },
  {
    when: "it is to go and the time for what is open is not up",
    view: aView({ ...draining, memory: { ...healthy, drainUntilMs: nowMs + 1 } }),
    does: "drain",
  },
  {
    when: "it is to go and the time for what was open is up, or nothing is",
    view: aView({ ...draining, memory: { ...healthy, drainUntilMs: nowMs } }),
    does: "remove",
  },
  {
    when: "it is to go at once although it was to serve what is open",
    view: aView({ ...draining, drainMs: 0, memory: { ...healthy, drainUntilMs: nowMs + 1 } }),
    does: "remove",
  },
  { when: "it is to go and never served", view: aView(draining), does: "remove" },
  {
    when: "it is to go and ended while it served what was open",
    view: aView({ ...draining, container: aContainer("exited"), memory: { ...healthy, drainUntilMs: nowMs + 1 } }),
    does: "remove",
  },
  {
    when: "it is to stop, which is at once",
    view: aView({ ...draining, desired: Desired.STOPPED, memory: healthy }),
    does: "stop",
  },
  {
    when: "it failed and its container still runs",
    view: aView({ observed: Observed.FAILED, container: aContainer("running") }),
    does: "stop",
  },
  { when: "it failed", view: aView({ observed: Observed.FAILED, container: aContainer("exited") }), does: "rest" },
  { when: "it was removed", view: aView({ observed: Observed.REMOVED, desired: Desired.REMOVED }), does: "rest" },
  { when: "it is a build", view: aView({ kind: "build" }), does: "build" },
  { when: "a build is done", view: aView({ kind: "build", observed: Observed.COMPLETED }), does: "rest" },
  { when: "a build is cancelled", view: aView({ kind: "build", desired: Desired.STOPPED }), does: "settle" },
  {
    when: "its spec was lost and it runs",
    view: aView({ kind: "unknown", container: aContainer("running") }),
    does: "rest",
  },
])("when $when: $does", ({ view, does }) => {
  expect(nextStep(view).do).toBe(does);
});

test("an end of which the engine does not know the time is counted once", () => {
  const container = aContainer("exited", { finishedAt: null });
  const step = nextStep(aView({ container, memory: healthy }));
  if (step.do !== "count-crash") throw new Error(`does ${step.do}`);
  const memory = { ...healthy, crashes: 1, countedExit: step.crash.countedExit };
  expect(nextStep(aView({ container, memory })).do).toBe("start");
  const later = aContainer("exited", { finishedAt: null, startedAt: "2030-01-01T11:59:55Z" });
  expect(nextStep(aView({ container: later, memory })).do).toBe("count-crash");
});

test("what is open is served until the time that was noted, and never longer than control says by now", () => {
  const at = (drainUntilMs: number, drainMs: number) =>
    nextStep(aView({ ...draining, drainMs, memory: { ...healthy, drainUntilMs } }));
  expect(at(0, 30_000)).toEqual({ do: "drain", untilMs: nowMs + 30_000 });
  expect(at(nowMs + 10_000, 30_000)).toEqual({ do: "drain", untilMs: nowMs + 10_000 });
  expect(at(nowMs + 20_000, 5_000)).toEqual({ do: "drain", untilMs: nowMs + 5_000 });
  // As after a clock that was set back by an hour.
  expect(at(nowMs + 3_600_000, 30_000)).toEqual({ do: "drain", untilMs: nowMs + 30_000 });
});

test("the health deadline counts from the start of the container", () => {
  const [startedMs, untilMs] = [nowMs - 10_000, nowMs + 50_000];
  expect(nextStep(aView({ container: aContainer("running") }))).toEqual({ do: "prove", startedMs, untilMs });
});

test("the reason of a kill is waited for until a second after it", () => {
  const container = aContainer("exited", { exitCode: 137, finishedAt: "2030-01-01T11:59:59.400Z" });
  expect(nextStep(aView({ container }))).toEqual({ do: "wait", untilMs: nowMs + 400 });
  expect(nextStep(aView({ container, nowMs: nowMs + 400 }))).toMatchObject({ do: "fail", code: "START_FAILED" });
});

test.each([
  { when: "at once after the first", crashes: 0, nowMs, delayMs: 0 },
  { when: "a second after the second, of which part has passed", crashes: 1, nowMs: nowMs - 600, delayMs: 600 },
  { when: "at once when that has passed", crashes: 1, nowMs, delayMs: 0 },
  { when: "no later than that when the clock was set back", crashes: 1, nowMs: nowMs - 9_000, delayMs: 1_000 },
  { when: "16 seconds after the sixth", crashes: 5, nowMs, delayMs: 15_000 },
])("what crashed is started again $when", ({ crashes, delayMs, nowMs }) => {
  const view = aView({ container: aContainer("exited", { exitCode: 137 }), memory: { ...healthy, crashes }, nowMs });
  expect(nextStep(view)).toMatchObject({ do: "count-crash", crash: { crashes: crashes + 1, delayMs } });
});

test.each([
  { oomScope: "limit", says: "more than its 256 MB of memory and is started again" },
  { oomScope: "machine", says: "on the platform's machine and is started again" },
] as const)("what the engine says late of a crash is told as if it had said it in time: $oomScope", (given) => {
  const container = { ...runsAgain, oomScope: given.oomScope };
  expect(nextStep(aView({ container, memory: counted }))).toMatchObject({
    ...{ do: "explain-crash", code: "OUT_OF_MEMORY", exitCode: 137, oomKilled: true },
    message: expect.stringContaining(given.says),
  });
});

test.each([
  { code: 1, step: { do: "explain-crash", code: "OUT_OF_MEMORY", exitCode: 1 } },
  { code: 0, step: { do: "watch" } },
])("it is told with the code that the app ended with, and not of one that ended well: $code", (given) => {
  const memory = { ...counted, countedCode: given.code };
  expect(nextStep(aView({ container: runsAgain, memory }))).toMatchObject(given.step);
});

test("an exit for want of memory says so", () => {
  const killed = { oomKilled: true, exitCode: 137, oomScope: "machine" } as const;
  const view = aView({ container: aContainer("exited", killed) });
  expect(nextStep(view)).toMatchObject({ do: "fail", code: "OUT_OF_MEMORY", exitCode: 137 });
  expect(nextStep(view)).toMatchObject({ message: expect.stringContaining("on the platform's machine") });
});

const anyView: fc.Arbitrary<View> = fc
  .record({
    kind: fc.constantFrom<View["kind"]>("serve", "build", "unknown"),
    desired: fc.constantFrom(Desired.READY, Desired.RUNNING, Desired.STOPPED, Desired.REMOVED),
    observed: fc.constantFrom(...Object.values(Observed).filter((value) => typeof value === "number")),
    state: fc.constantFrom<(ContainerView["state"] | "absent")[]>("absent", "created", "running", "exited", "other"),
    wasHealthy: fc.boolean(),
    crashes: fc.nat(12),
    imageReady: fc.boolean(),
    limitsDue: fc.boolean(),
    retryInMs: fc.integer({ min: -1000, max: 1000 }),
    drainMs: fc.constantFrom(0, 500),
    drainInMs: fc.constantFrom(-nowMs, -1, 1, 1000),
  })
  .map(({ state, wasHealthy, crashes, retryInMs, drainInMs, ...rest }) =>
    aView({
      ...rest,
      container: state === "absent" || rest.kind === "build" ? null : aContainer(state),
      memory: { wasHealthy, crashes, retryAtMs: nowMs + retryInMs, drainUntilMs: nowMs + drainInMs },
    }),
  );

test("what is to stop, or has come to an end, is never started", () => {
  fc.assert(
    fc.property(anyView, (view) => {
      const isOver = view.desired >= Desired.STOPPED || view.observed >= Observed.COMPLETED;
      return !isOver || ["rest", "drain", "stop", "remove", "settle"].includes(nextStep(view).do);
    }),
  );
});

test("without an explicit stop a running container is left alone", () => {
  fc.assert(
    fc.property(anyView, (view) => {
      const isWanted = view.desired < Desired.STOPPED && view.observed < Observed.COMPLETED;
      if (!isWanted || view.container?.state !== "running") return true;
      return !["stop", "remove", "discard", "create"].includes(nextStep(view).do);
    }),
  );
});

/** A kind that was made for this test: whatever it holds, it rests while its container runs, and is never proved. */
const keeper = {
  rebootsWith: "journal" as const,
  next: (view: View) => nextContainerStep(view, () => ({ do: "rest" })),
};

test.each<{ when: string; view: View; does: string }>([
  { when: "the image was not seen yet", view: aView({ imageReady: false }), does: "pull" },
  { when: "there is no container", view: aView(), does: "create" },
  { when: "the container is new", view: aView({ container: aContainer("created") }), does: "start" },
  { when: "it runs", view: aView({ container: aContainer("running") }), does: "rest" },
  {
    when: "it is to have other limits",
    view: aView({ container: aContainer("running"), limitsDue: true }),
    does: "limit",
  },
  {
    when: "it ended and had run well",
    view: aView({ container: aContainer("exited"), memory: healthy }),
    does: "count-crash",
  },
  { when: "its end was counted", view: aView({ container: aContainer("exited"), memory: counted }), does: "start" },
  { when: "it cannot be used any more", view: aView({ container: aContainer("other") }), does: "discard" },
  {
    when: "it is to stop",
    view: aView({ desired: Desired.STOPPED, container: aContainer("running") }),
    does: "stop",
  },
  {
    when: "it is to go",
    view: aView({ desired: Desired.REMOVED, container: aContainer("running") }),
    does: "remove",
  },
])("another kind that runs in a container has the same life, when $when", ({ view, does }) => {
  expect(nextStep(view, keeper).do).toBe(does);
});
