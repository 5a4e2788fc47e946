import { performance } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { publishExampleImage } from "@svc/deploy/examples";
import type Docker from "dockerode";
import { fetch } from "undici";
import type { Cluster } from "../cluster.ts";
import { accepted, project, settled } from "./deploys.ts";

const answersMs = 60_000;
const pollMs = 5;

/** Whether the app behind the address answers. */
async function isAnswering(url: string): Promise<boolean> {
  const reply = await fetch(url, { signal: AbortSignal.timeout(2_000) }).catch(() => null);
  await reply?.body?.cancel().catch(() => {});
  return reply?.status === 200;
}

/** Kills all that runs in the container, as the kernel does, and polls until it is down and answers again: how long that took. */
async function killed(container: Docker.Container): Promise<number> {
  const { State, HostConfig } = await container.inspect();
  const [binding] = Object.values(HostConfig.PortBindings as Record<string, { HostIp: string; HostPort: string }[]>);
  const url = `http://${binding?.[0]?.HostIp}:${binding?.[0]?.HostPort}/healthz`;
  const from = performance.now();
  process.kill(State.Pid, "SIGKILL");
  for (let wasDown = false; performance.now() - from < answersMs; await delay(pollMs)) {
    const isUp = await isAnswering(url);
    if (isUp && wasDown) return performance.now() - from;
    wasDown ||= !isUp;
  }
  throw new Error(`${url} did not answer again within ${answersMs} ms`);
}

/** From the SIGKILL of a healthy app's container until it answers again: a new one each time, since a second crash waits. */
export async function crashes(cluster: Cluster, times: number): Promise<number[]> {
  const { docker, baseImage, registry } = cluster.platform;
  await publishExampleImage({ docker, baseImage, registry });
  const { id } = await project(cluster, "Bench crash", "ociimage");
  const reference = `${registry.host}/examples/tide-clock:1.0.0`;
  const manifest = {
    ...{ version: 2, name: "Bench crash", type: "ociimage", port: 8080, image: { reference } },
    health: { path: "/healthz", timeoutSeconds: 60 },
  };
  const samples: number[] = [];
  const known = new Set<string>();
  for (let round = 0; round < times; round += 1) {
    const deployment = await accepted(cluster, id, { manifest });
    await settled(cluster, deployment.id);
    const containers = (await cluster.containers()).filter(({ labels }) => labels["svc.project"] === id);
    const [fresh] = containers.filter((each) => !known.has(each.id));
    if (fresh === undefined) throw new Error("the deployment has no container of its own");
    for (const each of containers) known.add(each.id);
    samples.push(await killed(docker.getContainer(fresh.id)));
  }
  return samples;
}

/** The same of containers that the engine itself starts again. */
export async function bareCrashes(cluster: Cluster, times: number): Promise<number[]> {
  const { docker, registry } = cluster.platform;
  const samples: number[] = [];
  for (let round = 0; round < times; round += 1) {
    const container = await docker.createContainer({
      Image: `${registry.host}/examples/tide-clock:1.0.0`,
      Env: ["PORT=8080"],
      ExposedPorts: { "8080/tcp": {} },
      HostConfig: {
        ...{ Memory: 512 * 1024 ** 2, NanoCpus: 1e9, PidsLimit: 256, Init: true },
        RestartPolicy: { Name: "always" },
        PortBindings: { "8080/tcp": [{ HostIp: "127.0.0.1", HostPort: String(firstPort + round) }] },
      },
    });
    try {
      await container.start();
      const url = `http://127.0.0.1:${firstPort + round}/healthz`;
      for (const from = performance.now(); !(await isAnswering(url)); await delay(pollMs)) {
        if (performance.now() - from > answersMs) throw new Error(`${url} does not answer`);
      }
      samples.push(await killed(container));
    } finally {
      await container.remove({ force: true });
    }
  }
  return samples;
}

/** Above those of agents and below those that the kernel gives away. */
const firstPort = 32_100;
