import { Desired, Observed } from "@svc/proto/node";
import fc from "fast-check";
import { expect, test } from "vitest";
import { freshMemory, type Memory } from "../journal/records.ts";
import { nextStep, type View } from "./steps.ts";

const nowMs = Date.parse("2030-01-01T12:00:00Z");

type ContainerView = NonNullable<View["container"]>;
const aContainer = (state: ContainerView["state"], changes: Partial<ContainerView> = {}): ContainerView => ({
  id: "c1",
  state,
  exitCode: 0,
  oomKilled: false,
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
  container: null,
  limitsDue: false,
  imageReady: true,
  nowMs,
  ...changes,
  memory: { ...freshMemory, ...changes.memory },
});

const healthy = { wasHealthy: true };
const counted = { wasHealthy: true, crashes: 1, countedExit: "2030-01-01T11:59:59Z" };

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

test("the health deadline counts from the start of the container", () => {
  expect(nextStep(aView({ container: aContainer("running") }))).toEqual({ do: "prove", untilMs: nowMs + 50_000 });
});

test("the reason of a kill is waited for until a second after it", () => {
  const container = aContainer("exited", { exitCode: 137, finishedAt: "2030-01-01T11:59:59.400Z" });
  expect(nextStep(aView({ container }))).toEqual({ do: "wait", untilMs: nowMs + 400 });
  expect(nextStep(aView({ container, nowMs: nowMs + 400 }))).toMatchObject({ do: "fail", code: "START_FAILED" });
});

test("an exit for want of memory says so", () => {
  const view = aView({ container: aContainer("exited", { oomKilled: true, exitCode: 137 }) });
  expect(nextStep(view)).toMatchObject({ do: "fail", code: "OUT_OF_MEMORY", exitCode: 137 });
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
  })
  .map(({ state, wasHealthy, crashes, retryInMs, ...rest }) =>
    aView({
      ...rest,
      container: state === "absent" || rest.kind === "build" ? null : aContainer(state),
      memory: { wasHealthy, crashes, retryAtMs: nowMs + retryInMs },
    }),
  );

test("what is to stop, or has come to an end, is never started", () => {
  fc.assert(
    fc.property(anyView, (view) => {
      const isOver = view.desired >= Desired.STOPPED || view.observed >= Observed.COMPLETED;
      return !isOver || ["rest", "stop", "remove", "settle"].includes(nextStep(view).do);
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
