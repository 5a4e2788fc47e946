import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls, createServer as createTlsServer } from "node:tls";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { newCertificate } from "../testing/certificate.ts";
import { waitFor } from "../testing/wait.ts";
import { openWay, type Way } from "./way.ts";

const host = "shop.example.test";
let dir: string;
let path: string;
let made = 0;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-way-"));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const left: (() => PromiseLike<unknown>)[] = [];
afterEach(async () => {
  for (const end of left.splice(0).toReversed()) await end();
});

/** What stands for an edge. Returns who is connected to it. */
async function anEdge(server: Server): Promise<{ port: number; visitors: Set<Socket> }> {
  const visitors = new Set<Socket>();
  server.on("connection", (socket) => {
    visitors.add(socket);
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  left.push(() => {
    for (const socket of visitors) socket.destroy();
    return new Promise((resolve) => server.close(resolve));
  });
  return { port: (server.address() as AddressInfo).port, visitors };
}

async function aWay(port: number, serverName: string | null): Promise<Way> {
  made += 1;
  path = join(dir, `edge-${made}`);
  const way = await openWay(path, { host: "127.0.0.1", port }, serverName);
  left.push(() => way[Symbol.asyncDispose]());
  return way;
}

/** A connection of the browser's that is fine with being cut. */
function dial(): Socket {
  const socket = connect(path);
  socket.on("error", () => {});
  left.push(async () => socket.destroy());
  return socket;
}
const cut = (socket: Socket) => waitFor("it to be cut", async () => socket.destroyed);

describe("over TLS", () => {
  const greet = (servername: string) =>
    new Promise<string>((resolve, reject) => {
      const socket = connectTls({ socket: dial(), servername, rejectUnauthorized: false });
      socket.once("error", reject);
      socket.once("close", () => reject(new Error("cut")));
      socket.once("data", (text) => resolve(text.toString("utf8")));
    });

  test("it leads to the one site, and to no other that the edge has", async () => {
    const edge = await anEdge(createTlsServer(newCertificate(host), (socket) => socket.end("welcome")));
    await aWay(edge.port, host);
    expect(await greet(host)).toBe("welcome");
    expect(edge.visitors.size).toBe(1);
    await expect(greet("other.example.test")).rejects.toThrow();
    await expect(greet("")).rejects.toThrow();
    const plain = dial();
    plain.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    await cut(plain);
    const silent = dial();
    silent.end();
    await cut(silent);
    expect(edge.visitors.size).toBe(1);
  });
});

test("without TLS it leads to the edge", async () => {
  const edge = await anEdge(createServer((socket) => socket.pipe(socket)));
  await aWay(edge.port, null);
  const socket = dial();
  socket.write("hello");
  expect(await new Promise((resolve) => socket.once("data", (text) => resolve(text.toString("utf8"))))).toBe("hello");
});

test.each(["sends", "loads"])(
  "a page that $0 without an end is cut off, and gets no other connection",
  async (does) => {
    const mebibyte = Buffer.alloc(1024 * 1024);
    /** Until it is cut. */
    const pour = (socket: Socket): void => {
      if (!socket.destroyed) socket.write(mebibyte, () => pour(socket));
    };
    const edge = await anEdge(
      createServer((socket) => {
        socket.resume();
        if (does === "loads") pour(socket);
      }),
    );
    await aWay(edge.port, null);
    const socket = dial();
    socket.resume();
    if (does === "sends") pour(socket);
    await cut(socket);
    await cut(dial());
    expect(edge.visitors.size).toBe(1);
  },
);
