import { expect, test } from "vitest";
import { keys, type ObservationValue } from "../cluster/keys.ts";
import { wakesScheduler } from "./wakes.ts";

const [node, task, other] = ["node", "task", "other"];
const observation = keys.observation(node, task);
const limits = { generation: 0, memoryMb: 64, cpuMillicores: 50, pidsLimit: 64, problem: null };

type Seen = Pick<ObservationValue, "observed" | "limits">;
const cases: { what: string; changed: string[] | undefined; seen: Seen | null; wakes: boolean }[] = [
  { what: "it may be any", changed: undefined, seen: null, wakes: true },
  { what: "nothing", changed: [], seen: null, wakes: false },
  { what: "a placement that it wrote", changed: [keys.placement(node, task)], seen: null, wakes: false },
  { what: "an observation that is gone", changed: [observation], seen: null, wakes: true },
  ...(["assigned", "accepted", "pulling", "created", "starting", "running"] as const).map((observed) => ({
    what: `a container that is ${observed}`,
    changed: [observation],
    seen: { observed, limits },
    wakes: false,
  })),
  ...(["stopped", "failed", "removed"] as const).map((observed) => ({
    what: `a container that is ${observed}`,
    changed: [observation],
    seen: { observed, limits },
    wakes: true,
  })),
  {
    what: "a container of an agent that tells no limits",
    changed: [observation],
    seen: { observed: "running" },
    wakes: false,
  },
  {
    what: "a container that has other limits than it began with",
    changed: [observation],
    seen: { observed: "running", limits: { ...limits, generation: 1 } },
    wakes: true,
  },
  {
    what: "a container that does not get its limits",
    changed: [observation],
    seen: { observed: "running", limits: { ...limits, problem: "NO_LIVE_LIMITS" } },
    wakes: true,
  },
  {
    what: "one that ended among placements",
    changed: [keys.placement(node, other), observation],
    seen: { observed: "removed" },
    wakes: true,
  },
];

test.each(cases)("$what: $wakes", ({ changed, seen, wakes }) => {
  expect(
    wakesScheduler(
      changed?.map((key) => ({ key })),
      (nodeId, taskId) => (nodeId === node && taskId === task ? seen : null),
    ),
  ).toBe(wakes);
});
