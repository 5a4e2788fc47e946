import { create } from "@bufbuild/protobuf";
import { RunOfferSchema } from "@svc/proto/node";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { RunRecord, RunState } from "../journal/records.ts";
import { isFinal, nextRun, type RunEvent } from "./transitions.ts";

const aRun = (state: RunState): RunRecord => ({
  offer: create(RunOfferSchema, { attemptId: "a.1" }),
  state,
  token: "",
  exitCode: 0,
  timedOut: false,
  message: "",
  startedAt: "",
  finishedAt: "",
});

const granted: RunEvent = { kind: "granted", token: "t", lateByMs: 0 };
const late: RunEvent = { kind: "granted", token: "t", lateByMs: 1 };
const starting: RunEvent = { kind: "starting" };
const started: RunEvent = { kind: "started", at: "2030-01-01T00:00:00Z" };
const ended: RunEvent = { kind: "ended", exitCode: 0, at: "2030-01-01T00:00:00Z", message: "" };
const calledOff: RunEvent = { kind: "called-off", message: "" };
const heldBack: RunEvent = { kind: "held-back", message: "" };
const timedOut: RunEvent = { kind: "timed-out" };
const recovered = (container: "absent" | "created" | "running" | "exited"): RunEvent => ({
  kind: "recovered",
  container,
});

test.each<{ from: RunState; event: RunEvent; to: RunState | null }>([
  { from: "offer", event: granted, to: "intent" },
  { from: "offer", event: late, to: "tombstone" },
  { from: "offer", event: calledOff, to: "tombstone" },
  { from: "offer", event: starting, to: null },
  { from: "offer", event: recovered("absent"), to: "tombstone" },
  { from: "intent", event: starting, to: "start-sent" },
  { from: "intent", event: { kind: "starting", lateByMs: 1 }, to: "tombstone" },
  { from: "intent", event: granted, to: null },
  { from: "intent", event: calledOff, to: "tombstone" },
  { from: "intent", event: recovered("created"), to: "tombstone" },
  { from: "start-sent", event: started, to: "start-sent" },
  { from: "start-sent", event: ended, to: "exit" },
  { from: "start-sent", event: timedOut, to: "start-sent" },
  { from: "start-sent", event: calledOff, to: null },
  { from: "start-sent", event: recovered("absent"), to: "indeterminate" },
  { from: "start-sent", event: recovered("created"), to: "indeterminate" },
  { from: "start-sent", event: recovered("running"), to: null },
  { from: "start-sent", event: recovered("exited"), to: null },
  { from: "start-sent", event: heldBack, to: "tombstone" },
  { from: "offer", event: heldBack, to: null },
  { from: "intent", event: heldBack, to: null },
  { from: "indeterminate", event: heldBack, to: null },
  { from: "exit", event: heldBack, to: null },
  { from: "exit", event: granted, to: null },
  { from: "tombstone", event: granted, to: null },
  { from: "tombstone", event: started, to: null },
  { from: "indeterminate", event: granted, to: null },
  { from: "indeterminate", event: started, to: "start-sent" },
  { from: "indeterminate", event: ended, to: "exit" },
])("in $from, $event.kind leads to $to", ({ from, event, to }) => {
  expect(nextRun(aRun(from), event)?.state ?? null).toBe(to);
});

test("what was told to have started is never said not to have", () => {
  const known = nextRun(aRun("start-sent"), started);
  expect(known === null ? null : nextRun(known, heldBack)).toBeNull();
});

test("an end that nobody knows says whether the command was started", () => {
  const before: RunEvent = { kind: "recovered", container: "absent" };
  expect(nextRun(aRun("start-sent"), before)?.message).toContain("whether the command ran");
  expect(nextRun(aRun("start-sent"), { ...before, ran: true })?.message).toContain("was started");
  expect(nextRun({ ...aRun("start-sent"), startedAt: "then" }, before)?.message).toContain("was started");
});

test("the gate is written down with the order to start", () => {
  const sent = nextRun(aRun("intent"), { ...starting, gate: "/g", startedIn: "b" });
  expect(sent).toMatchObject({ state: "start-sent", gate: "/g", startedIn: "b" });
});

const anyEvent = fc.constantFrom(
  granted,
  late,
  starting,
  started,
  ended,
  calledOff,
  heldBack,
  timedOut,
  recovered("absent"),
  recovered("created"),
);

test("whatever happens, in whatever order, an attempt is told to start at most once", () => {
  fc.assert(
    fc.property(fc.array(anyEvent, { maxLength: 30 }), (events) => {
      let record = aRun("offer");
      let starts = 0;
      for (const event of events) {
        const next = nextRun(record, event);
        if (next === null) continue;
        if (event.kind === "starting") starts += 1;
        record = next;
      }
      return starts <= 1;
    }),
    { numRuns: 5_000 },
  );
});

test("a tombstone is the end, and an exit stays an exit", () => {
  fc.assert(
    fc.property(fc.constantFrom<RunState[]>("tombstone", "exit"), fc.array(anyEvent), (state, events) =>
      events.every((event) => nextRun(aRun(state), event) === null),
    ),
  );
  expect(isFinal("tombstone")).toBe(true);
});
