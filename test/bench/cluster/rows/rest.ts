import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { agentsOf, type Bench, profiled } from "../bench.ts";
import { cpuSeconds, type Figures, readFigures, rssMb } from "../figures.ts";
import { atMost, none } from "../measure.ts";
import type { Memory } from "../probe.ts";

const windows = 5;

const describeMemory = (memory: Memory): string =>
  `heap ${memory.heapUsedMb.toFixed(0)} of ${memory.heapTotalMb.toFixed(0)} MB, ` +
  `external ${memory.externalMb.toFixed(0)} MB, resident ${memory.rssMb.toFixed(0)} MB`;

/** Rows 13 and 15, and the writes of row 5: what agents cost that have nothing to do. */
export async function measureRest(bench: Bench, { placements }: { placements: number }): Promise<void> {
  const { stand, fleet, nodeIds, quick, report } = bench;
  const windowMs = quick ? 2_000 : 6_000;
  const who = agentsOf(bench);
  const agentCpu = async () =>
    (await Promise.all(fleet.parts.map(({ pid }) => cpuSeconds(pid)))).reduce((a, b) => a + b);
  await stand.probe.lag();
  const figures: Figures[] = [await readFigures(stand)];
  const agentsBefore = await agentCpu();
  await profiled(bench, `rest-${nodeIds.length}`, async () => {
    for (let window = 0; window < windows; window += 1) {
      await delay(windowMs);
      figures.push(await readFigures(stand));
    }
  });
  const lag = await stand.probe.lag();
  const agentsCpu = (await agentCpu()) - agentsBefore;
  const memory = (await Promise.all(fleet.parts.map(({ pid }) => rssMb(pid)))).reduce((a, b) => a + b);
  const [first, last] = [figures[0], figures.at(-1)];
  if (first === undefined || last === undefined) return;
  const seconds = (last.at - first.at) / 1000;
  const each = (of: (from: Figures, to: Figures, seconds: number) => number) =>
    figures.slice(1).map((to, index) => {
      const from = figures[index] ?? first;
      return of(from, to, (to.at - from.at) / 1000);
    });
  const at5000 = nodeIds.length >= 5_000;
  const at = placements === 0 ? who : `${who}, ${placements.toLocaleString("en-US")} placements`;
  const common = { per: "run", note: null } as const;
  report({
    ...{ row: 13, metric: `processor of control at rest, ${at}`, unit: "% of a core", ...common },
    samples: each((from, to, s) => ((to.controlSeconds - from.controlSeconds) / s) * 100),
    aim: at5000 ? atMost(50, "% of a core", "median") : null,
  });
  report({
    ...{ row: 13, metric: `memory of control at rest, ${at}`, unit: "MB", ...common },
    samples: figures.slice(1).map(({ controlRssMb }) => controlRssMb),
    aim: at5000 ? atMost(1_024, "MB", "median") : null,
  });
  // Last of all that is measured at rest: collecting makes control another process than it was.
  const now = await stand.probe.memory("now");
  const held = await stand.probe.memory("collected");
  bench.log(`memory of control, ${at}: ${describeMemory(now)}; after a collection: ${describeMemory(held)}`);
  report({
    ...{ row: 13, metric: `memory of control after a full collection, ${at}`, unit: "MB", ...common, aim: null },
    samples: [held.rssMb],
    note: describeMemory(held),
  });
  if (bench.profileDir !== null)
    await stand.probe.snapshot(join(bench.profileDir, `rest-${nodeIds.length}-${placements}.heapsnapshot`));
  report({
    ...{ row: 13, metric: `lag of control's event loop at rest, p99, ${at}`, unit: "ms", ...common, aim: null },
    samples: [lag.p99],
  });
  report({
    ...{ row: 13, metric: `processor per simulated agent, ${at}`, unit: "% of a core", ...common, aim: null },
    samples: [((agentsCpu / seconds) * 100) / nodeIds.length],
    note: "client side of the real transport and session, with pings; no engine, no builds",
  });
  report({
    ...{ row: 13, metric: `memory per simulated agent, ${at}`, unit: "MB", ...common, aim: null },
    samples: [memory / nodeIds.length],
  });
  report({
    ...{ row: 15, metric: `etcd, applied proposals per second at rest, ${at}`, unit: "/s", ...common },
    samples: each((from, to, s) => (to.etcdProposals - from.etcdProposals) / s),
    aim: nodeIds.length <= 1_100 ? atMost(5, "/s", "median") : null,
  });
  report({
    ...{ row: 15, metric: `etcd, size of its database, ${at}`, unit: "MB", ...common },
    samples: figures.slice(1).map(({ etcdDbMb }) => etcdDbMb),
    aim: placements >= 5_000 ? atMost(200, "MB", "median") : null,
    note: "since its start, with the history that was not compacted yet",
  });
  report({
    ...{ row: 15, metric: `Postgres, commits per second at rest, ${at}`, unit: "/s", ...common, aim: null },
    samples: each((from, to, s) => (to.postgresCommits - from.postgresCommits) / s),
  });
  const heartbeats = Math.round((nodeIds.length / 5) * seconds);
  report({
    ...{
      row: 5,
      metric: `etcd writes during ${heartbeats.toLocaleString("en-US")} heartbeats, ${who}`,
      unit: "writes",
    },
    ...{ per: "run", aim: none("writes"), samples: [last.etcdRevision - first.etcdRevision] },
    note: `rows that control wrote to Postgres in the same time: ${last.postgresRowsWritten - first.postgresRowsWritten} (one statement per 1,000 nodes every 30 s tells when each was last heard)`,
  });
}
