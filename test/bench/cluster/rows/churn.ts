import { setTimeout as delay } from "node:timers/promises";
import { placementValue, prefix } from "@svc/control/fleet/cluster/keys";
import { createLog } from "@svc/control/log";
import { createView } from "@svc/control/stores/etcd/index";
import { z } from "zod";
import { waitFor } from "../../../support/wait-for.ts";
import { createAccounts, createDeployments, createProjects, pushImage } from "../apps.ts";
import { agentsOf, type Bench, profiled } from "../bench.ts";
import { costsOf, describeCosts, statementsIn, writeStatements } from "../costs.ts";
import { atMost, quantile } from "../measure.ts";
import { monotonicMs } from "../monotonic.ts";

/** Requests of one account wait for one another where its quotas are counted. */
const accountsCount = 50;
const settledMs = 60_000;
const requestMs = 30_000;
const accepted = z.looseObject({ deploymentId: z.string() });

/**
 * Row 3: deployments of an artifact that is there (a rollback each, so nothing is built and no image is copied) that arrive
 * at a fixed rate, whether or not earlier ones are done. Each is timed from when its request was due until its container is
 * in the journal of an agent. Their apps stay; returns how many.
 */
export async function measureChurn(bench: Bench): Promise<number> {
  const { stand, fleet, quick, rate: perSecond, report, log } = bench;
  const { apiUrl } = stand.platform;
  const count = Math.ceil(perSecond * (quick ? 5 : 30));
  const accounts = await createAccounts(stand, accountsCount);
  const projects = await createProjects(stand, { prefix: "churn", count, type: "ociimage", owners: accounts });
  const digest = await pushImage(stand);
  const sources = await createDeployments(stand, projects, { status: "superseded", digest });
  const dueAt = new Map<string, number>();
  const acceptedAt = new Map<string, number>();
  const failures: string[] = [];

  async function deploy(sourceId: string, key: string, due: number): Promise<void> {
    try {
      const reply = await fetch(`${apiUrl}/api/v1/deployments/${sourceId}/rollback`, {
        method: "POST",
        headers: { "x-api-key": key },
        signal: AbortSignal.timeout(requestMs),
      });
      const text = await reply.text();
      if (reply.status !== 202) throw new Error(`${reply.status} ${text.slice(0, 200)}`);
      const { deploymentId } = accepted.parse(JSON.parse(text));
      dueAt.set(deploymentId, due);
      acceptedAt.set(deploymentId, monotonicMs());
    } catch (error) {
      failures.push(String(error));
    }
  }

  await using placed = await watchPlacements(stand);
  await fleet.take();
  const ids = projects.map(({ id }) => id);
  const costs = await costsOf(bench, async () => {
    await profiled(bench, "churn", async () => {
      const startedAt = monotonicMs();
      const pending: Promise<void>[] = [];
      for (const [index, { deploymentId }] of sources.entries()) {
        const due = startedAt + (index / perSecond) * 1000;
        const earlyMs = due - monotonicMs();
        if (earlyMs > 0) await delay(earlyMs);
        pending.push(deploy(deploymentId, accounts[index % accountsCount]?.key ?? "", due));
      }
      await Promise.all(pending);
      await waitFor(
        "all deployments to be assigned",
        settledMs,
        async () => (await fleet.state()).assigned >= dueAt.size,
      );
    });
    await waitFor("all deployments to run", settledMs, async () => {
      const { rows } = await stand.pool.query(
        "select 1 from deployment where project_id = any($1::uuid[]) and status in ('queued', 'building', 'deploying') limit 1",
        [ids],
      );
      return rows.length === 0;
    });
  });
  await writeStatements(bench, "churn", costs, count);
  const { assigned } = await fleet.take();
  const seen = new Map(assigned.map(({ deploymentId, at }) => [deploymentId, at]));
  const since = (from: ReadonlyMap<string, number>) =>
    [...from].flatMap(([id, at]) => {
      const end = seen.get(id);
      return end === undefined ? [] : [end - at];
    });
  const { rows: results } = await stand.pool.query<{ status: string; count: string }>(
    "select status, count(*) from deployment where project_id = any($1::uuid[]) and origin = 'rollback' group by 1",
    [ids],
  );
  const events = await eventTimes(stand, ids);
  const phases = phaseTimes(
    [...dueAt].map(([id, due]) => [
      due,
      acceptedAt.get(id),
      events.get(`${id} claimed`),
      events.get(`${id} starting`),
      placed.at.get(id),
      seen.get(id),
    ]),
  );
  const outcome = results.map(({ status, count: many }) => `${many} ${status}`).join(", ");
  log(`churn: ${outcome}${failures.length > 0 ? `; ${failures.length} requests failed, first: ${failures[0]}` : ""}`);
  const samples = since(dueAt);
  const note = `open loop, ${perSecond} deployments per second of an artifact that is there; timed from when each request was due; ${outcome}; requests that failed: ${failures.length}; p50 and p99 of each phase: ${phases}; ${describeCosts(costs, count)}`;
  const common = { row: 3, unit: "ms", per: "event" } as const;
  const metric = `request due to journaled on the agent, ${agentsOf(bench)}`;
  report({ ...common, metric: `${metric}, p50`, samples, aim: atMost(50, "ms", "median"), note });
  report({ ...common, metric: `${metric}, p99`, samples, aim: atMost(250, "ms", "p99"), note: null });
  report({
    ...{
      ...common,
      metric: "- of which after the API had answered",
      samples: since(acceptedAt),
      aim: null,
      note: null,
    },
  });
  const each = { row: 3, unit: "ms", per: "run", aim: null, note: null } as const;
  for (const [name, seconds] of Object.entries(costs.processor))
    report({ ...each, metric: `- processor time of ${name} for each`, samples: [(seconds * 1000) / count] });
  const asked = statementsIn(costs) / count;
  report({ ...each, metric: "- statements to Postgres for each", unit: "", samples: [asked] });
  return dueAt.size;
}

