import { describe, expect, test } from "vitest";
import type { ObservationValue, RunValue } from "../cluster/keys.ts";
import { commandReservations } from "./commands.ts";
import { decideLimits, takenBy } from "./limits.ts";
import { type ClusterState, type DesiredTask, type Placed, reservationsOf, schedule } from "./steps.ts";
import { aNode } from "./testing.ts";

/** What is set aside. */
function reserving(reservedMemoryMb: number, reservedCpuMillicores: number) {
  return { reservedMemoryMb, reservedCpuMillicores };
}
const small = { memoryMb: 256, cpuMillicores: 500, pidsLimit: 100, storageMb: 512, ...reserving(256, 500) };
const large = { memoryMb: 512, cpuMillicores: 1_000, pidsLimit: 200, storageMb: 1_024, ...reserving(512, 1_000) };
/** May take as much as `large`, and less than `small` is set aside for it. */
const thin = { ...large, ...reserving(64, 25) };
const { reservedMemoryMb: _, reservedCpuMillicores: __, ...largeOfBefore } = large;
const plenty = { memoryMb: 4_096, cpuMillicores: 4_000, pidsLimit: 4_096 };
const shareOf = ({ memoryMb, cpuMillicores, pidsLimit }: typeof small) => ({ memoryMb, cpuMillicores, pidsLimit });
const reservedOf = ({ reservedMemoryMb, reservedCpuMillicores }: typeof small) => ({
  reservedMemoryMb,
  reservedCpuMillicores,
});
const has = (limits: typeof small, generation = 0, problem: string | null = null) => ({
  observed: "running" as const,
  limits: { ...shareOf(limits), ...reservedOf(limits), generation, problem },
});

test.each<{
  when: string;
  wanted: typeof small;
  placement?: Omit<typeof small, "reservedMemoryMb" | "reservedCpuMillicores">;
  generation?: number;
  seen?: Pick<ObservationValue, "observed" | "limits">;
  free?: typeof plenty;
  is: ReturnType<typeof decideLimits>;
}>([
  { when: "it has what it is to have", wanted: small, is: null },
  { when: "it is to have more and there is room", wanted: large, is: { give: large, generation: 1 } },
  { when: "there is just enough room", wanted: large, free: large, is: { give: large, generation: 1 } },
  {
    when: "memory is short",
    wanted: large,
    free: { ...plenty, memoryMb: 511 },
    is: { keep: "its node has too little memory" },
  },
  {
    when: "processor is short",
    wanted: large,
    free: { ...plenty, cpuMillicores: 999 },
    is: { keep: "its node has too few processor shares" },
  },
  {
    when: "process ids are short",
    wanted: large,
    free: { ...plenty, pidsLimit: 199 },
    is: { keep: "its node has too few process ids" },
  },
  {
    when: "it may write more, on a node that has nothing left of the rest",
    wanted: { ...small, storageMb: 1_024 },
    free: { memoryMb: 0, cpuMillicores: 0, pidsLimit: 0 },
    is: { give: { ...small, storageMb: 1_024 }, generation: 1 },
  },
  {
    when: "it is to have less on a node that is overfull",
    wanted: small,
    placement: large,
    seen: has(large),
    free: { memoryMb: -1, cpuMillicores: -1, pidsLimit: -1 },
    is: { give: small, generation: 1 },
  },
  {
    when: "it gets back what its agent has not taken yet, on a node that is full",
    wanted: large,
    placement: small,
    generation: 1,
    seen: has(large),
    free: { memoryMb: 300, cpuMillicores: 600, pidsLimit: 150 },
    is: { give: large, generation: 2 },
  },
  {
    when: "less is to be set aside for it, on a node that is overfull",
    wanted: thin,
    placement: large,
    seen: has(large),
    free: { memoryMb: -1, cpuMillicores: -1, pidsLimit: -1 },
    is: { give: thin, generation: 1 },
  },
  {
    when: "it was placed before less was set aside than it may take, and that is to stay so",
    wanted: large,
    placement: largeOfBefore,
    seen: has(large),
    is: null,
  },
  {
    when: "it was placed before less was set aside than it may take",
    wanted: thin,
    placement: largeOfBefore,
    seen: has(large),
    is: { give: thin, generation: 1 },
  },
  {
    when: "it may take more, and no more is set aside for it, on a node that has no memory left",
    wanted: { ...thin, memoryMb: 4_096, reservedMemoryMb: 256, reservedCpuMillicores: 500, pidsLimit: 100 },
    free: { memoryMb: 0, cpuMillicores: 0, pidsLimit: 0 },
    is: {
      give: { ...thin, memoryMb: 4_096, reservedMemoryMb: 256, reservedCpuMillicores: 500, pidsLimit: 100 },
      generation: 1,
    },
  },
  {
    when: "nobody has heard of it yet",
    wanted: large,
    seen: { observed: "pulling" },
    is: null,
  },
  {
    when: "its agent does not tell what its containers have",
    wanted: large,
    seen: { observed: "running" },
    is: { keep: expect.stringContaining("of a version that cannot") },
  },
  {
    when: "its agent could not change it",
    wanted: large,
    placement: large,
    generation: 3,
    seen: has(small, 3, "the app uses too much"),
    is: { keep: "the app uses too much" },
  },
  {
    when: "its agent could not change it, and has not answered to what was asked since",
    wanted: large,
    placement: large,
    generation: 4,
    seen: has(small, 3, "the app uses too much"),
    is: null,
  },
  {
    when: "its agent could not change it, and it is to have what it has again",
    wanted: small,
    placement: large,
    generation: 3,
    seen: has(small, 3, "the app uses too much"),
    is: { give: small, generation: 4 },
  },
  {
    when: "the store was restored and its agent knows a later generation",
    wanted: small,
    placement: small,
    generation: 1,
    seen: has(large, 5),
    is: { give: small, generation: 6 },
  },
  {
    when: "the store was restored, and the container has what it is to have all the same",
    wanted: small,
    placement: small,
    generation: 1,
    seen: has(small, 5),
    is: null,
  },
])("$when", ({ wanted, placement = small, generation = 0, seen = has(small), free = plenty, is }) => {
  expect(decideLimits(wanted, { ...placement, limitsGeneration: generation }, seen, free)).toEqual(is);
});

