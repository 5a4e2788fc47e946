import { Desired, Observed } from "@svc/proto/node";
import { expect, test } from "vitest";
import { freshMemory, type Memory } from "../../journal/records.ts";
import { nextStep } from "../steps.ts";
import type { View } from "../view.ts";

const aContainer = (state: NonNullable<View["container"]>["state"], exitCode = 0): NonNullable<View["container"]> => ({
  ...{ id: "c1", state, exitCode, oomKilled: false, oomScope: "unknown" },
  startedAt: state === "created" ? null : "2030-01-01T11:50:00Z",
  finishedAt: state === "exited" ? "2030-01-01T11:59:59Z" : null,
});
const aView = (changes: Partial<Omit<View, "memory">> = {}, memory: Partial<Memory> = {}): View => ({
  ...{ kind: "keeper", desired: Desired.RUNNING, observed: Observed.RUNNING, memoryMb: 256, healthTimeoutMs: 0 },
  ...{ drainMs: 0, isOpen: false, container: null, limitsDue: false, isGranted: false, imageReady: true },
  nowMs: Date.parse("2030-01-01T12:00:00Z"),
  ...changes,
  memory: { ...freshMemory, ...memory },
});

test.each([
  { when: "there is no container", view: aView(), does: "create-keeper" },
  { when: "the machine booted and nobody has named it", view: aView(), does: "create-keeper" },
  { when: "the container is new", view: aView({ container: aContainer("created") }), does: "start-keeper" },
  { when: "it runs", view: aView({ container: aContainer("running") }), does: "watch-keeper" },
  {
    when: "it was killed",
    view: aView({ container: aContainer("exited", 137) }, { wasHealthy: true }),
    does: "count-crash",
  },
  { when: "another still has the copy", view: aView({ container: aContainer("exited", 75) }), does: "count-crash" },
  { when: "the copy is of another engine", view: aView({ container: aContainer("exited", 76) }), does: "fail" },
  { when: "it is to stop", view: aView({ desired: Desired.STOPPED, container: aContainer("running") }), does: "stop" },
])("when $when, the next step is $does", ({ view, does }) => {
  expect(nextStep(view).do).toBe(does);
});
