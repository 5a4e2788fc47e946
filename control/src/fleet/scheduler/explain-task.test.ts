import { describe, expect, test } from "vitest";
import type { ObservationValue } from "../cluster/keys.ts";
import { explainTask, type TaskSituation } from "./explain-task.ts";

const at = new Date("2030-01-01T12:00:00Z");
const connected = { link: "connected", since: at } as const;
const unreachable = { link: "unreachable", since: at } as const;
const ended = (message: string | null): TaskSituation["said"] => ({
  observed: "failed",
  failure: message === null ? null : { code: "HEALTH_CHECK_FAILED", message, exitCode: null, oomKilled: false },
});
const said = (observed: ObservationValue["observed"]) => ({ observed, failure: null });
const explain = (change: Partial<TaskSituation>) =>
  explainTask({
    ...{ kind: "serve", errand: "serves", node: connected, refused: null, crashing: null },
    ...{ said: said("running"), serving: true, retiring: false, nextTryAt: null },
    ...change,
  });

describe("a container that is", () => {
  test.each<{ when: string; task: Partial<TaskSituation>; says: string | null }>([
    { when: "well", task: {}, says: null },
    { when: "being pulled", task: { said: said("pulling"), serving: false }, says: null },
    { when: "not looked at", task: { node: null, said: null, serving: false }, says: "No scheduler has looked" },
    {
      when: "waiting for a node",
      task: { node: null, refused: { cordoned: 2 }, said: null, serving: false, errand: "starts" },
      says: "No node takes it: 2 nodes: cordoned.",
    },
    {
      when: "over, and the keeper waits before it makes another",
      task: { said: ended("It fell."), serving: false, nextTryAt: at },
      says: "It has ended: It fell. Another one is made at 2030-01-01T12:00:00.000Z.",
    },
    { when: "over", task: { said: ended(null), serving: false }, says: "It has ended. Another one is made." },
    {
      when: "over while a start brings it up",
      task: { said: ended("It fell."), serving: false, errand: "starts" },
      says: "It has ended: It fell. Where that was its node's doing, another one is made",
    },
    {
      when: "over, of what is suspended",
      task: { said: said("stopped"), serving: false, errand: "leaves" },
      says: "It has ended. None is made in its place.",
    },
    {
      when: "on a node that went away",
      task: { node: unreachable },
      says: "Its node has been unreachable since 2030-01-01T12:00:00.000Z: when it does not come back, another",
    },
    {
      when: "on a node that went away, while a resumption waits for it",
      task: { node: unreachable, serving: false, errand: "resumes" },
      says: "another one is made elsewhere",
    },
    {
      when: "started before visitors get there",
      task: { errand: "starts" },
      says: "waits for the others, or for the edges",
    },
    { when: "deployed before visitors get there", task: { errand: "deploys" }, says: "or for the edges" },
    {
      when: "up before its project is resumed",
      task: { errand: "resumes" },
      says: "until all that the project serves",
    },
    { when: "replaced", task: { retiring: true }, says: "goes once no edge sends visitors to it" },
    { when: "stopped, and edges have not left it", task: { errand: "leaves" }, says: "goes once no edge" },
    {
      when: "with the limits of before",
      task: { refused: { "too little memory": 1 } },
      says: "It keeps its limits: too little memory.",
    },
    {
      when: "held back by its agent",
      task: {
        serving: false,
        crashing: { since: "S", lastAt: "S", count: 3, reason: "It fell.", nextStartAt: "N" },
      },
      says: "It ended 3 times in a row since S: It fell. Started again at N",
    },
  ])("$when", ({ task, says }) => {
    const text = explain(task);
    if (says === null) expect(text).toBeNull();
    else expect(text).toContain(says);
  });
});

test("a build has neither edges nor another one in its place", () => {
  expect(explain({ kind: "other", errand: "deploys", serving: false })).toBeNull();
  expect(explain({ kind: "other", errand: "deploys", said: said("completed"), serving: false })).toBeNull();
  expect(explain({ kind: "other", errand: "deploys", said: ended("No."), serving: false })).toBe("It has ended: No.");
});
