import { once } from "node:events";
import { createServer, connect as dial, type Socket } from "node:net";
import { Duplex } from "node:stream";
import { Code, ConnectError, createRouterTransport, type Transport } from "@connectrpc/connect";
import { NodeService, type TunnelRequest } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { systemClock } from "@svc/runtime/system";
import { createManualClock } from "@svc/runtime/testing/manual-clock";
import pino from "pino";
import { afterEach, expect, test } from "vitest";
import { waitFor } from "../testing/wait.ts";
import { createTunnels, type TunnelDeps } from "./tunnels.ts";

const log = pino({ level: "silent" });
const wish = (overrides: object = {}) =>
  ({ tunnelId: "t1", databaseId: "d1", epoch: 3n, ...overrides }) as Parameters<
    ReturnType<typeof createTunnels>["open"]
  >[0];

function countingConnections(transport: Transport) {
  const connections = new Set<object>();
  return {
    open: () => {
      const connection = { transport, close: () => void connections.delete(connection) };
      connections.add(connection);
      return connection;
    },
    connections: () => connections.size,
  };
}

/** A replica of control that has asked for some tunnels, and what came through them. */
function aReplica(asked: readonly string[], toServer: readonly string[] = [], otherwise = Code.NotFound) {
  const heard: TunnelRequest["message"][] = [];
  const closed = Promise.withResolvers<void>();
  const transport = createRouterTransport((router) => {
    router.service(NodeService, {
      async *tunnel(requests) {
        const reading = requests[Symbol.asyncIterator]();
        const { value: first } = await reading.next();
        if (first === undefined || first.message.case !== "answer" || !asked.includes(first.message.value.tunnelId)) {
          throw new ConnectError("not mine", otherwise);
        }
        heard.push(first.message);
        yield {};
        for (const text of toServer) yield { data: Uint8Array.from(Buffer.from(text)) };
        for (let next = await reading.next(); next.done !== true; next = await reading.next()) {
          heard.push(next.value.message);
        }
        closed.resolve();
      },
    });
  });
  return {
    heard,
    closed: closed.promise,
    text: () => Buffer.concat(heard.flatMap((message) => (message.case === "data" ? [message.value] : []))).toString(),
    ...countingConnections(transport),
  };
}

/** A replica that takes calls and never says anything. */
function aHungReplica() {
  let heard = 0;
  const transport = createRouterTransport((router) => {
    router.service(NodeService, {
      // biome-ignore lint/correctness/useYield: it says nothing.
      async *tunnel(_, { signal }) {
        heard += 1;
        await once(signal, "abort");
      },
    });
  });
  return { heard: () => heard, ...countingConnections(transport) };
}

const cleanup: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const each of cleanup.splice(0)) await each();
});

/** A server that greets, and answers what it hears in capitals until it is told "bye". */
async function aServer(): Promise<{ connect(): Promise<Socket>; open(): number; hangUp(): void }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on("close", () => sockets.delete(socket)));
    socket.write("hello;");
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      if (chunk.toString() === "bye") socket.end("BYE");
      else socket.write(chunk.toString().toUpperCase());
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanup.push(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as { port: number };
  return {
    open: () => sockets.size,
    hangUp: () => {
      for (const socket of sockets) socket.end();
    },
    async connect() {
      const socket = dial(port, "127.0.0.1");
      await once(socket, "connect");
      return socket;
    },
  };
}

function tunnelsTo(
  replicas: Pick<ReturnType<typeof aReplica>, "open">[],
  connect: TunnelDeps["connect"],
  clock: Clock = systemClock,
) {
  const stop = new AbortController();
  const tunnels = createTunnels({
    clock,
    link: () => ({
      replicas: () => replicas.map((_, index) => String(index)),
      connectTo: (index) => (replicas[Number(index)] as ReturnType<typeof aReplica>).open(),
    }),
    connect,
    signal: stop.signal,
    log,
  });
  cleanup.unshift(async () => {
    stop.abort();
    await tunnels[Symbol.asyncDispose]();
  });
  return { tunnels, stop };
}

test("bytes go both ways, to the replica that asked, until the server ends", async () => {
  const server = await aServer();
  const [other, asking] = [aReplica([]), aReplica(["t1"], ["bye"])];
  const { tunnels } = tunnelsTo([other, asking], server.connect);
  tunnels.open(wish());
  await asking.closed;
  expect(asking.heard[0]).toMatchObject({ case: "answer", value: { tunnelId: "t1", refusedBecause: "" } });
  expect(asking.text()).toBe("hello;BYE");
  expect(other.heard).toEqual([]);
  await waitFor(
    "every connection to be closed",
    () => asking.connections() + other.connections() + server.open() === 0,
  );
});

