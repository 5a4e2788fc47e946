import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemRandom } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { openBuildSession } from "./build-session.ts";

/** An engine that takes one session, and asks on it. */
async function anEngine() {
  const dir = await mkdtemp(join(tmpdir(), "svc-session-"));
  const socketPath = join(dir, "engine.sock");
  const server = createServer();
  const client = new Promise<{ session: ClientHttp2Session; socket: Socket }>((resolve) => {
    server.once("upgrade", (_request, socket: Socket) => {
      socket.write("HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
      const session = connect("http://engine.test", { createConnection: () => socket });
      session.on("error", () => {});
      session.once("connect", () => resolve({ session, socket }));
    });
  });
  server.listen(socketPath);
  await once(server, "listening");
  return {
    socketPath,
    client,
    async [Symbol.asyncDispose]() {
      const { session, socket } = await client;
      session.destroy();
      socket.destroy();
      server.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

const check = (session: ClientHttp2Session): ClientHttp2Stream => {
  const stream = session.request({ ":method": "POST", ":path": "/grpc.health.v1.Health/Check" });
  stream.on("error", () => {});
  stream.end(Buffer.alloc(5));
  return stream;
};

test("what the engine calls off in the same breath ends nothing but itself", async () => {
  await using engine = await anEngine();
  const own = await openBuildSession(systemRandom, engine.socketPath, new Map(), new AbortController().signal);
  const { session, socket } = await engine.client;
  // All of it comes in one read.
  socket.cork();
  for (let count = 0; count < 20; count += 1) check(session).close(8);
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  socket.uncork();
  const [headers] = (await once(check(session), "response")) as [Record<string, string>];
  expect(headers[":status"]).toBe(200);
  own.close();
});
