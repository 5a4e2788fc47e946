import { join } from "node:path";
import { createBootstrapToken } from "@svc/control/fleet/nodes/tokens";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { joinCluster } from "@svc/uplink";
import type { Bench } from "../bench.ts";
import { cpuSeconds } from "../figures.ts";

const quiet = { info: () => {}, warn: () => {} };

/** What one node's way through the enrolment port costs, which the simulated agents did not take. */
export async function measureJoins({ stand, quick, report }: Bench): Promise<void> {
  const { db, pool, authority, platform, dir } = stand;
  const { clusterId, caSha256 } = authority;
  // Fewer than the port takes at once before it limits the rate.
  const count = quick ? 5 : 30;
  const enrollUrl = `https://127.0.0.1:${platform.ports.enroll}`;
  const times: number[] = [];
  const ids: string[] = [];
  const pid = stand.controlPid();
  const before = await cpuSeconds(pid);
  for (let index = 0; index < count; index += 1) {
    const facts = { role: "node" as const, ttlSeconds: 600, createdBy: null, clusterId, caSha256, now: new Date() };
    const { token } = await createBootstrapToken(db, facts);
    const startedAt = performance.now();
    const { id } = await joinCluster({
      ...{ clock: systemClock, random: systemRandom },
      ...{ dir: join(dir, "joins", String(index)), enrollUrls: [enrollUrl], token, proposedName: "joins" },
      ...{ signal: AbortSignal.timeout(20_000), log: quiet },
    });
    times.push(performance.now() - startedAt);
    ids.push(id);
  }
  const after = await cpuSeconds(pid);
  await pool.query("update node set lifecycle = 'removed' where id = any($1::uuid[])", [ids]);
  const common = { row: 13, aim: null } as const;
  report({
    ...{ ...common, metric: "a node joins with a token", unit: "ms", per: "event", samples: times },
    note: "key, request, token, certificate; all replicas together take 20 a second and 40 at once from each",
  });
  report({
    ...{ ...common, metric: "- processor of control for it", unit: "ms", per: "run", note: null },
    samples: [((after - before) * 1000) / count],
  });
}
