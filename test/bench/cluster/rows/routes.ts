import { setTimeout as delay } from "node:timers/promises";
import { edgeFetch } from "../../../support/edge.ts";
import { createHosts, createProjects } from "../apps.ts";
import { type Bench, profiled } from "../bench.ts";
import { atMost } from "../measure.ts";
import { monotonicMs } from "../monotonic.ts";

const changeMs = 15_000;
const requestMs = 2_000;
const pollMs = 4;

/**
 * Row 8: a host that redirects is sent elsewhere, again and again: from the commit until the table with it is on the disk
 * of every simulated edge, and until the real router and its Caddy answer so.
 */
export async function measureRoutes(bench: Bench, { apps }: { apps: number }): Promise<void> {
  const { stand, edges, quick, report } = bench;
  const { pool, platform } = stand;
  const changes = quick ? 5 : 40;
  const prefix = `probe-${bench.nodeIds.length}-${apps}`;
  const projects = await createProjects(stand, { prefix, count: 3, type: "ociimage" });
  const [moving, one, other] = projects;
  if (moving === undefined || one === undefined || other === undefined) throw new Error("no projects to measure with");
  const hostOf = ({ slug }: { slug: string }) => `${slug}.${platform.contentDomain}`;
  await createHosts(stand, projects);
  const host = hostOf(moving);
  const url = `http://${host}:${platform.ports.http}/`;
  const saved: number[] = [];
  const served: number[] = [];

  /** When the real edge redirects to `target`; NaN when it does not in time. */
  async function servedAt(target: string, until: number): Promise<number> {
    while (monotonicMs() < until) {
      const reply = await edgeFetch(url, { signal: AbortSignal.timeout(requestMs) }).catch(() => null);
      await reply?.arrayBuffer().catch(() => {});
      if (reply?.headers.get("location")?.includes(target) === true) return monotonicMs();
      await delay(pollMs);
    }
    return Number.NaN;
  }

  /** When each simulated edge had the host's change on its disk; of those that did in time. */
  async function savedAt(since: number, until: number): Promise<number[]> {
    const seen = new Map<string, number>();
    while (seen.size < edges.count && monotonicMs() < until) {
      for (const { edgeId, hosts, at } of (await edges.take()).tables) {
        if (at > since && hosts.includes(host) && !seen.has(edgeId)) seen.set(edgeId, at);
      }
      await delay(pollMs);
    }
    return [...seen.values()];
  }

  await profiled(bench, `routes-${apps}`, async () => {
    // The first change also brings the hosts themselves, and is not counted.
    for (let change = 0; change <= changes; change += 1) {
      const target = hostOf(change % 2 === 0 ? one : other);
      await edges.take();
      await pool.query(
        "update site_host set redirect_to = $2, redirect_until = now() + interval '1 day' where host = $1",
        [host, target],
      );
      await pool.query("select pg_notify('svc_routes', $1)", [moving.id]);
      const committedAt = monotonicMs();
      const until = committedAt + changeMs;
      const [onDisk, answered] = await Promise.all([savedAt(committedAt, until), servedAt(target, until)]);
      if (change === 0) continue;
      saved.push(onDisk.length === edges.count ? Math.max(...onDisk) - committedAt : changeMs);
      served.push(Number.isNaN(answered) ? changeMs : answered - committedAt);
      await delay(100 + Math.random() * 200);
    }
  });
  const who = `${apps.toLocaleString("en-US")} apps`;
  const common = { row: 8, unit: "ms", per: "event", note: null } as const;
  const metric = `route change to the disk of all of ${edges.count} edges, ${who}`;
  report({ ...common, metric: `${metric}, p50`, samples: saved, aim: atMost(100, "ms", "median") });
  report({ ...common, metric: `${metric}, p99`, samples: saved, aim: atMost(500, "ms", "p99") });
  report({
    ...{
      ...common,
      metric: `route change to an answer of a real edge, ${who}`,
      samples: served,
      aim: atMost(500, "ms", "p99"),
    },
    note: `router and Caddy of this machine, asked every ${pollMs} ms; a change that took longer than ${changeMs / 1000} s counts as that`,
  });
}
