import { appendFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { run } from "@svc/runtime/command";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, startCluster } from "../cluster.ts";
import { type Deployed, deploy } from "../support/deploy.ts";
import { edgeFetch } from "../support/edge.ts";
import { openLoopLoad } from "../support/load.ts";
import { waitFor } from "../support/wait-for.ts";

let cluster: Cluster;
let cwd = "";
let site: Deployed;
beforeAll(async () => {
  cluster = await startCluster({ agents: 2 });
  cwd = await cluster.exampleDir("ssr");
  site = await deploy(cluster, cwd);
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

/** etcd's own tool, on the only member or on a file of it. */
async function etcdctl(...args: string[]): Promise<void> {
  const endpoint = `--endpoints=http://127.0.0.1:${cluster.platform.ports.etcd}`;
  await run(["etcdctl", endpoint, ...args], { env: { ...process.env, ETCDCTL_API: "3" } });
}

/** Puts the state of the snapshot in the place of the present one. etcd must not run. */
async function restoreSnapshot(file: string): Promise<void> {
  const { layout, ports } = cluster.platform;
  await rename(layout.etcd, `${layout.etcd}-before`);
  const peer = `http://127.0.0.1:${ports.etcdPeer}`;
  await etcdctl(
    ...["snapshot", "restore", file, "--data-dir", layout.etcd, "--name", "local"],
    ...["--initial-cluster", `local=${peer}`, "--initial-advertise-peer-urls", peer],
  );
}

async function runningContainers(): Promise<string[]> {
  const { docker } = cluster.platform;
  const ours = (await cluster.containers()).filter(({ state }) => state === "running");
  const states = await Promise.all(ours.map(async ({ id }) => (await docker.getContainer(id).inspect()).State));
  return ours.map(({ id }, index) => `${id} since ${states[index]?.StartedAt}`).toSorted();
}

async function redeploy(): Promise<void> {
  await appendFile(join(cwd, "src", "departures.js"), `// ${crypto.randomUUID()}\n`);
  expect((await deploy(cluster, cwd)).deployment.status).toBe("running");
  await waitFor("only the newest container to be there", 60_000, async () => (await cluster.containers()).length === 1);
}

test("with etcd restored from before the last deploy, what runs goes on, visitors notice nothing, deploys work", async () => {
  const { platform } = cluster;
  const [control, etcd] = [platform.program("control"), platform.program("etcd")];
  const snapshot = join(platform.layout.dir, "snapshot.db");
  await etcdctl("snapshot", "save", snapshot);
  await redeploy();
  const before = await runningContainers();
  expect(before).toHaveLength(1);

  const over = new AbortController();
  const url = `${site.url}/api/facts`;
  const load = openLoopLoad({ url, ratePerSecond: 50, until: over.signal });
  await control.stop();
  await etcd.stop();
  await restoreSnapshot(snapshot);
  await etcd.start();
  expect(await platform.control("after-restore")).toContain("the cluster epoch is 2");
  await control.start();

  await waitFor("the edge to have a table of the new epoch", 60_000, async () => {
    const tables = platform.program("router").tail(200).split("\n");
    return tables.some((line) => line.includes('"table accepted"') && line.includes('"to":"10737418'));
  });
  expect((await edgeFetch(url)).status).toBe(200);
  expect(await runningContainers()).toEqual(before);
  await redeploy();
  expect((await runningContainers())[0]).not.toBe(before[0]);
  over.abort();
  const { failed, failures, sent } = await load;
  expect(sent).toBeGreaterThan(500);
  expect(failures).toEqual([]);
  expect(failed).toBe(0);
});
