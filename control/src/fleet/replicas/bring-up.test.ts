import { describe, expect, test } from "vitest";
import type { ObservationValue } from "../cluster/keys.ts";
import type { TaskFacts } from "../tasks/deployment-status.ts";
import { type BringUp, type BringUpFacts, bringUp, bringUpDeadlines } from "./bring-up.ts";

const now = new Date("2030-01-01T12:00:00Z");
const ago = (ms: number) => new Date(now.getTime() - ms);
const { placementMs, schedulerMs, pullMs, nodeLostMs, graceMs, attempts, roomMs } = bringUpDeadlines;

const observed = (state: ObservationValue["observed"], code?: string): ObservationValue => ({
  ...{ placementId: "t1", epoch: 1, statusSeq: 1, observed: state, restartSeq: 0, build: null },
  health: state === "running" ? "healthy" : null,
  upstream: state === "running" ? "127.0.1.1:40000" : null,
  failure: code === undefined ? null : { code, message: `because of ${code}`, exitCode: 1, oomKilled: false },
  changedAt: now.toISOString(),
});
const inSlot = (slot: number, change: Partial<TaskFacts> = {}): TaskFacts => ({
  ...{ id: `t${slot}`, slot, createdAt: ago(1_000), desired: "running", nodeId: "n1", refused: null, nodeLostAt: null },
  observation: null,
  ...change,
});
const up = { observation: observed("running") };
const ended = (code?: string): Partial<TaskFacts> => ({ observation: observed("failed", code) });
const lost = (ms: number = nodeLostMs): Partial<TaskFacts> => ({ nodeLostAt: ago(ms) });
const refused = (ms: number): Partial<TaskFacts> => ({
  ...{ nodeId: null, refused: { "too little memory": 2 }, createdAt: ago(ms) },
});
const unseen = (ms: number): Partial<TaskFacts> => ({ nodeId: null, createdAt: ago(ms) });

/** Of containers in one slot each, in order; null: the slot is empty. */
const facts = (containers: (Partial<TaskFacts> | null)[], change: Partial<BringUpFacts> = {}): BringUpFacts => ({
  ...{ now, lookingSince: ago(86_400_000), replicas: containers.length, attempts: containers.length },
  containers: containers.flatMap((each, slot) => (each === null ? [] : inSlot(slot, each))),
  ...{ healthTimeoutSeconds: 60, restMayFollow: false },
  ...change,
});

interface Case {
  when: string;
  facts: BringUpFacts;
  is: BringUp["is"];
  more?: object;
}
const run = ({ facts, is, more }: Case) => expect(bringUp(facts)).toMatchObject({ is, ...more });

describe("containers that come up", () => {
  test.each<Case>([
    { when: "there is none", facts: facts([null, null]), is: "make", more: { slots: [0, 1], abandoned: [] } },
    { when: "one is missing", facts: facts([up, null, {}]), is: "make", more: { slots: [1] } },
    { when: "one has not said anything", facts: facts([{}]), is: "wait", more: { for: "the app to answer" } },
    { when: "one starts", facts: facts([up, { observation: observed("starting") }]), is: "wait" },
    { when: "one waits for a node", facts: facts([unseen(1_000)]), is: "wait", more: { for: "a node to take it" } },
    { when: "all of them answer", facts: facts([up, up]), is: "up", more: { lacks: null } },
    { when: "what is there is to be stopped", facts: facts([{ ...up, desired: "stopped" }]), is: "make" },
    {
      when: "there are two of one and none of the other",
      facts: facts([up, null], { containers: [inSlot(0, up), inSlot(0, up)] }),
      is: "make",
      more: { slots: [1] },
    },
    {
      when: "one has ended in a slot where another one answers",
      facts: facts([up], { containers: [inSlot(0, ended("APP_EXITED")), inSlot(0, { id: "t9", ...up })] }),
      is: "up",
    },
    {
      when: "it runs where edges cannot reach it",
      facts: facts([{ observation: { ...observed("running"), upstream: null } }]),
      is: "wait",
    },
  ])("when $when", run);
});

