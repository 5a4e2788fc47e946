import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  channels,
  deploymentActionApplies,
  deploymentEvents,
  deploymentStatuses,
  deploymentTransitions,
  isOpen,
  isSettled,
  isTerminal,
  type NodeAction,
  type NodeAxes,
  type NodeCircumstances,
  nextDeploymentStatus,
  nextReleaseStatus,
  nodeActionProblem,
  nodeActions,
  nodeAssentProblem,
  nodeDrains,
  nodeLinks,
  nodeStatus,
  nodeStatuses,
  openStatuses,
  releaseEvents,
  releaseStatuses,
  releaseTransitions,
  settledStatuses,
  terminalStatuses,
} from "./lifecycle.ts";

describe("deployments", () => {
  test("every status has a row, and rows lead to known statuses by known events", () => {
    expect(Object.keys(deploymentTransitions).sort()).toEqual([...deploymentStatuses].sort());
    for (const row of Object.values(deploymentTransitions))
      for (const [event, next] of Object.entries(row)) {
        expect(deploymentEvents).toContain(event);
        expect(deploymentStatuses).toContain(next);
      }
  });

  test("terminal statuses are exactly those that nothing leaves", () => {
    const stuck = deploymentStatuses.filter((status) => Object.keys(deploymentTransitions[status]).length === 0);
    expect([...stuck].sort()).toEqual([...terminalStatuses].sort());
  });

  test("each status is open or settled", () => {
    expect([...openStatuses, ...settledStatuses].sort()).toEqual([...deploymentStatuses].sort());
    for (const status of deploymentStatuses) {
      expect(isOpen(status)).not.toBe(isSettled(status));
      if (isTerminal(status)) expect(isSettled(status)).toBe(true);
    }
  });

  test("no sequence of events brings a settled deployment back to work, or a terminal one anywhere", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...deploymentEvents)), (events) => {
        let status: (typeof deploymentStatuses)[number] = "queued";
        for (const event of events) {
          const next = nextDeploymentStatus(status, event);
          if (next === null) continue;
          expect(isTerminal(status)).toBe(false);
          if (isSettled(status)) expect(isOpen(next)).toBe(false);
          status = next;
        }
      }),
    );
  });

  test.each([
    { story: ["claimed", "built", "routed"], ends: "running" },
    { story: ["claimed", "built", "routed", "stopped", "started", "superseded"], ends: "superseded" },
    { story: ["claimed", "built", "stopped", "started"], ends: "running" },
    { story: ["claimed", "failed"], ends: "failed" },
    { story: ["canceled", "claimed"], ends: "canceled" },
    { story: ["claimed", "built", "canceled"], ends: "canceled" },
  ] as const)("$story ends $ends", ({ story, ends }) => {
    let status: (typeof deploymentStatuses)[number] = "queued";
    for (const event of story) status = nextDeploymentStatus(status, event) ?? status;
    expect(status).toBe(ends);
  });

  test("actions apply to their statuses and channels only", () => {
    const applying = (action: Parameters<typeof deploymentActionApplies>[0]): string[] =>
      channels.flatMap((channel) =>
        deploymentStatuses
          .filter((status) => deploymentActionApplies(action, status, channel))
          .map((status) => `${channel} ${status}`),
      );
    expect(applying("stop")).toEqual(["production running"]);
    expect(applying("start")).toEqual(["production stopped"]);
    expect(applying("promote")).toEqual(["preview running"]);
    expect(applying("rollback")).toEqual(["production superseded", "dev superseded"]);
    expect(applying("cancel")).toHaveLength(9);
  });
});

test("release commands: every status has a row and each end is final", () => {
  expect(Object.keys(releaseTransitions).sort()).toEqual([...releaseStatuses].sort());
  for (const status of ["not_configured", "succeeded", "failed", "skipped"] as const)
    for (const event of releaseEvents) expect(nextReleaseStatus(status, event)).toBeNull();
  expect(nextReleaseStatus("pending", "started")).toBe("running");
  expect(nextReleaseStatus("running", "skipped")).toBeNull();
});

