import { performance } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import type { Cluster } from "../cluster.ts";
import { edgeFetch } from "../support/edge.ts";
import { postSource, running } from "../support/source.ts";

const requestSeconds = 30;
const redeploys = 10;
const everyMs = 500;

/** Does what docs/builds.md asks of an app. */
const app = (edition: number) => `
const server = require("node:http").createServer((request, reply) => {
  const end = () => reply.end("edition ${edition}");
  if (request.url === "/slow") setTimeout(end, ${requestSeconds * 1000});
  else end();
}).listen(Number(process.env.PORT));
process.on("SIGTERM", () => server.close(() => process.exit(0)));
`;

export interface LongRequests {
  sent: number;
  lost: string[];
  /** Of each redeploy, accepted to running. */
  deployMs: number[];
}

/** Sends a request that takes half a minute twice a second while the app is redeployed ten times, one after another. */
export async function longRequests(cluster: Cluster): Promise<LongRequests> {
  const { body } = await cluster.api("POST", "/projects", { name: "Bench long", type: "ssr" });
  const { id: projectId } = body["project"] as { id: string };
  const manifest = { version: 2, app: { name: "Bench long", type: "ssr" }, build: { dockerfile: "Dockerfile" } };
  const dockerfile = `FROM ${cluster.platform.baseImage}\nCOPY . .\nCMD ["node", "server.js"]\n`;
  const deploy = async (edition: number): Promise<string> => {
    const files = { "server.js": app(edition), Dockerfile: dockerfile };
    const { id, url } = await postSource(cluster, { projectId, manifest, files });
    await running(cluster, id);
    return url;
  };
  const url = await deploy(0);
  const found: LongRequests = { sent: 0, lost: [], deployMs: [] };
  const pending: Promise<void>[] = [];
  const ask = async (): Promise<void> => {
    const at = new Date().toISOString();
    const signal = AbortSignal.timeout((requestSeconds + 60) * 1000);
    const said = await edgeFetch(`${url}/slow`, { signal })
      .then(async (reply) => `${reply.status} ${await reply.text()}`)
      .catch((error: unknown) => String(error));
    if (!/^200 edition \d+$/.test(said)) found.lost.push(`${at}: ${said}`);
  };
  const isOver = new AbortController();
  const sending = (async () => {
    while (!isOver.signal.aborted) {
      found.sent += 1;
      pending.push(ask());
      await delay(everyMs);
    }
  })();
  try {
    for (let edition = 1; edition <= redeploys; edition += 1) {
      const from = performance.now();
      await deploy(edition);
      found.deployMs.push(performance.now() - from);
    }
  } finally {
    isOver.abort();
    await sending;
    await Promise.all(pending);
  }
  return found;
}
