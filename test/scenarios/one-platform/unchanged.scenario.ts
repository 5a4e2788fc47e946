import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, startCluster } from "../../cluster.ts";
import { deploy, parseFacts } from "../../support/deploy.ts";
import { edgeFetch } from "../../support/edge.ts";

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ agents: 1 });
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

const logOf = async (id: string): Promise<string> => {
  const { body } = await cluster.api("GET", `/deployments/${id}/logs`);
  return (body as { log: string }).log;
};

test("a source that did not change is deployed without being built, and built when that is asked for", {
  timeout: 600_000,
}, async () => {
  const cwd = await cluster.exampleDir("ssr");
  const first = await deploy(cluster, cwd);
  expect(await logOf(first.deployment.id)).toContain("Stored sha256:");

  const second = await deploy(cluster, cwd);
  expect(second.deployment.id).not.toBe(first.deployment.id);
  const log = await logOf(second.deployment.id);
  expect(log).toContain(`the build of deployment ${first.deployment.id} is used`);
  expect(log).not.toMatch(/^#\d/m);
  const { platform } = parseFacts(await (await edgeFetch(`${second.url}/api/facts`)).json());
  expect(Object.values(platform)).toContain(second.deployment.id);

  const forced = await cluster.cli(["deploy", "--prod", "--no-cache", "--json"], { cwd });
  expect(forced.exitCode, forced.stderr).toBe(0);
  const third = forced.json() as { deployment: { id: string } };
  expect(await logOf(third.deployment.id)).toMatch(/^#\d/m);
});
