import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, startCluster } from "../cluster.ts";
import { deploy, parseFacts } from "../support/deploy.ts";
import { edgeFetch } from "../support/edge.ts";
import { openLoopLoad } from "../support/load.ts";
import { waitFor } from "../support/wait-for.ts";

const ratePerSecond = 200;
const redeploys = 10;

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

test(`${redeploys} redeploys in a row under ${ratePerSecond} requests per second lose no request`, {
  timeout: 900_000,
}, async () => {
  const cwd = await cluster.exampleDir("ssr");
  const { url, project } = await deploy(cluster, cwd);
  const end = new AbortController();
  const load = openLoopLoad({ url: `${url}/api/facts`, ratePerSecond, until: end.signal });
  const startedAt = performance.now();
  try {
    for (let count = 1; count <= redeploys; count += 1) {
      await appendFile(join(cwd, "src", "departures.js"), `// Edition ${count}.\n`);
      const { deployment } = await deploy(cluster, cwd);
      const { platform } = parseFacts(await (await edgeFetch(`${url}/api/facts`)).json());
      expect(Object.values(platform)).toContain(deployment.id);
    }
    // Old containers go only now; that they go must not be noticed either.
    await waitFor("only the newest container", 60_000, async () => {
      const left = (await cluster.containers()).filter(({ labels }) => labels["svc.project"] === project.id);
      return left.length === 1;
    });
  } finally {
    end.abort();
  }
  const seconds = (performance.now() - startedAt) / 1000;
  const report = await load;
  console.error(
    `  ${report.sent} requests in ${seconds.toFixed(0)} s, ${report.failed} failed, latency ${JSON.stringify(report.latencyMs)} ms`,
  );
  expect(report.failures).toEqual([]);
  expect(report.failed).toBe(0);
  expect(report.ok).toBe(report.sent);
  expect(report.sent).toBeGreaterThan(seconds * ratePerSecond * 0.95);
});