test("a placement takes what its container still has, until its agent has said otherwise", () => {
  expect(takenBy(shareOf(small), undefined)).toEqual(shareOf(small));
  expect(takenBy(small, has(large))).toEqual(shareOf(large));
  expect(takenBy(large, has(small))).toEqual(shareOf(large));
  expect(takenBy(small, has({ ...small, reservedMemoryMb: 512 }))).toEqual({ ...shareOf(small), memoryMb: 512 });
  const thinShare = { memoryMb: 64, cpuMillicores: 25, pidsLimit: 200 };
  expect(takenBy(thin, has(large))).toEqual(shareOf(large));
  expect(takenBy(thin, has(thin))).toEqual(thinShare);
  // Its agent is of before anything was set aside apart from limits, or the placement is.
  const { reservedMemoryMb: _, reservedCpuMillicores: __, ...silent } = has(large).limits;
  expect(takenBy(thin, { limits: silent })).toEqual(thinShare);
  expect(takenBy(largeOfBefore, { limits: silent })).toEqual(shareOf(large));
});

describe("in a round", () => {
  const node = aNode("n1", { cpuMillicores: 4_000 });
  const aTask = (id: string, change: Partial<DesiredTask> = {}): DesiredTask => ({
    ...{
      id,
      projectId: "p1",
      ownerKind: "deployment",
      ownerId: `d-${id}`,
      kind: "serve",
      channel: "production",
      epoch: 1,
    },
    ...{
      desired: "running",
      specHash: "h",
      platform: null,
      diskMb: 0,
      hasDockerfile: false,
      nodeSelector: {},
      pinnedTo: null,
      nodeId: "n1",
      refused: false,
      waitedMs: 0,
      drainSeconds: 0,
      ...small,
      ...change,
      ...(change.memoryMb !== undefined && { reservedMemoryMb: change.memoryMb }),
    },
  });
  const placed = (task: DesiredTask, limits = small): Placed => {
    const { id: placementId, projectId, ownerKind, ownerId, kind, channel, epoch, desired, specHash } = task;
    const own = { placementId, projectId, ownerKind, ownerId, kind, channel, epoch, desired, specHash };
    return { ...own, ...limits, nodeId: "n1", limitsGeneration: 0, drainSeconds: 0, modRevision: 7n };
  };
  /** All of them run with `small` limits. */
  const aState = (tasks: DesiredTask[], change: Partial<ClusterState> = {}): ClusterState => ({
    nodes: [node],
    goneNodes: new Set(),
    tasks,
    placed: new Map(tasks.filter(({ nodeId }) => nodeId !== null).map((task) => [task.id, placed(task)])),
    observed: new Map(tasks.map((task) => [task.id, has(small)])),
    ...change,
  });
  const doneIn = (state: ClusterState) => schedule(state).map((step) => step.do);

  test("what runs gets more as long as there is room, and whoever is too late keeps what it has", () => {
    const tasks = ["a", "b", "c"].map((id) => aTask(id, { memoryMb: 384 }));
    expect(schedule(aState(tasks))).toMatchObject([
      { do: "resize", nodeId: "n1", placement: { placementId: "a", modRevision: 7n }, limits: { memoryMb: 384 } },
      { do: "resize", placement: { placementId: "b" }, generation: 1 },
      { do: "keep", taskId: "c", ownerId: "d-c", reason: "its node has too little memory" },
    ]);
  });

  test("what does not run yet is placed before what runs gets more", () => {
    const tasks = [aTask("a", { memoryMb: 512 }), aTask("b"), aTask("new", { nodeId: null, memoryMb: 512 })];
    const state = aState(tasks);
    expect(doneIn(state)).toEqual(["place", "keep"]);
  });

  test("what is to be less frees room only after its agent has said that it is", () => {
    const less = aTask("a", { memoryMb: 128 });
    const more = aTask("b", { memoryMb: 768 });
    const asked = new Map([
      ["a", { ...placed(less, { ...small, memoryMb: 128, reservedMemoryMb: 128 }), limitsGeneration: 1 }],
      ["b", placed(more)],
    ]);
    const state = aState([less, more], { placed: asked, nodes: [{ ...node, memoryMb: 900 }] });
    expect(doneIn(state)).toEqual(["keep"]);
    expect(reservationsOf(state).map(({ memoryMb }) => memoryMb)).toEqual([256, 256]);
    const confirmed = new Map(state.observed).set("a", has({ ...small, memoryMb: 128, reservedMemoryMb: 128 }, 1));
    expect(doneIn({ ...state, observed: confirmed })).toEqual(["resize"]);
  });

  test("a command takes room until it is over, and nobody else gets that", () => {
    const state = aState([aTask("new", { nodeId: null })], { nodes: [{ ...node, memoryMb: 400 }] });
    const reserved = { memoryMb: 200, cpuMillicores: 10, pidsLimit: 10 };
    const run = { projectId: "p", ownerId: "r", state: "started", reserved } as const;
    const commandsOf = (values: Partial<RunValue>) =>
      commandReservations([{ nodeId: "n1", run: { ...run, ...values } }]);
    expect(doneIn({ ...state, commands: commandsOf({ state: "offered" }) })).toEqual(["refuse"]);
    expect(doneIn({ ...state, commands: commandsOf({}) })).toEqual(["refuse"]);
    expect(doneIn({ ...state, commands: commandsOf({ state: "exited" }) })).toEqual(["place"]);
    // A release command, and a run of a control of before they counted, take none.
    expect(commandReservations([{ nodeId: "n1", run: { ...run, reserved: undefined } }])).toEqual([]);
  });

  test("the reason is taken back once it has what it is to have", () => {
    const task = aTask("a", { refused: true });
    expect(schedule(aState([task]))).toEqual([{ do: "mirror", nodeId: "n1", taskId: "a" }]);
    expect(doneIn(aState([aTask("a")]))).toEqual([]);
  });

  test.each([
    { what: "builds", change: { kind: "build" as const } },
    { what: "what is to stop", change: { desired: "stopped" as const } },
    { what: "what is to go", change: { desired: "removed" as const } },
  ])("$what keeps what it began with", ({ change }) => {
    const task = aTask("a", { ...change, memoryMb: 384 });
    const state = aState([task]);
    expect(doneIn(state)).not.toContain("resize");
  });

  test("what has ended keeps what it had, and so does what is on a node that is gone", () => {
    const task = aTask("a", { memoryMb: 384 });
    expect(doneIn(aState([task], { observed: new Map([["a", { ...has(small), observed: "failed" }]]) }))).toEqual([]);
    expect(doneIn(aState([task], { nodes: [], goneNodes: new Set(["n1"]) }))).toEqual([]);
  });
});
