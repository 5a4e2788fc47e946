import { randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { publishExampleImage } from "@svc/deploy/examples";
import { pack } from "tar-stream";
import { FormData, fetch } from "undici";
import type { Cluster } from "../cluster.ts";
import { edgeFetch } from "../support/edge.ts";
import type { Row } from "./table.ts";

const servedMs = 120_000;
const pollMs = 5;

/** A source archive as the command line packs it. */
export async function archiveOf(files: Readonly<Record<string, string | Buffer>>): Promise<Buffer> {
  const archive = pack();
  for (const [name, content] of Object.entries(files))
    archive.entry({ name, mode: 0o644, mtime: new Date(0) }, content);
  archive.finalize();
  const parts: Buffer[] = [];
  for await (const part of archive) parts.push(part as Buffer);
  return gzipSync(Buffer.concat(parts), { level: 1 });
}

/** Polls the site until `isNew` holds for its body; how long that took since `from`, in ms. */
export async function untilServed(
  url: string,
  from: number,
  isNew: (body: string) => boolean,
  everyMs = pollMs,
): Promise<number> {
  while (performance.now() - from < servedMs) {
    const reply = await edgeFetch(url).catch(() => null);
    const body = (await reply?.text().catch(() => null)) ?? null;
    if (reply?.status === 200 && body !== null && isNew(body)) return performance.now() - from;
    await delay(everyMs);
  }
  throw new Error(`${url} did not serve the new deployment within ${servedMs} ms`);
}

export async function accepted(
  cluster: Cluster,
  projectId: string,
  body: FormData | object,
): Promise<{ id: string; at: number }> {
  const isForm = body instanceof FormData;
  const reply = await fetch(`${cluster.platform.apiUrl}/api/v1/projects/${projectId}/deployments`, {
    method: "POST",
    headers: { "x-api-key": cluster.key, ...(!isForm && { "content-type": "application/json" }) },
    body: isForm ? body : JSON.stringify(body),
  });
  const result = (await reply.json()) as { deploymentId?: string };
  if (reply.status !== 202 || result.deploymentId === undefined) throw new Error(`refused: ${JSON.stringify(result)}`);
  return { id: result.deploymentId, at: performance.now() };
}

export async function settled(cluster: Cluster, id: string): Promise<void> {
  for (;;) {
    const { body } = await cluster.api("GET", `/deployments/${id}`);
    const { status, error } = body["deployment"] as { status: string; error: string | null };
    if (status === "running") return;
    if (!["queued", "building", "deploying"].includes(status)) throw new Error(`${id} is ${status}: ${error}`);
    await delay(50);
  }
}

export async function project(cluster: Cluster, name: string, type: string): Promise<{ id: string; url: string }> {
  const { status, body } = await cluster.api("POST", "/projects", { name, type });
  if (status !== 201) throw new Error(`project refused: ${JSON.stringify(body)}`);
  return body["project"] as { id: string; url: string };
}

const form = (manifest: object, archive: Buffer) => {
  const data = new FormData();
  data.set("manifest", JSON.stringify(manifest));
  data.set("source", new Blob([new Uint8Array(archive)]), "source.tar.gz");
  return data;
};

/** Accepted to served of a static site without a build step. */
export async function staticDeploys(cluster: Cluster, times: number): Promise<number[]> {
  const { id, url } = await project(cluster, "Bench static", "static");
  const samples: number[] = [];
  for (let round = 0; round <= times; round += 1) {
    const mark = `round ${round} of the static site`;
    const archive = await archiveOf({
      "index.html": `<!doctype html><title>Bench</title><p>${mark}</p>`,
      "assets/style.css": "p { color: green }\n".repeat(2_000),
    });
    const manifest = { version: 2, app: { name: "Bench static", type: "static" } };
    const deployment = await accepted(cluster, id, form(manifest, archive));
    samples.push(await untilServed(url, deployment.at, (body) => body.includes(mark)));
    await settled(cluster, deployment.id);
  }
  return samples.slice(1);
}

/** The example image. */
export const imageManifest = (cluster: Cluster) => ({
  version: 2,
  name: "Bench image",
  type: "ociimage",
  port: 8080,
  image: { reference: `${cluster.platform.registry.host}/examples/tide-clock:1.0.0` },
  health: { path: "/healthz", timeoutSeconds: 60 },
});

/** Accepted to served of an image that nodes have already. */
export async function imageDeploys(cluster: Cluster, times: number): Promise<number[]> {
  const { docker, baseImage, registry } = cluster.platform;
  await publishExampleImage({ docker, baseImage, registry });
  const { id, url } = await project(cluster, "Bench image", "ociimage");
  const manifest = imageManifest(cluster);
  const samples: number[] = [];
  // The page names its container, so a new one is told from the one before.
  const container = (body: string) => /<code>([0-9a-f]{12})/.exec(body)?.[1] ?? null;
  let previous: string | null = null;
  for (let round = 0; round <= times; round += 1) {
    const deployment = await accepted(cluster, id, { manifest });
    samples.push(
      await untilServed(url, deployment.at, (body) => {
        const now = container(body);
        if (now === null || now === previous) return false;
        previous = now;
        return true;
      }),
    );
    await settled(cluster, deployment.id);
  }
  return samples.slice(1);
}

/** Accepted to served of the server example: build (dependencies cached), push, pull, release command, start. */
export async function serverDeploys(cluster: Cluster, times: number): Promise<number[]> {
  const { id, url } = await project(cluster, "Bench server", "ssr");
  const dir = await cluster.exampleDir("ssr");
  const names = [
    "package.json",
    "package-lock.json",
    "src/server.js",
    "src/page.js",
    "src/departures.js",
    "src/release.js",
  ];
  const samples: number[] = [];
  for (let round = 0; round <= times; round += 1) {
    const files: Record<string, string> = { "round.txt": String(round) };
    for (const name of names) files[name] = await readFile(join(dir, name), "utf8");
    const manifest = {
      version: 2,
      app: { name: "Bench server", type: "ssr", port: 3000 },
      start: { command: "node src/server.js" },
      release: { command: "node src/release.js", timeoutSeconds: 60 },
      health: { path: "/healthz", timeoutSeconds: 60 },
    };
    const deployment = await accepted(cluster, id, form(manifest, await archiveOf(files)));
    samples.push(await untilServed(`${url}/api/facts`, deployment.at, (body) => body.includes(deployment.id)));
    await settled(cluster, deployment.id);
  }
  return samples.slice(1);
}

/** The engine's own create and start, until the app answers, in ms since `from`. */
/** One container of the engine itself, until it answers; `isAlone`: in a network of its own, as each project's are. */
export async function bareContainer(
  cluster: Cluster,
  from: number,
  { millicores = 1_000, everyMs = pollMs, isAlone = false } = {},
): Promise<number> {
  const { docker, registry } = cluster.platform;
  await using stack = new AsyncDisposableStack();
  let network = "bridge";
  if (isAlone) {
    const own = await docker.createNetwork({ Name: `bench-${randomUUID()}`, Driver: "bridge" });
    stack.defer(() => own.remove());
    network = own.id;
  }
  const container = await docker.createContainer({
    Image: `${registry.host}/examples/tide-clock:1.0.0`,
    Env: ["PORT=8080"],
    ExposedPorts: { "8080/tcp": {} },
    HostConfig: {
      Memory: 512 * 1024 ** 2,
      NanoCpus: millicores * 1e6,
      PidsLimit: 256,
      Init: true,
      NetworkMode: network,
      PortBindings: { "8080/tcp": [{ HostIp: "127.0.0.1", HostPort: "" }] },
    },
  });
  stack.defer(() => container.remove({ force: true }));
  await container.start();
  const { NetworkSettings } = await container.inspect();
  const port = NetworkSettings.Ports["8080/tcp"]?.[0]?.HostPort;
  return await untilServed(`http://127.0.0.1:${port}/healthz`, from, (body) => body.includes("ok"), everyMs);
}

/** The floor of an image deployment. */
export async function bareContainers(cluster: Cluster, times: number): Promise<number[]> {
  const samples: number[] = [];
  for (let round = 0; round < times; round += 1) samples.push(await bareContainer(cluster, performance.now()));
  return samples;
}

/** Resident memory of a process. */
export const rssMb = async (pid: number) => {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? Number.NaN) / 1024;
};

/** Resident memory of each program, five times over ten seconds at rest. */
export async function memoryAtRest(cluster: Cluster): Promise<Record<"control" | "agent" | "router", number[]>> {
  const samples = { control: [] as number[], agent: [] as number[], router: [] as number[] };
  const programs = { control: "control", agent: "agent-1", router: "router" } as const;
  for (let round = 0; round < 5; round += 1) {
    await delay(2_000);
    for (const [key, name] of Object.entries(programs) as [keyof typeof programs, string][]) {
      const { pid } = cluster.platform.program(name);
      if (pid !== null) samples[key].push(await rssMb(pid));
    }
  }
  return samples;
}

export async function writeReport(path: string, rows: readonly Row[], facts: object): Promise<void> {
  const json = rows.map(({ name, unit, samples, floor }) => ({ name, unit, samples, floor }));
  await writeFile(path, `${JSON.stringify({ ...facts, rows: json }, null, 2)}\n`);
}
