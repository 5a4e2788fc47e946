import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, startCluster } from "../../cluster.ts";
import { streamsOverForeignDeploys } from "../../support/streams.ts";

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ agents: 1 });
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

// `npm run bench -- streams` does the same with a hundred deploys.
test("streams of an app go on while other sites are deployed, guarded and deleted", { timeout: 600_000 }, async () => {
  const { cut, deployMs } = await streamsOverForeignDeploys(cluster, { streams: 6, deploys: 24 });
  expect(cut).toEqual([]);
  expect(deployMs).toHaveLength(24);
});
