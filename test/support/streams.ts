import { request } from "node:http";
import { type ClientHttp2Session, connect } from "node:http2";
import type { Readable } from "node:stream";
import { z } from "zod";
import type { Cluster } from "../cluster.ts";
import { succeeded } from "./api.ts";
import { edgeFetch } from "./edge.ts";
import { postSource, running } from "./source.ts";
import { waitFor } from "./wait-for.ts";

const waitMs = 120_000;
/** As many uploads a user may have under way at once. */
const sites = 3;

/** Has streams, which end with it alone, and passes on to all of them what is posted. */
const app = `
const open = new Set();
require("node:http").createServer((request, reply) => {
  if (request.url === "/events") {
    reply.writeHead(200, { "content-type": "text/event-stream" });
    reply.write("data: hello\\n\\n");
    open.add(reply);
    return;
  }
  if (request.method === "POST") for (const each of open) each.write("data: " + request.url + "\\n\\n");
  reply.end("ok");
}).listen(Number(process.env.PORT));
`;

const created = z.looseObject({ project: z.looseObject({ id: z.string() }) });
const newProject = async (cluster: Cluster, name: string, type: string): Promise<string> =>
  created.parse(await succeeded(cluster, "POST", "/projects", { name, type })).project.id;

/** A stream as a visitor has it; `cut` is why it ended, null while it has not. */
interface Stream {
  heard: string;
  cut: string | null;
  close(): void;
}

export interface StreamsReport {
  /** How each stream ended that did. */
  cut: string[];
  /** Of each deploy, accepted to running. */
  deployMs: number[];
}

/**
 * Holds streams of one app open at the real edge, half over HTTP/1.1 and half over HTTP/2 with TLS, while other sites are deployed `deploys`
 * times, then guarded by a password and at last deleted. Resolves when every stream has heard what the app said after all that, or is cut.
 */
export async function streamsOverForeignDeploys(
  cluster: Cluster,
  { streams, deploys }: { streams: number; deploys: number },
): Promise<StreamsReport> {
  const url = await deployApp(cluster);
  const open = Array.from({ length: streams }, (_, n) => (n % 2 === 0 ? openPlain : openSecure)(cluster, url));
  try {
    await waitFor("all streams to begin", waitMs, () => open.every(({ heard }) => heard.includes("hello")));
    const deployMs: number[] = [];
    let left = deploys;
    await Promise.all(
      Array.from({ length: sites }, async (_, n) => {
        const projectId = await newProject(cluster, `Other ${n}`, "static");
        while (left > 0) {
          const edition = left;
          left -= 1;
          const from = performance.now();
          const manifest = { version: 2, app: { name: `Other ${n}`, type: "static" }, build: { output: "." } };
          const { id } = await postSource(cluster, {
            ...{ projectId, manifest },
            files: { "index.html": `edition ${edition}` },
          });
          await running(cluster, id);
          deployMs.push(performance.now() - from);
        }
        await succeeded(cluster, "PATCH", `/projects/${projectId}`, { password: "open sesame" });
        await succeeded(cluster, "DELETE", `/projects/${projectId}`);
        await waitFor("the project to be gone", waitMs, async () => {
          const { status } = await cluster.api("GET", `/projects/${projectId}`);
          return status === 404;
        });
      }),
    );
    await edgeFetch(new URL("/at-last", url).href, { method: "POST" });
    await waitFor("all streams to hear it, or to be cut", waitMs, () =>
      open.every(({ heard, cut }) => cut !== null || heard.includes("/at-last")),
    );
    return { cut: open.flatMap(({ cut }) => cut ?? []), deployMs };
  } finally {
    for (const stream of open) stream.close();
  }
}

async function deployApp(cluster: Cluster): Promise<string> {
  const projectId = await newProject(cluster, "Streams", "ssr");
  const manifest = { version: 2, app: { name: "Streams", type: "ssr" }, build: { dockerfile: "Dockerfile" } };
  const dockerfile = `FROM ${cluster.platform.baseImage}\nCOPY . .\nCMD ["node", "server.js"]\n`;
  const { id, url } = await postSource(cluster, {
    ...{ projectId, manifest },
    files: { "server.js": app, Dockerfile: dockerfile },
  });
  await running(cluster, id);
  await waitFor("the app at the edge", waitMs, async () => (await edgeFetch(url)).status === 200);
  return url;
}

function openPlain({ platform }: Cluster, url: string): Stream {
  const stream: Stream = { heard: "", cut: null, close: () => sent.destroy() };
  const sent = request(platform.edgeHttp, { path: "/events", agent: false, headers: { host: new URL(url).host } });
  sent.on("response", (answer) => listen(stream, answer, `HTTP/1.1 ${answer.statusCode}`));
  sent.on("error", (error) => {
    stream.cut ??= `HTTP/1.1: ${error.message}`;
  });
  sent.end();
  return stream;
}

/** Each on a connection of its own, as of another visitor. */
function openSecure({ platform }: Cluster, url: string): Stream {
  const { hostname } = new URL(url);
  const stream: Stream = { heard: "", cut: null, close: () => session.destroy() };
  const session: ClientHttp2Session = connect(platform.edgeHttps, { servername: hostname, rejectUnauthorized: false });
  const lose = (error: Error) => {
    stream.cut ??= `HTTP/2: ${error.message}`;
  };
  session.on("error", lose);
  const sent = session.request({ ":path": "/events", ":authority": `${hostname}:${platform.ports.https}` });
  sent.on("error", lose);
  listen(stream, sent, "HTTP/2");
  return stream;
}

function listen(stream: Stream, answer: Readable, name: string): void {
  answer.setEncoding("utf8").on("data", (text: string) => {
    stream.heard += text;
  });
  answer.on("error", () => {});
  answer.once("close", () => {
    stream.cut ??= `${name}: closed after ${JSON.stringify(stream.heard)}`;
  });
}
