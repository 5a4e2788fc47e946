import { describe, expect, test } from "vitest";
import { reservationOf } from "../../identity/plans/rules.ts";
import { standardPlan } from "../../stores/db/seed.ts";
import type { Plan } from "../../stores/db/tables.ts";
import { buildResources } from "../tasks/kinds/build.ts";
import { limitsOfPlan } from "../tasks/kinds/serve.ts";
import { schedule } from "./steps.ts";
import { aNode, aTask } from "./testing.ts";

const plan = { ...standardPlan, reserved_memory_mb: null, reserved_cpu_millicores: null } as unknown as Plan;
/** What a machine of two processors and 4 GB offers, after what it keeps for itself. */
const machine = { memoryMb: 3_414, cpuMillicores: 2_000, pids: 32_768 };
const sites = (count: number, change: object = {}) =>
  Array.from({ length: count }, (_, at) =>
    aTask(`t${at}`, { ...limitsOfPlan(plan), projectId: `p${at}`, ownerId: `d${at}`, epoch: at, ...change }),
  );

/** How many of so many find a place, and why the others do not. */
function placed(tasks: ReturnType<typeof sites>, nodes = [aNode("n1", machine)]) {
  const steps = schedule({ nodes, goneNodes: new Set(), tasks, placed: new Map(), observed: new Map() });
  const refused = steps.flatMap((step) => (step.do === "refuse" ? Object.keys(step.refused) : []));
  return { placed: steps.filter((step) => step.do === "place").length, refused: [...new Set(refused)] };
}

describe("a machine of two processors and 4 GB", () => {
  test("takes forty sites of the plan that everybody begins with, and a build beside them", () => {
    const build = aTask("build", { ...buildResources, kind: "build", projectId: "p", ownerId: "d" });
    expect(placed([...sites(40), build])).toEqual({ placed: 41, refused: [] });
  });

  test("refuses what would have more memory set aside than it has", () => {
    expect(placed(sites(60))).toEqual({ placed: 53, refused: ["too little memory"] });
    expect(53 * reservationOf(plan).reservedMemoryMb).toBeLessThanOrEqual(machine.memoryMb);
  });

  test("refuses everything while its memory is really used up, whatever is set aside", () => {
    expect(placed(sites(1), [aNode("n1", { ...machine, memoryShort: true })])).toEqual({
      placed: 0,
      refused: ["memory almost used up"],
    });
  });

  test("takes as few of those that have all of their limits set aside as ever", () => {
    const whole = { reservedMemoryMb: plan.memory_mb, reservedCpuMillicores: plan.cpu_millicores };
    expect(placed(sites(12, whole))).toEqual({ placed: 2, refused: ["too few processor shares"] });
  });
});

test.each([
  { when: "the plan says nothing", plan: {}, is: [64, 25] },
  { when: "the plan is large", plan: { memory_mb: 8_192, cpu_millicores: 4_000 }, is: [1_024, 100] },
  { when: "the plan is tiny", plan: { memory_mb: 64, cpu_millicores: 50 }, is: [32, 10] },
  { when: "the plan is smaller than the least", plan: { memory_mb: 20, cpu_millicores: 5 }, is: [20, 5] },
  { when: "the plan says how much", plan: { reserved_memory_mb: 200, reserved_cpu_millicores: 300 }, is: [200, 300] },
  {
    when: "the plan says more than it allows",
    plan: { reserved_memory_mb: 9_999, reserved_cpu_millicores: 9_999 },
    is: [512, 1_000],
  },
])("when $when, $is MiB and millicores are set aside", ({ plan: change, is }) => {
  const { reservedMemoryMb, reservedCpuMillicores } = reservationOf({ ...plan, ...change });
  expect([reservedMemoryMb, reservedCpuMillicores]).toEqual(is);
});
