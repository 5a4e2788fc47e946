/**
 * A process that serves streams, for measuring: by the hub (`realtime`), or by Node's http and a list of responses (`bare`). It has
 * as many hubs as its clients need, `/0`, `/1` and so on, since one has at most a thousand. Told what to do by its parent.
 */

import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { performance } from "node:perf_hooks";
import { createRealtime } from "../index.ts";
import { createPostgresAdapter } from "../postgres.ts";
import { connectTo } from "./postgres.ts";

export type Order =
  | { do: "memory" }
  /** Milliseconds of each publish, the loop over the clients alone. */
  | { do: "publish"; times: number }
  /** Publishes to clients of which one does not read, `bytes` in all, and answers the most that was held, in bytes. */
  | { do: "stall"; bytes: number }
  /** Publishes the time of this machine's clock, `times` at `everyMs`. */
  | { do: "stamp"; times: number; everyMs: number };

const [kind, databaseUrl, givenPort] = process.argv.slice(2);
const hubs = 10;
const payload = { title: "x".repeat(100) };
const chunk = "x".repeat(16 * 1024);

const adapterOf = (url: string) => ({ adapter: createPostgresAdapter({ sql: connectTo(url) }) });
const realtimes = Array.from({ length: kind === "realtime" ? hubs : 0 }, (_, at) =>
  createRealtime({
    ...{ maxClients: 1_000, throttle: false, ...(databaseUrl && adapterOf(databaseUrl)) },
    // The last one keeps nothing for those who come back: what it holds is held for a client.
    ...(at === hubs - 1 && { replay: false }),
  }),
);
const responses: ServerResponse[] = [];

const server = createServer((request, response) => {
  const realtime = realtimes[Number(request.url?.slice(1, 2))];
  if (realtime !== undefined) realtime.node(request, response);
  else {
    response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
    responses.push(response);
  }
});
await once(server.listen(Number(givenPort ?? 0), "127.0.0.1"), "listening");

/** What each hub does for an event, or what Node does without one. */
function publish(data: unknown): void {
  for (const realtime of realtimes) if (realtime.clientCount() > 0) realtime.publish("a", { data });
  if (responses.length === 0) return;
  const frame = Buffer.from(`event: message\ndata: ${JSON.stringify({ channel: "a", data })}\n\n`);
  for (const response of responses) response.write(frame);
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const turn = () => new Promise((resolve) => setImmediate(resolve));
const collect = () => void (globalThis as { gc?: () => void }).gc?.();
const heldBytes = () => {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};

async function obey(order: Order): Promise<number[]> {
  if (order.do === "memory") {
    collect();
    await pause(200);
    collect();
    return [process.memoryUsage.rss()];
  }
  if (order.do === "stall") {
    const before = heldBytes();
    let most = 0;
    for (let sent = 0; sent < order.bytes; sent += chunk.length) {
      publish(chunk);
      most = Math.max(most, heldBytes() - before);
      await turn();
    }
    return [most];
  }
  const samples: number[] = [];
  for (let at = 0; at < order.times; at += 1) {
    const from = performance.now();
    publish(order.do === "stamp" ? String(process.hrtime.bigint()) : payload);
    samples.push(performance.now() - from);
    await pause(order.do === "stamp" ? order.everyMs : 20);
  }
  return samples;
}

process.on("message", (order: Order) => void obey(order).then((samples) => process.send?.(samples)));
process.send?.([(server.address() as AddressInfo).port]);
