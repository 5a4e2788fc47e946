import { Desired, Observed } from "@svc/proto/node";
import { expect, test } from "vitest";
import { freshMemory } from "../../journal/records.ts";
import { nextStep } from "../steps.ts";
import type { View } from "../view.ts";

const aView = (changes: Partial<View> = {}): View => ({
  ...{ kind: "capture", desired: Desired.RUNNING, observed: Observed.ASSIGNED, memoryMb: 512, healthTimeoutMs: 0 },
  ...{ drainMs: 0, isOpen: false, container: null, limitsDue: false, isGranted: false, imageReady: false },
  ...{ nowMs: Date.parse("2030-01-01T12:00:00Z"), memory: freshMemory },
  ...changes,
});

test.each([
  { when: "its image was not seen yet", view: aView(), does: "pull-browser" },
  { when: "its image is there", view: aView({ imageReady: true }), does: "capture" },
  {
    when: "its agent began anew in the middle of it",
    view: aView({ imageReady: true, observed: Observed.RUNNING }),
    does: "capture",
  },
  { when: "it is over", view: aView({ imageReady: true, observed: Observed.COMPLETED }), does: "rest" },
  { when: "it is to go", view: aView({ desired: Desired.REMOVED }), does: "settle" },
])("when $when, the next step is $does", ({ view, does }) => {
  expect(nextStep(view).do).toBe(does);
});
