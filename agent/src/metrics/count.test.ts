import { create } from "@bufbuild/protobuf";
import { Observed, PlacementStatusSchema, RunPhase, RunStatusSchema } from "@svc/proto/node";
import { systemClock } from "@svc/runtime/system";
import { expect, test } from "vitest";
import type { Engine } from "../engine/engine.ts";
import { EngineError } from "../engine/errors.ts";
import { countCalls, countRuns, countStatuses } from "./count.ts";
import { createMetrics } from "./metrics.ts";

const seriesOf = async (metrics: ReturnType<typeof createMetrics>, series: string) =>
  (await metrics.read())
    .split("\n")
    .find((line) => line.startsWith(`${series} `))
    ?.split(" ")
    .at(-1);

test("a container that is started again counts once, and what an earlier process saw not at all", async () => {
  const metrics = createMetrics();
  const count = countStatuses(metrics, () => false);
  const status = (restartSeq: number) =>
    create(PlacementStatusSchema, { placementId: "p1", restartSeq, observed: Observed.RUNNING });
  for (const restartSeq of [4, 4, 5, 5, 7]) count(status(restartSeq));
  expect(await seriesOf(metrics, "svc_agent_container_restarts_total")).toBe("3");
});

test("a build counts when it ends, once, by how it ended", async () => {
  const metrics = createMetrics();
  const count = countStatuses(metrics, (id) => id.startsWith("build"));
  for (const [placementId, end] of [
    ["build-1", Observed.COMPLETED],
    ["build-2", Observed.FAILED],
    ["site-1", Observed.FAILED],
  ] as const) {
    for (const observed of [Observed.ACCEPTED, end, end])
      count(create(PlacementStatusSchema, { placementId, observed }));
  }
  expect(await seriesOf(metrics, 'svc_agent_builds_total{outcome="completed"}')).toBe("1");
  expect(await seriesOf(metrics, 'svc_agent_builds_total{outcome="failed"}')).toBe("1");
});

test("evidence of a run that is told again and again is one run", async () => {
  const metrics = createMetrics();
  const count = countRuns(metrics);
  for (const phase of [RunPhase.STARTED, RunPhase.EXITED, RunPhase.EXITED])
    count(create(RunStatusSchema, { attemptId: "a1", phase }));
  count(create(RunStatusSchema, { attemptId: "a2", phase: RunPhase.INDETERMINATE }));
  expect(await seriesOf(metrics, 'svc_agent_runs_total{outcome="exited"}')).toBe("1");
  expect(await seriesOf(metrics, 'svc_agent_runs_total{outcome="indeterminate"}')).toBe("1");
});

test("a call that fails is told by its kind, and fails as before", async () => {
  const metrics = createMetrics();
  const stalled = new EngineError("stalled", "start container: no answer");
  const engine = countCalls(
    systemClock,
    { startContainer: () => Promise.reject(stalled), pullImage: async () => {} } as unknown as Engine,
    metrics,
  );
  await expect(engine.startContainer("c")).rejects.toBe(stalled);
  await engine.pullImage("i", null, () => {}, AbortSignal.timeout(1_000));
  expect(await seriesOf(metrics, 'svc_agent_engine_call_errors_total{call="startContainer",kind="stalled"}')).toBe("1");
  expect(await seriesOf(metrics, 'svc_agent_engine_call_seconds_count{call="startContainer"}')).toBe("1");
  expect(await seriesOf(metrics, 'svc_agent_pulls_total{outcome="ok"}')).toBe("1");
});
