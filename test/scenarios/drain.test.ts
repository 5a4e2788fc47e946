import { type IncomingMessage, request } from "node:http";
import type { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../cluster.ts";
import { edgeFetch } from "../support/edge.ts";
import { connectPlatformDatabase } from "../support/platform-database.ts";
import { postSource, running } from "../support/source.ts";
import { waitFor } from "../support/wait-for.ts";

/** What is open when a deploy replaces the app goes on to its end. Nothing here ends by itself, or by a time. */

const waitMs = 60_000;

/** Answers /slow and ends /events when a client of its socket says so, and never otherwise. */
const app = (edition: number) => `
const http = require("node:http");
const open = new Set();
const server = http.createServer((request, reply) => {
  if (request.url === "/") return reply.end("edition ${edition}");
  if (request.url === "/events") {
    reply.writeHead(200, { "content-type": "text/event-stream" });
    reply.write("data: edition ${edition}\\n\\n");
  }
  open.add(reply);
});
server.on("upgrade", (request, socket) => {
  socket.write("HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n");
  socket.on("data", (word) => {
    if (String(word) === "count") return socket.write(String(open.size));
    for (const reply of open) reply.end("finished by edition ${edition}");
    socket.end("goodbye from edition ${edition}");
  });
});
server.listen(Number(process.env.PORT));
`;

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ agents: 1, control: { SVC_DRAIN_SECONDS: "0.25" } });
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

/** A request to the edge in the name of the site, as a visitor that waits for however long it takes. */
const ask = (url: string, headers: Record<string, string> = {}) =>
  request(cluster.platform.edgeHttp, {
    path: new URL(url).pathname,
    agent: false,
    headers: { Host: new URL(url).host, ...headers },
  });
const answerOf = (url: string): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    ask(url).on("response", resolve).on("error", reject).end();
  });
const upgrade = (url: string): Promise<Duplex> =>
  new Promise((resolve, reject) => {
    const headers = { Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": "13" };
    ask(url, { ...headers, "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==" })
      .on("upgrade", (_, socket) => resolve(socket))
      .on("error", reject)
      .end();
  });

async function isRemovalAsked(deploymentId: string): Promise<boolean> {
  await using store = await connectPlatformDatabase(cluster.platform);
  const { rows } = await store.query("select desired from task where owner_id = $1 and kind = 'serve'", [deploymentId]);
  return rows.every(({ desired }) => desired === "removed");
}

test("an event stream, a WebSocket and a slow request outlive a redeploy", { timeout: 600_000 }, async () => {
  const { body } = await cluster.api("POST", "/projects", { name: "Long talks", type: "ssr" });
  const { id: projectId } = z.looseObject({ id: z.string() }).parse(body["project"]);
  const manifest = {
    ...{ version: 2, app: { name: "Long talks", type: "ssr" }, build: { dockerfile: "Dockerfile" } },
    // Much longer than this test.
    drain: { seconds: 300 },
  };
  const dockerfile = `FROM ${cluster.platform.baseImage}\nCOPY . .\nCMD ["node", "server.js"]\n`;
  const deploy = async (edition: number) => {
    const files = { "server.js": app(edition), Dockerfile: dockerfile };
    const { id, url } = await postSource(cluster, { projectId, manifest, files });
    await running(cluster, id);
    return { id, url };
  };
  const { id: first, url } = await deploy(1);
  const socket = (await upgrade(`${url}/socket`)).setEncoding("utf8");
  const events = (await answerOf(`${url}/events`)).setEncoding("utf8");
  const slow = answerOf(`${url}/slow`);
  let heard = "";
  socket.on("data", (chunk: string) => {
    heard += chunk;
  });
  await waitFor("both requests to be there", waitMs, async () => {
    heard = "";
    socket.write("count");
    await waitFor("the count", waitMs, () => heard !== "");
    return heard === "2";
  });

  await deploy(2);
  expect(await (await edgeFetch(url)).text()).toBe("edition 2");
  await waitFor("control to be done with the old one", waitMs, () => isRemovalAsked(first));
  heard = "";
  const said = text(events);
  socket.write("finish");
  expect(await said).toBe("data: edition 1\n\nfinished by edition 1");
  expect(await text(await slow)).toBe("finished by edition 1");
  await waitFor("the end of the socket", waitMs, () => heard === "goodbye from edition 1");
  await waitFor("only the new container", waitMs, async () => (await cluster.containers()).length === 1);
});
