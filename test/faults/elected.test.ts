import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, clientOf, startCluster } from "../cluster.ts";
import { deploy } from "../support/deploy.ts";
import { apiUrlOfReplica, compactEtcd, controlReplicas } from "../support/leaders.ts";
import { waitFor } from "../support/wait-for.ts";
import { startProber } from "./support/prober.ts";
import { recordFault } from "./support/results.ts";

/** Longer than every lease of a replica and of its sessions. */
const awayMs = 30_000;
const electedMs = 30_000;
/** Every loop of a leader has had several rounds by then, and its grace for nodes is over. */
const watchedMs = 30_000;
const readyMs = 60_000;
/** Three deploys on a busy machine take minutes. */
const hangsMs = 1_200_000;

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ ha: true, agents: 2 });
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

/** What runs of the project, by id and since when. */
async function serving(projectId: string): Promise<string[]> {
  const { docker } = cluster.platform;
  const ours = (await cluster.containers()).filter(({ labels }) => labels["svc.project"] === projectId);
  const states = await Promise.all(ours.map(async ({ id }) => (await docker.getContainer(id).inspect()).State));
  return ours.map(({ id }, index) => `${id} since ${states[index]?.StartedAt}`).toSorted();
}

test("a replica that stood still beyond its leases and a compaction of etcd, and is then elected, acts on nothing old", {
  timeout: hangsMs,
}, async () => {
  const { leader, others } = await controlReplicas(cluster);
  const [behind, third] = others;
  if (behind === undefined || third === undefined) throw new Error("there are not three replicas");
  const user = clientOf({
    apiUrl: apiUrlOfReplica(cluster, leader.name),
    key: cluster.key,
    dir: cluster.platform.layout.dir,
  });
  const cwd = await cluster.exampleDir("ssr");
  const { project, url } = await deploy(user, cwd);

  behind.kill("SIGSTOP");
  const awaySince = performance.now();
  // All that it knows of the site is over when it goes on: its container, its route and its deployment.
  for (const _ of [1, 2]) {
    await appendFile(join(cwd, "src", "departures.js"), `// ${crypto.randomUUID()}\n`);
    expect((await deploy(user, cwd)).deployment.status).toBe("running");
  }
  const before = await waitFor("one container of the site", readyMs, async () => {
    const found = await serving(project.id);
    return found.length === 1 && found;
  });
  await delay(Math.max(0, awayMs - (performance.now() - awaySince)));
  await compactEtcd(cluster);
  await using prober = startProber(`${url}/api/facts`, 10);

  const { epoch } = await controlReplicas(cluster);
  for (const each of [leader, third]) await each.stop("SIGKILL");
  const electedAt = performance.now();
  behind.kill("SIGCONT");
  await waitFor("it to lead", electedMs, async () => {
    const now = await controlReplicas(cluster);
    return now.leader.name === behind.name && now.epoch > epoch;
  });
  const leadsMs = performance.now() - electedAt;
  await delay(watchedMs);
  expect(await serving(project.id)).toEqual(before);

  // It leads in earnest: what is deployed by it is served.
  const its = clientOf({
    apiUrl: apiUrlOfReplica(cluster, behind.name),
    key: cluster.key,
    dir: cluster.platform.layout.dir,
  });
  await appendFile(join(cwd, "src", "departures.js"), `// ${crypto.randomUUID()}\n`);
  expect((await deploy(its, cwd)).deployment.status).toBe("running");
  for (const each of [leader, third]) await each.start();
  const visits = await prober.stop();
  await recordFault({
    fault: `a replica of control stands still for ${awayMs / 1000} s and through a compaction of etcd, and is then the only one`,
    observed: "it leads, and stops, starts and moves nothing of what was deployed meanwhile",
    timesMs: { "leads after": leadsMs },
    visits: { "one container": visits },
  });
  expect(visits.failures).toEqual([]);
});
