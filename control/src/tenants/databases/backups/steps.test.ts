import { describe, expect, test } from "vitest";
import { type BackupFacts, type BackupTaskFacts, nextBackupStep } from "./steps.ts";

const file = { digest: `sha256:${"a".repeat(64)}`, sizeBytes: 1_000, dumpBytes: 9_000 };
const aTask = (changes: Partial<BackupTaskFacts> = {}): BackupTaskFacts => ({
  ...{ taskId: "t1", wanted: true, state: "running", problem: null, file: null },
  ...changes,
});
const facts = (changes: Partial<BackupFacts> = {}): BackupFacts => ({
  ...{ status: "pending", ageMs: 0, projectGone: false, suspended: false },
  ...{ branch: "ready", server: { nodeId: "n1", image: "i1" }, task: null },
  ...changes,
});
const hours = 3_600_000;

test.each([
  { when: "it was asked for", with: {}, does: { do: "startTask", nodeId: "n1", image: "i1" } },
  { when: "the server is starting again", with: { server: null }, does: { do: "wait" } },
  { when: "its task waits for a place", with: { task: aTask({ state: "waiting" }) }, does: { do: "wait" } },
  { when: "its task runs", with: { task: aTask() }, does: { do: "markRunning" } },
  { when: "that is known", with: { status: "running" as const, task: aTask() }, does: { do: "wait" } },
  {
    when: "the server is away while the program reads what it has open",
    with: { status: "running" as const, server: null, task: aTask() },
    does: { do: "wait" },
  },
  {
    when: "the node has pushed something",
    with: { status: "running" as const, task: aTask({ state: "completed", file }) },
    does: { do: "accept", taskId: "t1", file },
  },
  {
    when: "all of it came between two looks",
    with: { task: aTask({ state: "completed", file }) },
    does: { do: "accept", taskId: "t1", file },
  },
])("when $when: $does.do", ({ with: changes, does }) => {
  expect(nextBackupStep(facts(changes))).toMatchObject(does);
});

describe("it fails", () => {
  test.each([
    { when: "two hours have passed", with: { ageMs: 2 * hours }, why: /2 hours/ },
    {
      when: "its file comes too late",
      with: { ageMs: 2 * hours, task: aTask({ state: "completed", file }) },
      why: /2 hours/,
    },
    { when: "the project is deleted", with: { projectGone: true }, why: /deleted/ },
    { when: "the project is suspended", with: { suspended: true }, why: /suspended/ },
    { when: "the branch is dropped", with: { branch: "dropping" as const }, why: /dropped/ },
    { when: "the branch is gone, and maybe another one there", with: { branch: null }, why: /dropped/ },
    { when: "the branch has failed", with: { branch: "error" as const }, why: /not ready/ },
    {
      when: "the node says why",
      with: { task: aTask({ state: "failed", problem: "permission denied" }) },
      why: /denied/,
    },
    { when: "the node does not say why", with: { task: aTask({ state: "failed" }) }, why: /could not be read/ },
    { when: "the node is emptied", with: { task: aTask({ wanted: false }) }, why: /out of service/ },
    { when: "the node is done and has nothing", with: { task: aTask({ state: "completed" }) }, why: /nobody knows/i },
  ])("when $when", ({ with: changes, why }) => {
    for (const status of ["pending", "running"] as const) {
      expect(nextBackupStep(facts({ ...changes, status }))).toEqual({ do: "fail", reason: expect.stringMatching(why) });
    }
  });
});

test.each(["complete", "failed"] as const)("one that is %s is over, once its task is asked to go", (status) => {
  expect(nextBackupStep(facts({ status, branch: null, task: aTask() }))).toEqual({ do: "removeTask", taskId: "t1" });
  expect(nextBackupStep(facts({ status, branch: null, task: aTask({ wanted: false }) }))).toEqual({ do: "end" });
  expect(nextBackupStep(facts({ status, ageMs: 9 * hours }))).toEqual({ do: "end" });
});