describe("a node that went away", () => {
  test.each<Case>([
    { when: "a moment ago", facts: facts([lost(1_000)]), is: "wait" },
    {
      when: "for long",
      facts: facts([up, lost()]),
      is: "make",
      more: { slots: [1], abandoned: [{ taskId: "t1", why: "its node went away" }] },
    },
    { when: "a moment ago, and its container answered", facts: facts([{ ...up, ...lost(1_000) }]), is: "up" },
    { when: "for long, and its container answered", facts: facts([{ ...up, ...lost() }]), is: "make" },
    { when: "while nobody looked", facts: facts([lost()], { lookingSince: ago(5_000) }), is: "wait" },
    {
      when: "for long, and another container failed by itself: nothing more is made",
      facts: facts([lost(), ended("HEALTH_CHECK_FAILED")]),
      is: "failed",
    },
    {
      when: "again and again",
      facts: facts([lost()], { attempts }),
      is: "failed",
      more: { code: "NODE_UNAVAILABLE", isOver: false },
    },
    { when: "of one of two, twice", facts: facts([up, lost()], { attempts: 4 }), is: "make" },
    { when: "of both, with one try left", facts: facts([lost(), lost()], { attempts: 5 }), is: "failed" },
  ])("$when", run);
});

describe("a container that has ended", () => {
  test.each<Case>([
    {
      when: "by the app's own doing",
      facts: facts([up, ended("HEALTH_CHECK_FAILED")]),
      is: "failed",
      more: { code: "HEALTH_CHECK_FAILED", message: "because of HEALTH_CHECK_FAILED", isOver: true },
    },
    {
      when: "because its node could not do it",
      facts: facts([ended("NODE_CAPACITY_UNAVAILABLE")]),
      is: "make",
      more: { slots: [0], abandoned: [{ taskId: "t0", why: "because of NODE_CAPACITY_UNAVAILABLE" }] },
    },
    { when: "and nobody says why", facts: facts([ended()]), is: "make" },
    { when: "by itself, with success", facts: facts([{ observation: observed("completed") }]), is: "make" },
    {
      when: "because no node could do it, again and again",
      facts: facts([ended("NODE_TASK_FAILED")], { attempts }),
      is: "failed",
      more: { code: "NODE_TASK_FAILED", message: "because of NODE_TASK_FAILED", isOver: false },
    },
  ])("$when", run);
});

describe("what takes too long", () => {
  const budgetMs = pullMs + 60_000 + graceMs;
  test.each<Case>([
    { when: "no node has room", facts: facts([refused(placementMs - 1)]), is: "wait" },
    {
      when: "no node has room for a minute",
      facts: facts([refused(placementMs)]),
      is: "failed",
      more: { code: "NODE_CAPACITY_UNAVAILABLE", message: expect.stringContaining("too little memory"), isOver: false },
    },
    {
      when: "no node has had room while nobody looked",
      facts: facts([refused(placementMs)], { lookingSince: ago(1_000) }),
      is: "wait",
    },
    { when: "no scheduler has looked for a minute", facts: facts([unseen(placementMs)]), is: "wait" },
    {
      when: "no scheduler was there for minutes",
      facts: facts([unseen(schedulerMs)]),
      is: "failed",
      more: { code: "NODE_UNAVAILABLE", isOver: false },
    },
    { when: "it still may answer", facts: facts([{ createdAt: ago(budgetMs - 1) }]), is: "wait" },
    {
      when: "it does not answer",
      facts: facts([up, { createdAt: ago(budgetMs) }]),
      is: "failed",
      more: { code: "HEALTH_CHECK_FAILED", message: "", isOver: false },
    },
    {
      when: "one waits for another, which took a node's place late",
      facts: facts([{ ...up, createdAt: ago(budgetMs) }, {}]),
      is: "wait",
    },
  ])("$when", run);
});

describe("what has no room", () => {
  const rest = { restMayFollow: true };
  test.each<Case>([
    {
      when: "follows those that answer",
      facts: facts([up, refused(roomMs)], rest),
      is: "up",
      more: { lacks: expect.stringContaining("too little memory") },
    },
    { when: "follows, however long it waits", facts: facts([up, refused(placementMs)], rest), is: "up" },
    { when: "may still find some", facts: facts([up, refused(roomMs - 1)], rest), is: "wait" },
    { when: "is most of it", facts: facts([up, refused(roomMs), refused(roomMs)], rest), is: "wait" },
    { when: "waits for what starts", facts: facts([up, {}, refused(roomMs)], rest), is: "wait" },
    { when: "waits for what is made anew", facts: facts([up, up, lost(), refused(roomMs)], rest), is: "make" },
    { when: "may not follow", facts: facts([up, refused(roomMs)]), is: "wait" },
    { when: "hides no failure", facts: facts([up, up, ended("APP_EXITED"), refused(roomMs)], rest), is: "failed" },
  ])("$when", run);
});
