import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startTestEdge, type TestEdge } from "../testing/edge.ts";
import { visit } from "../testing/load.ts";
import { aProxy } from "../testing/routes.ts";
import { startUpstream, type Upstream } from "../testing/upstream.ts";
import { waitFor } from "../testing/wait-for.ts";

const host = "shop.svc.localhost";
/** Another machine than the one of the usual upstreams. */
const elsewhere = "127.77.0.1";
let edge: TestEdge;
let upstream: Upstream;
let silent: Silent;

beforeEach(async () => {
  [edge, upstream, silent] = await Promise.all([startTestEdge(), startUpstream("there"), startSilent()]);
});
afterEach(async () => {
  await edge[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
  await silent[Symbol.asyncDispose]();
});

interface Silent extends AsyncDisposable {
  address: string;
}

/** A port of a machine that does not answer: nobody accepts connections, and no more of them fit into the queue. */
async function startSilent(): Promise<Silent> {
  const script = `const server = require("node:net").createServer();
    server.listen({ host: "${elsewhere}", port: 0, backlog: 1 }, () => {
      require("node:fs").writeSync(1, String(server.address().port));
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    });`;
  const child = spawnProgram([thisNode, "-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  const [chunk] = (await once(child.stdout, "data")) as [Buffer];
  const port = Number(chunk);
  const sockets: Socket[] = [];
  const isFull = async () => {
    const socket = connect({ host: elsewhere, port });
    socket.on("error", () => {});
    sockets.push(socket);
    const connected = await Promise.race([
      once(socket, "connect").then(() => true),
      // After a stall of this process the connection may be there and just not been looked at.
      new Promise<boolean>((resolve) => setTimeout(() => setImmediate(() => resolve(false)), 200)),
    ]);
    return !connected;
  };
  await waitFor(isFull);
  return {
    address: `${elsewhere}:${port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}

test("no visitor is lost to a machine that does not answer, and after a moment none waits for it", async () => {
  await edge.serve({ upserts: [aProxy(host, upstream.address, silent.address)] });
  const first = await visit({ address: edge.http, host, everyMs: 20, least: 100, until: Promise.resolve() });
  expect(Object.fromEntries(first.failures)).toEqual({});
  await waitFor(async () => {
    const startedAt = performance.now();
    const { failures } = await visit({ address: edge.http, host, everyMs: 1, least: 20, until: Promise.resolve() });
    expect(Object.fromEntries(failures)).toEqual({});
    return performance.now() - startedAt < 200;
  });
  // What is reported is what control published: it decides what becomes of the container.
  expect(edge.edge().applier.state()).toMatchObject({ error: "", behindHosts: [] });
  expect(edge.edge().applier.routes().get(host)?.target.value).toMatchObject({
    upstreams: [upstream.address, silent.address],
  });
});
