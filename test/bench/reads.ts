import { requestText, startServer } from "./api-server.ts";
import { closedLoop } from "./closed-loop.ts";
import type { Row } from "./table.ts";

const roundMs = 1_000;

/**
 * What one client waits for when it reads what people look at most, one request after the other, beside an endpoint
 * that looks nothing up but the key. The cases take turns within each round.
 */
export async function readsOfOne(rounds: number): Promise<Row[]> {
  await using started = await startServer(1);
  const { server } = started;
  const { hostname: host, port } = new URL(server.url);
  const request = requestText(server.url);
  const paths = {
    floor: server.closed,
    project: server.project,
    deployment: server.deployment,
    deployments: server.deployments,
  };
  type Case = keyof typeof paths;
  const results: Record<Case, number[]> = { floor: [], project: [], deployment: [], deployments: [] };
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, path] of Object.entries(paths) as [Case, string][]) {
      const requests = [request(path, `x-api-key: ${server.accounts[0]?.key}`)];
      const { p50 } = await closedLoop({ host, port: Number(port), requests, durationMs: roundMs });
      // The first round only warms up.
      if (round > 0) results[name].push(p50);
    }
  }
  const names = {
    project: "read of a project with 20 deployments, median",
    deployment: "read of a deployment, median",
    deployments: "read of a project's deployments, median",
  } as const;
  return (Object.keys(names) as (keyof typeof names)[]).map((name) => ({
    name: names[name],
    unit: "ms",
    samples: results[name],
    floor: { name: "look-up of the key alone", samples: results.floor },
    aim: null,
  }));
}
