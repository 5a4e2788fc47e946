import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { waitFor } from "../../../support/wait-for.ts";
import { createAccounts, createDeployments, createProjects, pushImage } from "../apps.ts";
import { agentsOf, type Bench, profiled } from "../bench.ts";
import { atMost } from "../measure.ts";
import { monotonicMs } from "../monotonic.ts";

const perSecond = 20;
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
  const { stand, fleet, quick, report, log } = bench;
  const { apiUrl } = stand.platform;
  const count = perSecond * (quick ? 5 : 30);
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

  await fleet.take();
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
  const { assigned } = await fleet.take();
  const seen = new Map(assigned.map(({ deploymentId, at }) => [deploymentId, at]));
  const since = (from: ReadonlyMap<string, number>) =>
    [...from].flatMap(([id, at]) => {
      const end = seen.get(id);
      return end === undefined ? [] : [end - at];
    });
  await waitFor("all deployments to run", settledMs, async () => {
    const { rows } = await stand.pool.query(
      "select 1 from deployment where project_id = any($1::uuid[]) and status in ('queued', 'building', 'deploying') limit 1",
      [projects.map(({ id }) => id)],
    );
    return rows.length === 0;
  });
  const { rows: results } = await stand.pool.query<{ status: string; count: string }>(
    "select status, count(*) from deployment where project_id = any($1::uuid[]) and origin = 'rollback' group by 1",
    [projects.map(({ id }) => id)],
  );
  const phases = await phaseTimes(
    stand,
    projects.map(({ id }) => id),
  );
  const outcome = results.map(({ status, count: many }) => `${many} ${status}`).join(", ");
  log(`churn: ${outcome}${failures.length > 0 ? `; ${failures.length} requests failed, first: ${failures[0]}` : ""}`);
  const samples = since(dueAt);
  const note = `open loop, ${perSecond} deployments per second of an artifact that is there; timed from when each request was due; ${outcome}; requests that failed: ${failures.length}; median time to each phase from the one before: ${phases}`;
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
  return dueAt.size;
}

/** Where the time went, by the timelines of the deployments. */
async function phaseTimes({ pool }: Bench["stand"], projectIds: readonly string[]): Promise<string> {
  const { rows } = await pool.query<{ phase: string; ms: number }>(
    `select phase, round(percentile_cont(0.5) within group (order by ms))::int as ms from (
       select phase, id, 1000 * extract(epoch from at - lag(at) over (partition by deployment_id order by id)) as ms
       from deployment_event where deployment_id in (select id from deployment where project_id = any($1::uuid[]))
     ) as step where ms is not null group by phase order by min(id)`,
    [projectIds],
  );
  return rows.map(({ phase, ms }) => `${phase} ${ms} ms`).join(", ");
}