describe("nodes", () => {
  const ready: NodeAxes = { lifecycle: "active", schedulable: true, drain: "none", link: "connected" };
  const lifecycles = ["active", "fenced", "removed"] as const;
  const allAxes = lifecycles.flatMap((lifecycle) =>
    [true, false].flatMap((schedulable) =>
      nodeDrains.flatMap((drain) => nodeLinks.map((link): NodeAxes => ({ lifecycle, schedulable, drain, link }))),
    ),
  );

  test("every combination has one known word, and every word occurs", () => {
    const words = new Set(allAxes.map(nodeStatus));
    expect([...words].sort()).toEqual([...nodeStatuses].sort());
  });

  test.each<{ axes: Partial<NodeAxes>; word: string }>([
    { axes: {}, word: "ready" },
    { axes: { schedulable: false }, word: "cordoned" },
    { axes: { schedulable: false, drain: "deadline" }, word: "draining" },
    { axes: { schedulable: false, drain: "drained" }, word: "drained" },
    { axes: { link: "unknown" }, word: "suspect" },
    { axes: { link: "unreachable", drain: "draining" }, word: "unreachable" },
    { axes: { lifecycle: "fenced", link: "unreachable" }, word: "fenced" },
  ])("$axes reads $word", ({ axes, word }) => {
    expect(nodeStatus({ ...ready, ...axes })).toBe(word);
  });

  const on = (axes: Partial<NodeAxes>, rest: Partial<NodeCircumstances> = {}): NodeCircumstances => ({
    role: "node",
    heldCount: 0,
    databaseCount: 0,
    hasOtherEdge: true,
    isBehind: false,
    ...rest,
    axes: { ...ready, ...axes },
  });
  const allowed = (circumstances: NodeCircumstances) =>
    nodeActions.filter((action) => nodeActionProblem(action, circumstances) === null);

  test.each<{ axes: Partial<NodeAxes>; rest?: Partial<NodeCircumstances>; allows: string[] }>([
    { axes: {}, allows: ["cordon", "drain"] },
    { axes: { schedulable: false }, allows: ["uncordon", "drain"] },
    { axes: { schedulable: false, drain: "draining" }, allows: ["cancel-drain"] },
    { axes: { schedulable: false, drain: "deadline" }, allows: ["cancel-drain"] },
    { axes: { schedulable: false, drain: "drained" }, allows: ["cancel-drain", "remove"] },
    { axes: { schedulable: false, drain: "drained" }, rest: { heldCount: 1 }, allows: ["cancel-drain"] },
    { axes: { schedulable: false, drain: "drained" }, rest: { databaseCount: 1 }, allows: ["cancel-drain"] },
    { axes: { link: "suspect" }, allows: ["cordon", "drain"] },
    { axes: { link: "unreachable" }, allows: ["cordon", "drain", "force-fence"] },
    {
      axes: { schedulable: false, drain: "draining", link: "unreachable" },
      allows: ["cancel-drain", "force-fence"],
    },
    {
      axes: { lifecycle: "fenced", link: "unreachable" },
      rest: { heldCount: 4, databaseCount: 4 },
      allows: ["remove"],
    },
    { axes: { lifecycle: "removed" }, allows: [] },
    { axes: {}, rest: { role: "edge" }, allows: ["cordon", "drain"] },
    { axes: {}, rest: { role: "edge", hasOtherEdge: false }, allows: [] },
    { axes: { schedulable: false }, rest: { role: "edge", isBehind: true }, allows: ["drain"] },
    { axes: { link: "unreachable" }, rest: { role: "edge", hasOtherEdge: false }, allows: ["force-fence"] },
    {
      axes: { schedulable: false },
      rest: { role: "edge", hasOtherEdge: false },
      allows: ["uncordon", "drain"],
    },
  ])("$axes $rest allows $allows", ({ axes, rest, allows }) => {
    expect(allowed(on(axes, rest))).toEqual(allows);
  });

  /** What each action needs, said once more and differently: of every axis the values that allow it. */
  const needs: Record<NodeAction, (axes: NodeAxes) => boolean> = {
    cordon: ({ lifecycle, schedulable, drain }) => lifecycle === "active" && schedulable && drain === "none",
    uncordon: ({ lifecycle, schedulable, drain }) => lifecycle === "active" && !schedulable && drain === "none",
    drain: ({ lifecycle, drain }) => lifecycle === "active" && drain === "none",
    "cancel-drain": ({ lifecycle, drain }) => lifecycle === "active" && drain !== "none",
    "force-fence": ({ lifecycle, link }) => lifecycle === "active" && ["unreachable", "quarantined"].includes(link),
    remove: ({ lifecycle, drain }) => lifecycle === "fenced" || (lifecycle === "active" && drain === "drained"),
  };

  test.each(nodeActions)("%s is allowed in exactly the states that it needs, and else says what to do", (action) => {
    for (const axes of allAxes) {
      const problem = nodeActionProblem(action, on(axes));
      expect([axes, problem === null]).toEqual([axes, needs[action](axes)]);
      if (problem !== null) expect(problem).toMatch(/^[A-Z].{20,}[.]$/);
    }
  });

  test("only a machine that cannot answer is fenced", () => {
    for (const axes of allAxes)
      if (nodeActionProblem("force-fence", on(axes)) === null)
        expect(["unreachable", "quarantined"]).toContain(nodeStatus(axes));
  });

  test.each<{ action: NodeAction; given: { reason?: string; confirm?: boolean }; says: RegExp | null }>([
    { action: "cordon", given: {}, says: null },
    { action: "drain", given: { confirm: false }, says: null },
    { action: "force-fence", given: {}, says: /reason/ },
    { action: "force-fence", given: { confirm: true }, says: /reason/ },
    { action: "force-fence", given: { reason: "off" }, says: /confirm: true/ },
    { action: "force-fence", given: { reason: "off", confirm: false }, says: /confirm: true/ },
    { action: "force-fence", given: { reason: "off", confirm: true }, says: null },
    { action: "remove", given: { reason: "sold" }, says: /confirm: true/ },
    { action: "remove", given: { confirm: true }, says: null },
  ])("$action with $given", ({ action, given, says }) => {
    const problem = nodeAssentProblem(action, given);
    if (says === null) expect(problem).toBeNull();
    else expect(problem).toMatch(says);
  });
});
