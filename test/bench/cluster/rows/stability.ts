import { setTimeout as delay } from "node:timers/promises";
import { waitFor } from "../../../support/wait-for.ts";
import { agentsOf, type Bench, profiled } from "../bench.ts";
import { atMost, none } from "../measure.ts";
import { monotonicMs } from "../monotonic.ts";

const reconciledMs = 240_000;
const readyMs = 60_000;
const blipMs = 10_000;
/** Longer than a new leader looks before it moves anything. */
const afterwardsMs = 40_000;

/** Where every container is, and how many were made in another's place. */
async function whereabouts({ stand }: Bench): Promise<Map<string, string>> {
  const { rows } = await stand.pool.query<{ id: string; node: string | null }>(
    "select id, node_id as node from task where kind = 'serve' and desired = 'running' and reaped_at is null",
  );
  return new Map(rows.map(({ id, node }) => [id, node ?? ""]));
}

const moved = (before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): number =>
  [...before].filter(([id, node]) => after.get(id) !== node).length +
  [...after.keys()].filter((id) => !before.has(id)).length;

interface Disturbance {
  what: string;
  /** Resolves when all agents are back. */
  disturb: () => Promise<void>;
}

/** Row 7: what must move nothing and stop nothing. */
export async function measureFalseMoves(bench: Bench): Promise<void> {
  const { stand, fleet, sessions, nodeIds, quick, report, log } = bench;
  const { platform } = stand;
  const allBack = (what: string) =>
    sessions.until(`all agents after ${what}`, reconciledMs, () => sessions.reconciled() === nodeIds.length);
  const disturbances: Disturbance[] = [
    {
      what: "a silence of all agents of 10 s",
      async disturb() {
        for (const part of fleet.parts) part.freeze();
        await delay(blipMs);
        for (const part of fleet.parts) part.thaw();
        await waitFor("all sessions", reconciledMs, async () => (await fleet.state()).open === nodeIds.length);
        await allBack("the silence");
      },
    },
    {
      what: "etcd killed and started again",
      async disturb() {
        platform.program("etcd").kill("SIGKILL");
        await platform.program("etcd").waitReady(readyMs);
        await waitFor("all sessions", reconciledMs, async () => (await fleet.state()).open === nodeIds.length);
        await allBack("the restart of etcd");
      },
    },
    {
      what: "control stopped and started again",
      async disturb() {
        const before = sessions.serverIds();
        platform.program("control").kill("SIGTERM");
        await sessions.until(
          "all agents at the new control",
          reconciledMs,
          () => sessions.reconciled((id) => !before.has(id)) === nodeIds.length,
        );
      },
    },
  ];
  for (const { what, disturb } of disturbances) {
    const before = await whereabouts(bench);
    const counted = await fleet.state();
    await disturb();
    await delay(quick ? 5_000 : afterwardsMs);
    const after = await fleet.state();
    const samples = [moved(before, await whereabouts(bench))];
    const stops = after.stops - counted.stops;
    log(`${what}: ${samples[0]} moved, ${stops} stopped, ${after.welcomes - counted.welcomes} new sessions`);
    const common = { row: 7, per: "run", unit: "containers", note: null } as const;
    const of = `of ${before.size.toLocaleString("en-US")}, ${agentsOf(bench)}`;
    report({ ...common, metric: `${what}: moved ${of}`, samples, aim: none("containers") });
    report({ ...common, metric: `${what}: stopped ${of}`, samples: [stops], aim: none("containers") });
  }
}

/** Row 14: control is killed and comes back; every agent connects and is compared with what it is to run. */
export async function measureStorm(bench: Bench): Promise<void> {
  const { stand, fleet, sessions, nodeIds, quick, report, log } = bench;
  const control = stand.platform.program("control");
  const rounds = quick ? 1 : 3;
  const samples = {
    fromKill: [] as number[],
    fromReady: [] as number[],
    lag: [] as number[],
    restarts: [] as number[],
  };
  for (let round = 0; round < rounds; round += 1) {
    const counted = await fleet.state();
    const before = sessions.serverIds();
    const killedAt = monotonicMs();
    control.kill("SIGKILL");
    await control.waitReady(readyMs);
    const readyAt = monotonicMs();
    const at = await profiled(bench, `storm-${round}`, async () => {
      // What the start itself took is not the storm's.
      await stand.probe.lag();
      return sessions.until(
        "all agents at the new control",
        reconciledMs,
        () => sessions.reconciled((id) => !before.has(id)) === nodeIds.length,
      );
    });
    const lag = await stand.probe.lag();
    const after = await fleet.state();
    samples.fromKill.push((at - killedAt) / 1000);
    samples.fromReady.push((at - readyAt) / 1000);
    samples.lag.push(lag.p99);
    samples.restarts.push(after.starts - counted.starts + (after.stops - counted.stops));
    log(
      `storm: ${((at - readyAt) / 1000).toFixed(1)} s after control was ready, lag p99 ${lag.p99.toFixed(0)} ms, max ${lag.max.toFixed(0)} ms, busy ${(lag.busy * 100).toFixed(0)} %`,
    );
    // The next one meets a settled fleet, whose back-off starts low.
    await delay(quick ? 1_000 : 8_000);
  }
  const who = agentsOf(bench);
  const common = { row: 14, per: "run", note: null } as const;
  report({
    ...{ ...common, metric: `control killed: until all are reconciled, ${who}`, unit: "s", samples: samples.fromKill },
    aim: nodeIds.length <= 1_100 ? atMost(10, "s", "median") : null,
  });
  report({
    ...common,
    metric: "- of which after control serves again",
    unit: "s",
    samples: samples.fromReady,
    aim: null,
  });
  report({
    ...{ ...common, metric: `- lag of control's event loop meanwhile, p99, ${who}`, unit: "ms", samples: samples.lag },
    aim: nodeIds.length <= 1_100 ? atMost(200, "ms", "median") : null,
  });
  report({
    ...{ ...common, metric: `- containers started or stopped, ${who}`, unit: "containers", samples: samples.restarts },
    aim: none("containers"),
  });
}
