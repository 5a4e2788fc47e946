import { waitFor } from "../../../support/wait-for.ts";
import { countOpenTasks, createDeployments, createProjects, createTasks, deleteProjects, endTasks } from "../apps.ts";
import { agentsOf, type Bench, profiled } from "../bench.ts";
import { type Figures, readFigures } from "../figures.ts";
import { atLeast, quantile } from "../measure.ts";
import { monotonicMs } from "../monotonic.ts";

/** What one placement cost, by which the scarce resource is told: on a machine that is busy with others, too. */
function costOf(before: Figures, after: Figures, count: number): string {
  const each = (of: keyof Figures, factor = 1) => (((after[of] - before[of]) * factor) / count).toFixed(2);
  const syncMs = ((after.etcdSyncSeconds - before.etcdSyncSeconds) / (after.etcdSyncs - before.etcdSyncs)) * 1000;
  const share = ((after.controlSeconds - before.controlSeconds) / ((after.at - before.at) / 1000)) * 100;
  return [
    `control ${each("controlSeconds", 1000)} ms of processor each (${share.toFixed(0)} % of a core)`,
    `etcd ${each("etcdProposals")} proposals each, a sync ${syncMs.toFixed(1)} ms`,
    `Postgres ${each("postgresCommits")} commits each`,
  ].join(", ");
}

const ackedMs = 120_000;
const reapedMs = 180_000;

/** Row 2: containers that are asked for in one transaction, until each is in the journal of its agent. */
export async function measurePlacements(bench: Bench): Promise<void> {
  const { stand, fleet, nodeIds, quick, report, log } = bench;
  const count = quick ? 500 : 5_000;
  const rounds = quick ? 1 : 3;
  const who = agentsOf(bench);
  const rates: number[] = [];
  const times = {
    first: [] as number[],
    half: [] as number[],
    p95: [] as number[],
    p99: [] as number[],
    all: [] as number[],
  };
  const costs: string[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const prefix = `burst-${nodeIds.length}-${round}`;
    const projects = await createProjects(stand, { prefix, count, type: "ociimage" });
    const ids = projects.map(({ id }) => id);
    const apps = await createDeployments(stand, projects, { status: "deploying" });
    await fleet.take();
    const before = await readFigures(stand);
    const events = await profiled(bench, prefix, async () => {
      const tasks = new Set(await createTasks(stand, apps));
      const committedAt = monotonicMs();
      await waitFor(
        `${count} placements to be journaled`,
        ackedMs,
        async () => (await fleet.state()).assigned >= count,
      );
      const { assigned } = await fleet.take();
      return assigned.filter(({ placementId }) => tasks.has(placementId)).map(({ at }) => at - committedAt);
    });
    const after = await readFigures(stand);
    const share = (of: number) => quantile(events, of);
    times.first.push(share(0));
    times.half.push(share(0.5));
    times.p95.push(share(0.95));
    times.p99.push(share(0.99));
    times.all.push(share(1));
    rates.push(count / (share(1) / 1000));
    costs.push(costOf(before, after, count));
    log(`${count} placements on ${who}: ${(share(1) / 1000).toFixed(2)} s; ${costs.at(-1)}`);
    await endTasks(stand, ids);
    await waitFor("the burst to be reaped", reapedMs, async () => (await countOpenTasks(stand, ids)) === 0);
    await deleteProjects(stand, ids);
  }
  const common = { row: 2, per: "run", note: null } as const;
  report({
    ...{
      ...common,
      metric: `durable placements, ${count.toLocaleString("en-US")} at once, ${who}`,
      unit: "/s",
      samples: rates,
    },
    aim: atLeast(nodeIds.length >= 5_000 ? 1_000 : 2_000, "/s"),
    note: `commit of the tasks in Postgres to the synced journal of the agent; ${costs.join("; ")}`,
  });
  for (const [name, samples] of [
    ["first", times.first],
    ["50 %", times.half],
    ["95 %", times.p95],
    ["99 %", times.p99],
    ["100 %", times.all],
  ] as const) {
    report({ ...common, metric: `- until ${name} are journaled, ${who}`, unit: "ms", samples, aim: null });
  }
}