test("a wish that is said again opens nothing twice", async () => {
  const server = await aServer();
  const asking = aReplica(["t1"], ["a"]);
  const { tunnels } = tunnelsTo([asking], server.connect);
  tunnels.open(wish());
  tunnels.open(wish());
  await waitFor("an answer of the server", () => asking.text() === "hello;A");
  tunnels.open(wish());
  expect(server.open()).toBe(1);
  expect(asking.connections()).toBe(1);
});

test("a database that does not run here is refused with the reason", async () => {
  const asking = aReplica(["t1"]);
  const { tunnels } = tunnelsTo([asking], async () => {
    throw new Error("It does not run here.");
  });
  tunnels.open(wish());
  await asking.closed;
  expect(asking.heard).toMatchObject([{ case: "answer", value: { refusedBecause: "It does not run here." } }]);
});

test("when no replica wants it the server is left", async () => {
  const server = await aServer();
  const replicas = [aReplica([]), aReplica([])];
  const { tunnels } = tunnelsTo(replicas, server.connect);
  tunnels.open(wish());
  await waitFor(
    "both to be asked, and all to be closed",
    () => server.open() === 0 && replicas[1]?.connections() === 0,
  );
});

test("the end of the agent ends its tunnels", async () => {
  const server = await aServer();
  const asking = aReplica(["t1"]);
  const { tunnels, stop } = tunnelsTo([asking], server.connect);
  tunnels.open(wish());
  await waitFor("the greeting", () => asking.text() === "hello;");
  stop.abort();
  await tunnels[Symbol.asyncDispose]();
  await waitFor("the server to be left", () => server.open() === 0);
});

test("a replica that refuses to answer does not keep the wish from the one that asked", async () => {
  const server = await aServer();
  const [busy, asking] = [aReplica([], [], Code.ResourceExhausted), aReplica(["t1"], ["bye"])];
  tunnelsTo([busy, asking], server.connect).tunnels.open(wish());
  await asking.closed;
  expect(asking.text()).toBe("hello;BYE");
});

test("the end of the agent ends tunnels to a server that takes nothing more", async () => {
  const server = new Duplex({ read() {}, write() {} });
  const { tunnels, stop } = tunnelsTo([aReplica(["t1"], ["a"])], async () => server);
  tunnels.open(wish());
  await waitFor("something to be written", () => server.writableLength > 0);
  stop.abort();
  await tunnels[Symbol.asyncDispose]();
  expect(server.destroyed).toBe(true);
});

test("a server that is reached too late is left", async () => {
  const clock = createManualClock();
  const server = new Duplex({ read() {}, write() {} });
  const reached = Promise.withResolvers<Duplex>();
  const asking = aReplica(["t1"]);
  tunnelsTo([asking], () => reached.promise, clock).tunnels.open(wish());
  await clock.advance(3_000);
  await asking.closed;
  expect(asking.heard).toMatchObject([{ value: { refusedBecause: "The database server does not answer." } }]);
  reached.resolve(server);
  await waitFor("it to be left", () => server.destroyed);
  server.emit("error", new Error("a late reset"));
});

test("a replica that hangs does not keep the wish from the one that asked, and is called off", async () => {
  const server = await aServer();
  const [hung, asking] = [aHungReplica(), aReplica(["t1"], ["a"])];
  // The clock stands still: nothing is waited for.
  const { tunnels } = tunnelsTo([hung, asking], server.connect, createManualClock());
  tunnels.open(wish());
  await waitFor("an answer of the server", () => asking.text() === "hello;A");
  expect(hung.heard()).toBe(1);
  await waitFor("the other to be called off", () => hung.connections() === 0);
  expect(asking.connections()).toBe(1);
});

test("a wish beyond the limit is refused with the reason, and room is used again", async () => {
  const server = await aServer();
  const ids = Array.from({ length: 64 }, (_, index) => `t${index}`);
  const asking = aReplica([...ids, "beyond", "later"]);
  const { tunnels } = tunnelsTo([asking], server.connect);
  for (const tunnelId of ids) tunnels.open(wish({ tunnelId }));
  tunnels.open(wish({ tunnelId: "beyond" }));
  const answerTo = (id: string) =>
    asking.heard.flatMap(({ case: of, value }) => (of === "answer" && value.tunnelId === id ? [value] : []))[0];
  await waitFor("the refusal", () => answerTo("beyond") !== undefined);
  expect(answerTo("beyond")?.refusedBecause).toMatch("Too many tools");
  await waitFor("all others to be open", () => asking.connections() === 64 && server.open() === 64);
  server.hangUp();
  await waitFor("all to end", () => asking.connections() === 0);
  tunnels.open(wish({ tunnelId: "later" }));
  await waitFor("the next to be open", () => answerTo("later")?.refusedBecause === "");
});
