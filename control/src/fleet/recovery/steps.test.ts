import { expect, test } from "vitest";
import { keys, type PlacementValue, type RunValue } from "../cluster/keys.ts";
import type { OpenAttempt } from "../tasks/owners/owner.ts";
import { type KnownTask, type Restored, recoverySteps } from "./steps.ts";

const now = new Date("2030-01-01T00:00:00Z");
const about = {
  epoch: 7,
  kind: "serve",
  specHash: "h",
  projectId: "p",
  ownerKind: "deployment",
  ownerId: "d",
  channel: "production",
} as const;
const limits = { memoryMb: 512, cpuMillicores: 500, pidsLimit: 128, storageMb: 1_024, drainSeconds: 0 };

const aTask = (changes: Partial<KnownTask> = {}): KnownTask => ({
  ...{ id: "t1", desired: "running", nodeId: "n1", reaped: false },
  ...about,
  ...limits,
  ...changes,
});
const aPlacement = (changes: Partial<PlacementValue> = {}): Restored["placements"][number] => ({
  nodeId: "n1",
  placement: { placementId: "t1", desired: "running", ...about, ...limits, limitsGeneration: 3, ...changes },
});
const aRun = (state: RunValue["state"]): Restored["runs"][number] => ({
  nodeId: "n1",
  run: {
    ...{
      attemptId: "d.1",
      kind: "release",
      ownerKind: "deployment",
      ownerId: "d",
      projectId: "p",
      state,
      cancel: false,
      acceptedBy: null,
      token: "t",
      exitCode: null,
    },
    ...{ timedOut: false, message: null, startedAt: null, finishedAt: null, changedAt: "2029-01-01T00:00:00.000Z" },
  },
});
const anAttempt: OpenAttempt = {
  ...{ attemptId: "d.1", kind: "release", ownerKind: "deployment", ownerId: "d", projectId: "p", nodeId: "n1" },
};

const recover = (
  tasks: readonly KnownTask[],
  restored: Partial<Restored> = {},
  attempts: readonly OpenAttempt[] = [],
) => {
  const known = new Map(tasks.map((task) => [task.id, task]));
  return recoverySteps(known, attempts, { placements: [], runs: [], outdated: [], ...restored }, now);
};

test("a placement that the backup does not have is on its node again, under the same name", () => {
  const { puts, deletes, replaced } = recover([aTask()]);
  expect(puts).toEqual([
    { key: keys.placement("n1", "t1"), value: { ...aPlacement({ limitsGeneration: 0 }).placement } },
  ]);
  expect(deletes).toEqual([]);
  expect(replaced).toBe(1);
});

test.each([
  { when: "it was never placed", task: aTask({ nodeId: null }) },
  { when: "its container is gone", task: aTask({ reaped: true, desired: "removed" }) },
])("nothing is placed when $when", ({ task }) => {
  expect(recover([task])).toMatchObject({ puts: [], deletes: [], replaced: 0 });
});

test("a placement that is as Postgres says stays as it is, its limits included", () => {
  expect(recover([aTask()], { placements: [aPlacement()] })).toMatchObject({ puts: [], deletes: [] });
});

test("what was to be stopped since the backup is to be stopped", () => {
  const { puts, advanced } = recover([aTask({ desired: "removed" })], { placements: [aPlacement()] });
  expect(puts).toEqual([{ key: keys.placement("n1", "t1"), value: aPlacement({ desired: "removed" }).placement }]);
  expect(advanced).toBe(1);
});

test("desired states never go back: what etcd says to remove is not run again by an older Postgres", () => {
  const placements = [aPlacement({ desired: "removed" })];
  expect(recover([aTask()], { placements })).toMatchObject({ puts: [], deletes: [] });
});

test("what was gone when the backup was restored does not come back", () => {
  const { puts, deletes, forgotten } = recover([aTask({ desired: "removed", reaped: true })], {
    placements: [aPlacement()],
  });
  expect(puts).toEqual([]);
  expect(deletes).toEqual([keys.placement("n1", "t1")]);
  expect(forgotten).toBe(1);
});

test("what only etcd knows runs on", () => {
  const { puts, deletes, unknown } = recover([], { placements: [aPlacement()] });
  expect([puts, deletes]).toEqual([[], []]);
  expect(unknown).toEqual([{ nodeId: "n1", placementId: "t1" }]);
});

test.each(["offered", "accepted", "granted", "started"] as const)(
  "a release command that was %s in the backup is never offered or granted again",
  (state) => {
    const { puts, unsettled } = recover([], { runs: [aRun(state)] }, [anAttempt]);
    expect(puts).toHaveLength(1);
    expect(puts[0]).toMatchObject({ key: keys.run("n1", "d.1"), value: { state: "indeterminate", token: "t" } });
    expect(unsettled).toEqual(new Map([["release", 1]]));
  },
);

test("a release command that began after the backup is not offered a second time", () => {
  const { puts } = recover([], {}, [anAttempt]);
  expect(puts).toHaveLength(1);
  expect(puts[0]).toMatchObject({ key: keys.run("n1", "d.1"), value: { attemptId: "d.1", state: "indeterminate" } });
});

test.each(["refused", "exited", "not_started", "indeterminate"] as const)("a run that was %s stays so", (state) => {
  expect(recover([], { runs: [aRun(state)] }, [anAttempt])).toMatchObject({ puts: [], unsettled: new Map() });
});

test("the old route table goes, with what edges said of it and nodes of their containers", () => {
  const outdated = [keys.route("a.test"), keys.routesMeta, keys.edgeApplied("e1"), keys.observation("n1", "t1")];
  expect(recover([], { outdated }).deletes).toEqual(outdated);
});
