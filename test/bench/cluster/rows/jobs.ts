import { setTimeout as delay } from "node:timers/promises";
import { waitFor } from "../../../support/wait-for.ts";
import { createDeployments, createHosts, createProjects } from "../apps.ts";
import { agentsOf, type Bench, profiled } from "../bench.ts";
import { atMost, none } from "../measure.ts";
import { monotonicMs } from "../monotonic.ts";

const perSecond = 5;
const doneMs = 240_000;
const readyMs = 60_000;

/**
 * Rows 11 and 12, by what there is of work that must not run twice: release commands. First at a steady rate, then many at
 * once while control is killed in the middle of it. Their apps stay; returns how many.
 */
export async function measureJobs(bench: Bench): Promise<number> {
  const { stand, fleet, quick, report, log } = bench;
  const { pool, platform } = stand;
  const steady = quick ? 10 : 100;
  const burst = quick ? 40 : 300;
  const who = agentsOf(bench);
  const projects = await createProjects(stand, { prefix: "job", count: steady + burst, type: "ssr" });
  await createHosts(stand, projects);
  const jobs = await createDeployments(stand, projects, { status: "queued", release: true });
  const enqueuedAt = new Map<string, number>();

  async function enqueue(part: readonly { projectId: string; deploymentId: string }[]): Promise<void> {
    await pool.query(
      `insert into work_item (kind, key, payload)
       select 'deploy', project, json_build_object('deploymentId', deployment)
       from unnest($1::text[], $2::text[]) as job (project, deployment)`,
      [part.map(({ projectId }) => projectId), part.map(({ deploymentId }) => deploymentId)],
    );
    await pool.query("select pg_notify('svc_work', 'deploy')");
    const at = monotonicMs();
    for (const { deploymentId } of part) enqueuedAt.set(deploymentId, at);
  }
  const released = async (part: readonly { deploymentId: string }[]) => {
    const { rows } = await pool.query<{ status: string; count: string }>(
      "select release_status as status, count(*) from deployment where id = any($1::uuid[]) group by 1",
      [part.map(({ deploymentId }) => deploymentId)],
    );
    return new Map(rows.map(({ status, count }) => [status, Number(count)]));
  };
  const isOver = async (part: readonly { deploymentId: string }[]) => {
    const states = await released(part);
    return (states.get("pending") ?? 0) + (states.get("running") ?? 0) === 0;
  };

  await fleet.take();
  const steadyJobs = jobs.slice(0, steady);
  await profiled(bench, "jobs", async () => {
    const startedAt = monotonicMs();
    for (const [index, job] of steadyJobs.entries()) {
      const earlyMs = startedAt + (index / perSecond) * 1000 - monotonicMs();
      if (earlyMs > 0) await delay(earlyMs);
      await enqueue([job]);
    }
    await waitFor("the release commands to end", doneMs, () => isOver(steadyJobs));
  });
  const steadyRuns = (await fleet.take()).runs;
  const deploymentOf = (attemptId: string) => attemptId.split(".")[0] ?? "";
  const delays = steadyRuns.map(
    ({ attemptId, startedAt }) => startedAt - (enqueuedAt.get(deploymentOf(attemptId)) ?? 0),
  );
  const protocol = steadyRuns.map(({ offeredAt, startedAt }) => startedAt - offeredAt);

  const burstJobs = jobs.slice(steady);
  await enqueue(burstJobs);
  await delay(quick ? 500 : 2_000);
  platform.program("control").kill("SIGKILL");
  await platform.program("control").waitReady(readyMs);
  await waitFor("the release commands of the burst to end", doneMs, () => isOver(burstJobs));
  const burstRuns = (await fleet.take()).runs;
  const { runStartsMax } = await fleet.state();
  const attempts = new Map<string, number>();
  for (const { attemptId } of burstRuns)
    attempts.set(deploymentOf(attemptId), (attempts.get(deploymentOf(attemptId)) ?? 0) + 1);
  const twice = [...attempts.values()].filter((count) => count > 1).length;
  const outcome = [...(await released(burstJobs))].map(([status, count]) => `${count} ${status}`).join(", ");
  const starts = burstRuns.map(({ startedAt }) => startedAt - (enqueuedAt.get(burstJobs[0]?.deploymentId ?? "") ?? 0));
  log(
    `release commands: burst of ${burst} with control killed: ${outcome}; most starts of one attempt ${runStartsMax}`,
  );

  const common = { per: "event", note: null } as const;
  const metric = `release command, due to started, ${who}`;
  report({
    ...common,
    row: 12,
    metric: `${metric}, p50`,
    unit: "ms",
    samples: delays,
    aim: atMost(300, "ms", "median"),
  });
  report({
    ...common,
    row: 12,
    metric: `${metric}, p99`,
    unit: "ms",
    samples: delays,
    aim: atMost(1_500, "ms", "p99"),
  });
  report({ ...common, row: 12, metric: "- of which offer to start", unit: "ms", samples: protocol, aim: null });
  report({
    ...{
      row: 12,
      metric: `${burst} release commands at once, control killed meanwhile: until the last start`,
      unit: "s",
    },
    ...{ per: "run", samples: [Math.max(...starts) / 1000], aim: null },
    note: `outcome: ${outcome}; a replica carries on so many deployments at once as \`deploysAtOnce\` of control says`,
  });
  report({
    ...{ row: 11, metric: `release commands that were started twice, of ${jobs.length}`, unit: "commands", per: "run" },
    ...{ samples: [Math.max(twice, runStartsMax > 1 ? 1 : 0)], aim: none("commands") },
    note: "with control killed in the middle; the simulator and the fault tests are where agents and engines are killed",
  });
  await waitFor("the deployments to end", doneMs, async () => {
    const { rows } = await pool.query(
      "select 1 from deployment where project_id = any($1::uuid[]) and status in ('queued', 'building', 'deploying') limit 1",
      [projects.map(({ id }) => id)],
    );
    return rows.length === 0;
  });
  const { rows: running } = await pool.query<{ count: string }>(
    "select count(*) from deployment where project_id = any($1::uuid[]) and status = 'running'",
    [projects.map(({ id }) => id)],
  );
  return Number(running[0]?.count ?? 0);
}
