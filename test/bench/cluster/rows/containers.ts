import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { publishExampleImage } from "@svc/deploy/examples";
import { z } from "zod";
import { type Cluster, startCluster } from "../../../cluster.ts";
import { openLoopLoad } from "../../../support/load.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { bareContainers } from "../../deploys.ts";
import { atMost, type Measurement, none } from "../measure.ts";

const runningMs = 60_000;
const requestsPerSecond = 500;
const accepted = z.looseObject({ deploymentId: z.string() });
const event = z.looseObject({
  Action: z.string(),
  timeNano: z.number(),
  Actor: z.looseObject({ Attributes: z.record(z.string(), z.string()) }),
});

/** Milliseconds since 1970 as the engine tells them, with parts. */
const wallMs = () => performance.timeOrigin + performance.now();

interface Options {
  quick: boolean;
  report: (measurement: Measurement) => void;
  log: (line: string) => void;
}

/**
 * Row 4: deployments of an image that its nodes have, until the engine says that the container started. Row 9: visitors
 * ask at a fixed rate while more of them replace one another.
 */
export async function measureContainers({ quick, report, log }: Options): Promise<void> {
  await using cluster = await startCluster({ agents: 3 });
  const { platform } = cluster;
  const { docker, baseImage, registry } = platform;
  await publishExampleImage({ docker, baseImage, registry });
  const reply = await cluster.api("POST", "/projects", { name: "Bench containers", type: "ociimage" });
  if (reply.status !== 201) throw new Error(`project refused: ${JSON.stringify(reply.body)}`);
  const project = z.looseObject({ id: z.string(), url: z.string() }).parse(reply.body["project"]);
  const starts = await followStarts(cluster, project.id);
  try {
    // The first ones bring the image to the nodes.
    for (let warmUp = 0; warmUp < 4; warmUp += 1) await deployOnce(cluster, project.id, starts);
    const rounds = quick ? 3 : 25;
    const times: Deployed[] = [];
    for (let round = 0; round < rounds; round += 1) times.push(await deployOnce(cluster, project.id, starts));
    const bare = await bareContainers(cluster, quick ? 2 : 5);
    const common = { row: 4, unit: "ms", per: "event" } as const;
    report({
      ...{ ...common, metric: "request to start of the container, image present", aim: atMost(1_500, "ms", "p99") },
      ...{
        samples: times.map(({ startedMs }) => startedMs),
        note: "real agents, 3 on this machine, one after the other",
      },
    });
    report({
      ...{ ...common, metric: "- of which the engine, create to start", aim: null, note: null },
      samples: times.map(({ engineMs }) => engineMs),
    });
    report({
      ...common,
      metric: "floor: create, start and first answer by the engine alone",
      samples: bare,
      aim: null,
      note: null,
    });
    await measureLoad(cluster, project, starts, { quick, report, log });
  } finally {
    starts.close();
  }
}

interface Deployed {
  startedMs: number;
  engineMs: number;
}

interface Starts {
  /** The newest start of a container of the project after `since`; null before there is one. */
  find(since: number): { startedAt: number; createdAt: number } | null;
  close(): void;
}

async function followStarts({ platform }: Cluster, projectId: string): Promise<Starts> {
  const filters = { type: ["container"], event: ["create", "start"], label: [`svc.project=${projectId}`] };
  const stream: NodeJS.ReadableStream = await platform.docker.getEvents({ filters: JSON.stringify(filters) });
  const created = new Map<string, number>();
  let newest: { startedAt: number; createdAt: number } | null = null;
  let rest = "";
  stream.setEncoding("utf8");
  stream.on("data", (chunk: string) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines.filter((each) => each.trim() !== "")) {
      const { Action, timeNano, Actor } = event.parse(JSON.parse(line));
      const placement = Actor.Attributes["svc.placement"] ?? "";
      if (Action === "create") created.set(placement, timeNano / 1e6);
      else newest = { startedAt: timeNano / 1e6, createdAt: created.get(placement) ?? Number.NaN };
    }
  });
  stream.on("error", () => {});
  return {
    find: (since) => (newest !== null && newest.startedAt > since ? newest : null),
    close: () => {
      if (stream instanceof Readable) stream.destroy();
    },
  };
}

async function deployOnce(cluster: Cluster, projectId: string, starts: Starts): Promise<Deployed> {
  const reference = `${cluster.platform.registry.host}/examples/tide-clock:1.0.0`;
  const manifest = {
    version: 2,
    name: "Bench containers",
    type: "ociimage",
    port: 8080,
    image: { reference },
    health: { path: "/healthz", timeoutSeconds: 60 },
  };
  const askedAt = wallMs();
  const { status, body } = await cluster.api("POST", `/projects/${projectId}/deployments`, { manifest });
  if (status !== 202) throw new Error(`deployment refused: ${JSON.stringify(body)}`);
  const { deploymentId } = accepted.parse(body);
  const { startedAt, createdAt } = await waitFor("the container to start", runningMs, () => starts.find(askedAt));
  await waitFor("the deployment to run", runningMs, async () => {
    const { rows } = await statusOf(cluster, deploymentId);
    return rows;
  });
  return { startedMs: startedAt - askedAt, engineMs: startedAt - createdAt };
}

const detail = z.looseObject({ deployment: z.looseObject({ status: z.string(), error: z.string().nullable() }) });

async function statusOf(cluster: Cluster, id: string): Promise<{ rows: boolean }> {
  const { body } = await cluster.api("GET", `/deployments/${id}`);
  const { status, error } = detail.parse(body).deployment;
  if (!["queued", "building", "deploying", "running"].includes(status)) throw new Error(`${id} is ${status}: ${error}`);
  return { rows: status === "running" };
}

async function measureLoad(
  cluster: Cluster,
  project: { id: string; url: string },
  starts: Starts,
  { quick, report, log }: Options,
): Promise<void> {
  const stop = new AbortController();
  const load = openLoopLoad({ url: `${project.url}/`, ratePerSecond: requestsPerSecond, until: stop.signal });
  const startedAt = performance.now();
  let deployments = 0;
  try {
    while (performance.now() - startedAt < (quick ? 5_000 : 60_000)) {
      await deployOnce(cluster, project.id, starts);
      deployments += 1;
      await delay(500);
    }
  } finally {
    stop.abort();
  }
  const { sent, failed, failures, latencyMs } = await load;
  log(`load: ${sent} requests, ${failed} failed${failures[0] ? `, first ${JSON.stringify(failures[0])}` : ""}`);
  report({
    row: 9,
    metric: `failed of ${sent.toLocaleString("en-US")} requests while ${deployments} deployments replace one another`,
    unit: "requests",
    per: "run",
    samples: [failed],
    aim: none("requests"),
    note: `open loop, ${requestsPerSecond} requests per second; answered within ${latencyMs.p50} ms (p50), ${latencyMs.p99} ms (p99), ${latencyMs.max} ms (max)`,
  });
}
