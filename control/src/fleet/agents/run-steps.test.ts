import { create } from "@bufbuild/protobuf";
import { RunPhase, type RunStatus, RunStatusSchema } from "@svc/proto/node";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isRunOver, type RunValue, runStates } from "../cluster/keys.ts";
import * as steps from "./run-steps.ts";

const now = new Date("2030-01-01T12:00:00.000Z");
const aRun = (overrides: Partial<RunValue> = {}): RunValue => ({
  attemptId: "a1",
  kind: "release",
  ownerKind: "deployment",
  ownerId: "d1",
  projectId: "p1",
  state: "offered",
  cancel: false,
  acceptedBy: null,
  token: null,
  exitCode: null,
  timedOut: false,
  message: null,
  startedAt: null,
  finishedAt: null,
  changedAt: "2030-01-01T11:00:00.000Z",
  ...overrides,
});
/** Of the machine that is spoken to, unless a test says otherwise. */
const boot = "boot-1";
const runMessage = (run: RunValue) => steps.runMessage(run, boot);
const acceptRun = (run: RunValue | null, refusedBecause: string, at: Date) =>
  steps.acceptRun(run, refusedBecause, at, boot);
const recordRun = (run: RunValue | null, status: RunStatus, at: Date) => steps.recordRun(run, status, at, boot);
const granted = aRun({ state: "granted", token: "t1" });
const said = (phase: RunPhase, fields: { token?: string; exitCode?: number; message?: string } = {}) =>
  create(RunStatusSchema, { attemptId: "a1", token: "t1", phase, ...fields });

describe("what the agent is told", () => {
  test.each([
    { run: aRun(), is: "offer" },
    { run: aRun({ state: "accepted" }), is: null },
    { run: granted, is: "grant" },
    { run: aRun({ state: "granted" }), is: null },
    { run: aRun({ state: "started", token: "t1" }), is: null },
    { run: aRun({ cancel: true }), is: "cancel" },
    { run: aRun({ state: "started", cancel: true }), is: "cancel" },
    { run: aRun({ state: "exited", cancel: true }), is: null },
    { run: aRun({ state: "refused" }), is: null },
  ])("in state $run.state (cancel $run.cancel): $is", ({ run, is }) => {
    expect(runMessage(run)).toBe(is);
  });
});

describe("the answer to an offer", () => {
  test("is kept", () => {
    expect(acceptRun(aRun(), "", now)).toMatchObject({ write: { state: "accepted" }, ack: false });
    expect(acceptRun(aRun(), "no room", now)).toMatchObject({
      write: { state: "refused", message: "no room" },
      ack: true,
    });
  });
  test("changes nothing the second time", () => {
    expect(acceptRun(granted, "", now)).toEqual({ write: null, ack: false });
    expect(acceptRun(granted, "no room", now)).toEqual({ write: null, ack: false });
    expect(acceptRun(aRun({ state: "not_started" }), "", now)).toEqual({ write: null, ack: true });
  });
  test("to an attempt that nobody waits for lets the agent drop it", () => {
    expect(acceptRun(null, "", now)).toEqual({ write: null, ack: true });
  });
});

describe("evidence", () => {
  test.each([
    { when: "a granted run started", run: granted, status: said(RunPhase.STARTED), to: "started", ack: false },
    {
      when: "a granted run exited",
      run: granted,
      status: said(RunPhase.EXITED, { exitCode: 3 }),
      to: "exited",
      ack: true,
    },
    {
      when: "a granted run did not start",
      run: granted,
      status: said(RunPhase.NOT_STARTED),
      to: "not_started",
      ack: true,
    },
    {
      when: "an offered run will not start",
      run: aRun(),
      status: said(RunPhase.NOT_STARTED, { token: "" }),
      to: "not_started",
      ack: true,
    },
    {
      when: "the agent cannot tell",
      run: granted,
      status: said(RunPhase.INDETERMINATE),
      to: "indeterminate",
      ack: true,
    },
    {
      when: "a started run is said not to have started",
      run: aRun({ state: "started", token: "t1" }),
      status: said(RunPhase.NOT_STARTED),
      to: "indeterminate",
      ack: true,
    },
  ] as const)("when $when it becomes $to", ({ run, status, to, ack }) => {
    expect(recordRun(run, status, now)).toMatchObject({ write: { state: to }, ack });
  });

  test.each([
    { when: "the token is another", run: granted, status: said(RunPhase.STARTED, { token: "t0" }) },
    { when: "the exit has another token", run: granted, status: said(RunPhase.EXITED, { token: "t0" }) },
    { when: "nothing was granted", run: aRun({ state: "accepted" }), status: said(RunPhase.STARTED) },
    { when: "nothing was granted and the token is empty", run: aRun(), status: said(RunPhase.EXITED, { token: "" }) },
    { when: "it is said twice", run: aRun({ state: "started", token: "t1" }), status: said(RunPhase.STARTED) },
    { when: "it says nothing", run: granted, status: said(RunPhase.UNSPECIFIED) },
  ])("changes nothing when $when", ({ run, status }) => {
    expect(recordRun(run, status, now)).toEqual({ write: null, ack: false });
  });

  test("is acknowledged again when it is repeated, and never changed", () => {
    const exited = aRun({ state: "exited", token: "t1", exitCode: 0 });
    expect(recordRun(exited, said(RunPhase.EXITED, { exitCode: 7 }), now)).toEqual({ write: null, ack: true });
    expect(recordRun(null, said(RunPhase.EXITED), now)).toEqual({ write: null, ack: true });
  });
});

test("no sequence of reports moves a run back or out of an end", () => {
  const rank = (state: RunValue["state"]) => (isRunOver(state) ? runStates.length : runStates.indexOf(state));
  const report = fc.record({
    phase: fc.constantFrom(...Object.values(RunPhase)),
    token: fc.constantFrom("", "t0", "t1"),
    accept: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.constantFrom(aRun(), aRun({ state: "accepted" }), granted), fc.array(report), (first, reports) => {
      let run = first;
      for (const { phase, token, accept } of reports) {
        const { write } = accept ? acceptRun(run, token, now) : recordRun(run, said(phase, { token }), now);
        if (write === null) continue;
        expect(isRunOver(run.state)).toBe(false);
        expect(rank(write.state)).toBeGreaterThan(rank(run.state));
        run = write;
      }
    }),
  );
});

describe("of two machines with one identity", () => {
  const accepted = steps.acceptRun(aRun(), "", now, boot).write;
  const allowed = { ...granted, acceptedBy: accepted?.acceptedBy ?? null };

  test("only the one that accepted is told to start", () => {
    expect(steps.runMessage(allowed, boot)).toBe("grant");
    expect(steps.runMessage(allowed, "boot-2")).toBeNull();
  });

  test("the other one does not know what this one did", () => {
    const notStarted = said(RunPhase.NOT_STARTED, { token: "" });
    expect(steps.recordRun(allowed, notStarted, now, boot).write?.state).toBe("not_started");
    expect(steps.recordRun(allowed, notStarted, now, "boot-2").write?.state).toBe("indeterminate");
    // Its disk is a copy of the other's, with the token.
    const withToken = said(RunPhase.NOT_STARTED);
    expect(steps.recordRun(allowed, withToken, now, boot).write?.state).toBe("not_started");
    expect(steps.recordRun(allowed, withToken, now, "boot-2").write?.state).toBe("indeterminate");
  });
});
