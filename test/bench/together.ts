import { performance } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { publishExampleImage } from "@svc/deploy/examples";
import type { Cluster } from "../cluster.ts";
import { succeeded, takePlan } from "../support/api.ts";
import { accepted, bareContainer, imageManifest, project, settled, untilServed } from "./deploys.ts";
import type { Row } from "./table.ts";

const sites = 20;
/** So that all of them have room on the nodes beside what runs there. */
const millicores = 500;
/** Asking all of them as often as a single one takes a core from what is measured. */
const everyMs = 50;
const goneMs = 600_000;
const numbers = Array.from({ length: sites }, (_, number) => number);

/** The account gets a plan under which that many fit. */
async function makeRoom(cluster: Cluster): Promise<void> {
  const plan = { slug: "together", name: "Together", cpuMillicores: millicores, maxProjects: 1_000 };
  await succeeded(cluster, "POST", "/admin/plans", { ...plan, maxDeploysPerHour: 1_000 });
  await takePlan(cluster, plan.slug);
}

/** The first deploys of so many projects of one account, sent at once, until every site answers. */
async function svcTogether(cluster: Cluster): Promise<number> {
  const projects = await Promise.all(numbers.map((number) => project(cluster, `Together ${number}`, "ociimage")));
  const from = performance.now();
  const deployments = await Promise.all(
    projects.map(async ({ id, url }) => {
      const deployment = await accepted(cluster, id, { manifest: imageManifest(cluster) });
      await untilServed(url, from, () => true, everyMs);
      return deployment;
    }),
  );
  const tookMs = performance.now() - from;
  await Promise.all(deployments.map(({ id }) => settled(cluster, id)));
  await Promise.all(projects.map(({ id }) => succeeded(cluster, "DELETE", `/projects/${id}`)));
  const ids = new Set(projects.map(({ id }) => id));
  const left = async () => (await cluster.containers()).filter(({ labels }) => ids.has(labels["svc.project"] ?? ""));
  for (const end = performance.now() + goneMs; (await left()).length > 0; await delay(500)) {
    if (performance.now() > end) throw new Error(`of this round are left: ${JSON.stringify(await left())}`);
  }
  return tookMs;
}

async function bareTogether(cluster: Cluster, isAlone: boolean): Promise<number> {
  const from = performance.now();
  const each = { millicores, everyMs, isAlone };
  return Math.max(...(await Promise.all(numbers.map(() => bareContainer(cluster, from, each)))));
}

/**
 * Rounds of ours and of the floors take turns, so that all see the same machine. Once beside containers that share a
 * network, and once beside such as are kept apart as projects are.
 */
export async function firstDeploysTogether(cluster: Cluster, times: number): Promise<Row[]> {
  const { docker, baseImage, registry } = cluster.platform;
  await publishExampleImage({ docker, baseImage, registry });
  await makeRoom(cluster);
  const samples: number[] = [];
  const [shared, alone]: [number[], number[]] = [[], []];
  for (let round = 0; round < times; round += 1) {
    shared.push(await bareTogether(cluster, false));
    alone.push(await bareTogether(cluster, true));
    samples.push(await svcTogether(cluster));
  }
  const name = `${sites} first image deploys of one account, until all serve`;
  const run = `${sites} docker run until all are healthy`;
  const aim = { text: "<= 1.3 x floor", met: (value: number, floor: number) => value <= 1.3 * floor };
  return [
    { name, unit: "ms", samples, floor: { name: run, samples: shared }, aim },
    { name: "the same", unit: "ms", samples, floor: { name: `${run}, each in its own network`, samples: alone }, aim },
  ];
}
