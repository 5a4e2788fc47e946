import { Desired, Observed } from "@svc/proto/node";
import { expect, test } from "vitest";
import { freshMemory, type Memory } from "../../journal/records.ts";
import { nextStep } from "../steps.ts";
import type { View } from "../view.ts";

const nowMs = Date.parse("2030-01-01T12:00:00Z");
const endedAt = "2030-01-01T11:59:59Z";

type ContainerView = NonNullable<View["container"]>;
const aContainer = (state: ContainerView["state"], exitCode = 0): ContainerView => ({
  id: "c1",
  state,
  exitCode,
  oomKilled: false,
  oomScope: "unknown",
  startedAt: state === "created" ? null : "2030-01-01T11:50:00Z",
  finishedAt: state === "exited" ? endedAt : null,
});
const aView = (changes: Partial<Omit<View, "memory">> & { memory?: Partial<Memory> } = {}): View => ({
  kind: "database",
  desired: Desired.RUNNING,
  observed: Observed.RUNNING,
  memoryMb: 256,
  healthTimeoutMs: 120_000,
  drainMs: 0,
  isOpen: false,
  container: null,
  limitsDue: false,
  isGranted: true,
  imageReady: true,
  nowMs,
  ...changes,
  memory: { ...freshMemory, ...changes.memory },
});
const served = { wasHealthy: true };
const waited = { ...served, crashes: 3, countedExit: endedAt };

test.each<{ when: string; view: View; does: string }>([
  { when: "its image was not seen yet", view: aView({ imageReady: false }), does: "pull" },
  { when: "there is no container", view: aView(), does: "create-database" },
  { when: "the container is new", view: aView({ container: aContainer("created") }), does: "start-database" },
  { when: "it has not answered yet", view: aView({ container: aContainer("running") }), does: "prove-database" },
  { when: "it serves", view: aView({ container: aContainer("running"), memory: served }), does: "watch-database" },
  {
    when: "it is to have other limits",
    view: aView({ container: aContainer("running"), memory: served, limitsDue: true }),
    does: "limit",
  },
  { when: "it was killed", view: aView({ container: aContainer("exited", 137), memory: served }), does: "count-crash" },
  {
    when: "the wait is over",
    view: aView({ container: aContainer("exited", 137), memory: waited }),
    does: "start-database",
  },
  {
    when: "it was killed for the hundredth time",
    view: aView({ container: aContainer("exited", 137), memory: { ...served, crashes: 99 } }),
    does: "count-crash",
  },
  { when: "it ended before it ever served", view: aView({ container: aContainer("exited", 1) }), does: "fail" },
  { when: "it is to stop", view: aView({ desired: Desired.STOPPED, container: aContainer("running") }), does: "stop" },
  { when: "it is to go", view: aView({ desired: Desired.REMOVED, container: aContainer("exited") }), does: "remove" },
  {
    when: "the machine booted and nobody has named it",
    view: aView({ container: aContainer("exited", 255), memory: served, isGranted: false }),
    does: "rest",
  },
  { when: "nobody has named it, and it is not there", view: aView({ isGranted: false }), does: "rest" },
  {
    when: "nobody has named it, and it runs",
    view: aView({ container: aContainer("running"), memory: served, isGranted: false }),
    does: "watch-database",
  },
  {
    when: "nobody has named it, and it is to go",
    view: aView({ container: aContainer("exited"), desired: Desired.REMOVED, isGranted: false }),
    does: "remove",
  },
  { when: "another server has the data", view: aView({ container: aContainer("exited", 75) }), does: "count-crash" },
  {
    when: "the wait for that one is over",
    view: aView({ container: aContainer("exited", 75), memory: { crashes: 2, countedExit: endedAt } }),
    does: "start-database",
  },
  {
    when: "that one never ends",
    view: aView({ container: aContainer("exited", 75), memory: { crashes: 10, countedExit: "before" } }),
    does: "fail",
  },
])("when $when: $does", ({ view, does }) => {
  expect(nextStep(view).do).toBe(does);
});

test.each([
  { exitCode: 76, code: "DATABASE_VERSION_MISMATCH" },
  { exitCode: 77, code: "DATABASE_DATA_MISSING" },
  { exitCode: 78, code: "DATABASE_SPEC_INVALID" },
])("an entry point that ended with $exitCode is never started again: $code", ({ exitCode, code }) => {
  for (const memory of [{}, served]) {
    expect(nextStep(aView({ container: aContainer("exited", exitCode), memory }))).toMatchObject({ do: "fail", code });
  }
});
