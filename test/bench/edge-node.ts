/**
 * Measures the way between an edge and a node: what a request to an app costs Caddy, and the node's proxy, through an entrance, and
 * what it costs Caddy without one. CPU time of the processes, in turns and the least of several rounds.
 *
 * Run: npm run bench -- edge-node
 */

import { once } from "node:events";
import { createServer } from "node:http";
import { entrancesFile } from "@svc/dbproxy/entrances/load";
import { anAuthority } from "@svc/dbproxy/testing/certificates";
import { spawnProxy } from "@svc/dbproxy/testing/child";
import { aPlace, bridge } from "@svc/dbproxy/testing/proxy";
import { type Case, costs } from "@svc/router/testing/bench-cost";
import { startTestEdge } from "@svc/router/testing/edge";
import { ask } from "@svc/router/testing/http";
import { anEntrance, aProxy } from "@svc/router/testing/routes";
import { waitFor } from "@svc/router/testing/wait-for";
import { writeDurably } from "@svc/runtime/durable-file";

const nodeId = "7d1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b";
const edgeId = "8e2f3a4b-5c6d-4e7f-9a0b-1c2d3e4f5a6b";
const [address, port] = [bridge(30), 27_601];
const [plainHost, entranceHost] = ["plain.svc.localhost", "entrance.svc.localhost"];

const app = createServer((_, response) => response.end("x".repeat(1_000)));
await once(app.listen(0, "127.0.0.1"), "listening");
const bound = app.address();
const to = { host: "127.0.0.1", port: typeof bound === "object" && bound !== null ? bound.port : 0 };

const authority = await anAuthority();
await using node = await aPlace();
await authority.certify(node.dir, { id: nodeId, address });
await writeDurably(entrancesFile(node.dir), JSON.stringify({ generation: "1", address, entrances: [{ port, to }] }));
await using proxy = await spawnProxy(node);
await using edge = await startTestEdge();
const { cert, key } = await authority.issue({ id: edgeId, role: "edge" });
await edge.edge().entranceKeys.use({ certificatePem: cert, privateKeyPem: key, caPem: authority.ca });
await edge.serve({
  upserts: [aProxy(plainHost, `${to.host}:${to.port}`), anEntrance(entranceHost, `${address}:${port}`)],
});
await waitFor(async () => (await ask(edge.http, entranceHost)).status === 200);

const ofCaddy = { pid: edge.caddy.pid, address: edge.http };
const plain: Case = { ...ofCaddy, name: "Caddy, to a published port", host: plainHost };
const cases: Case[] = [
  plain,
  { ...ofCaddy, name: "Caddy, through an entrance", host: entranceHost, floor: { name: plain.name } },
  { name: "the node's proxy, through an entrance", pid: proxy.pid, address: edge.http, host: entranceHost },
];
const found = await costs(cases);
for (const { name } of cases) {
  const { microseconds = Number.NaN, requestsPerSecond = 0 } = found.get(name) ?? {};
  console.log(`${name.padEnd(44)} ${microseconds.toFixed(0)} µs of CPU, ${requestsPerSecond.toFixed(0)}/s`);
}
app.closeAllConnections();
app.close();
