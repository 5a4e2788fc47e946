import { manifestSchema } from "@svc/proto";
import { expect, test } from "vitest";
import { drainSecondsIn, drainSecondsLeft, type LeavingFacts } from "./drain.ts";

const manifest = (drain: object) => manifestSchema.parse({ version: 2, app: { name: "Shop", type: "ssr" }, ...drain });

test.each([
  { when: "it says nothing", drain: {}, plan: 300, seconds: 30 },
  { when: "it says nothing and the plan allows less", drain: {}, plan: 10, seconds: 10 },
  { when: "it asks for what the plan allows", drain: { drain: { seconds: 120 } }, plan: 300, seconds: 120 },
  { when: "the plan was lowered since", drain: { drain: { seconds: 120 } }, plan: 60, seconds: 60 },
  { when: "it wants none", drain: { drain: { seconds: 0 } }, plan: 300, seconds: 0 },
])("a manifest, when $when: $seconds s", ({ drain, plan, seconds }) => {
  expect(drainSecondsIn(manifest(drain), { max_drain_seconds: plan })).toBe(seconds);
});

const replaced: LeavingFacts = {
  ...{ status: "superseded", projectIsOff: false, channel: "serves", drainSeconds: 30, waitedMs: 5_000 },
};

test.each<{ when: string; change: Partial<LeavingFacts>; left: number }>([
  { when: "another one replaced it", change: {}, left: 25 },
  { when: "all of the time was waited already", change: { waitedMs: 30_000 }, left: 0 },
  { when: "more was waited than it asked for", change: { drainSeconds: 2 }, left: 0 },
  { when: "a part of a second is left", change: { waitedMs: 29_500 }, left: 1 },
  { when: "it was stopped", change: { status: "stopped", channel: "stopped" }, left: 0 },
  { when: "it never served", change: { status: "failed" }, left: 0 },
  { when: "it was canceled", change: { status: "canceled" }, left: 0 },
  { when: "the one that replaced it was stopped since", change: { channel: "stopped" }, left: 0 },
  { when: "the channel serves nothing any more", change: { channel: "empty" }, left: 0 },
  { when: "the project is suspended or deleted", change: { projectIsOff: true }, left: 0 },
])("a deployment that leaves, when $when: $left s more", ({ change, left }) => {
  expect(drainSecondsLeft({ ...replaced, ...change })).toBe(left);
});