/** What ends each phase, in the order in which a deployment gets there. */
const phaseNames = ["answered", "claimed", "container asked for", "placed in etcd", "in the journal"] as const;

/**
 * Where the time went: each row has when a deployment was due, and when each phase ended. A timeline has when a step's
 * transaction began, so what committing took is part of the phase after it; and the API answers while work goes on.
 */
function phaseTimes(rows: readonly (readonly (number | undefined)[])[]): string {
  return phaseNames
    .map((name, index) => {
      const took = rows.flatMap((row) => {
        const [from, to] = [row[index], row[index + 1]];
        return from === undefined || to === undefined ? [] : [to - from];
      });
      return `${name} ${quantile(took, 0.5).toFixed(0)} and ${quantile(took, 0.99).toFixed(0)} ms`;
    })
    .join(", ");
}

/** When lines of timelines were begun, on the clock of `monotonicMs`, by deployment and phase. */
async function eventTimes({ pool }: Bench["stand"], projectIds: readonly string[]): Promise<Map<string, number>> {
  const offsetMs = monotonicMs() - Date.now();
  const { rows } = await pool.query<{ id: string; phase: string; ms: number }>(
    `select deployment_id as id, phase, (extract(epoch from at) * 1000)::float8 as ms from deployment_event
     where deployment_id in (select id from deployment where project_id = any($1::uuid[]))`,
    [projectIds],
  );
  return new Map(rows.map(({ id, phase, ms }) => [`${id} ${phase}`, ms + offsetMs]));
}

/** When the first placement of each deployment was seen in etcd. */
async function watchPlacements({ etcd }: Bench["stand"]): Promise<AsyncDisposable & { at: Map<string, number> }> {
  const view = createView(etcd, prefix.placements, (_, value) => placementValue.parse(JSON.parse(value)), {
    log: createLog("silent"),
  });
  await view.ready();
  const at = new Map<string, number>();
  view.subscribe((changes) => {
    const now = monotonicMs();
    for (const { type, value } of changes.filter((change) => change.type === "put")) {
      if (type === "put" && !at.has(value.ownerId)) at.set(value.ownerId, now);
    }
  });
  return { at, [Symbol.asyncDispose]: () => view.close() };
}
