/**
 * Measures the package against Node's bare http in the same run: what a client costs in memory, what a publish takes, what a client
 * that does not read may hold, how long an event is on its way to another replica over Postgres, and how soon clients are back after
 * their server was killed. Writes one line of JSON. Run by `npm run bench -- realtime`.
 */

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import type { Order } from "./bench-server.ts";
import { connectTo } from "./postgres.ts";

export type Measured = Record<
  "memory" | "publish" | "publishP99" | "stalled" | "replicasP99" | "back",
  { samples: number[]; floor: number[] | null }
>;

const [databaseUrl = "", rounds = "3"] = process.argv.slice(2);
const kinds = ["bare", "realtime"] as const;
type Kind = (typeof kinds)[number];

interface Child extends AsyncDisposable {
  next(): Promise<number[]>;
  tell(order: Order): Promise<number[]>;
}

async function start(file: string, flags: readonly string[], args: readonly string[]): Promise<Child> {
  const script = fileURLToPath(new URL(file, import.meta.url));
  const child = spawnProgram([thisNode, ...flags, script, ...args], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const next = async () => ((await once(child, "message")) as [number[]])[0];
  return {
    next,
    tell(order) {
      child.send(order);
      return next();
    },
    async [Symbol.asyncDispose]() {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    },
  };
}

async function startServer(kind: Kind, database = "", port = 0): Promise<Child & { port: number }> {
  const child = await start("bench-server.ts", ["--expose-gc"], [kind, database, String(port)]);
  const [bound = 0] = await child.next();
  return { ...child, port: bound };
}

/** Resolves when the answer has begun. */
async function openStream(port: number, path: string): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {});
  socket.write(`GET ${path} HTTP/1.1\r\nhost: app.test\r\n\r\n`);
  await once(socket, "data");
  return socket;
}

async function openStreams(port: number, count: number): Promise<Disposable> {
  const sockets: Socket[] = [];
  for (let at = 0; at < count; at += 100) {
    const some = Array.from({ length: 100 }, (_, of) => openStream(port, `/${Math.floor((at + of) / 1_000)}`));
    sockets.push(...(await Promise.all(some)));
  }
  for (const socket of sockets) socket.resume();
  return { [Symbol.dispose]: () => sockets.forEach((socket) => void socket.destroy()) };
}

const quantile = (samples: readonly number[], share: number): number =>
  samples.toSorted((a, b) => a - b)[Math.min(samples.length - 1, Math.floor(samples.length * share))] ?? Number.NaN;

const clients = 10_000;
async function memory(kind: Kind): Promise<number> {
  await using server = await startServer(kind);
  const [before = 0] = await server.tell({ do: "memory" });
  using _streams = await openStreams(server.port, clients);
  const [after = 0] = await server.tell({ do: "memory" });
  return (after - before) / clients / 1024;
}

async function publish(kind: Kind): Promise<number[]> {
  await using server = await startServer(kind);
  using _streams = await openStreams(server.port, 1_000);
  await server.tell({ do: "publish", times: 50 });
  return await server.tell({ do: "publish", times: 200 });
}

async function stalled(kind: Kind): Promise<number> {
  await using server = await startServer(kind);
  const socket = await openStream(server.port, "/9");
  socket.pause();
  const [most = 0] = await server.tell({ do: "stall", bytes: 16 * 1024 * 1024 });
  socket.destroy();
  return most / 1024;
}

/** Milliseconds since a moment of the machine's own clock, which all of its processes share. */
const since = (at: string): number => Number(process.hrtime.bigint() - BigInt(at)) / 1e6;

const stamps = { times: 500, everyMs: 10 };
async function betweenReplicas(): Promise<number> {
  await using here = await startServer("realtime", databaseUrl);
  await using there = await startServer("realtime", databaseUrl);
  const took: number[] = [];
  const [own, other] = [await openStream(here.port, "/0"), await openStream(there.port, "/0")];
  let text = "";
  other.setEncoding("utf8").on("data", (more: string) => {
    text += more;
    for (const [, at = "0"] of text.matchAll(/"data":"(\d+)"}\n\n/g)) took.push(since(at));
    text = text.slice(text.lastIndexOf("\n\n") + 2);
  });
  await here.tell({ do: "stamp", ...stamps });
  own.destroy();
  other.destroy();
  return quantile(took, 0.99);
}

async function bareNotifications(): Promise<number> {
  const sql = connectTo(databaseUrl);
  const took: number[] = [];
  await sql.listen("bare", (at) => void took.push(since(at)));
  for (let at = 0; at < stamps.times; at += 1) {
    await sql.notify("bare", String(process.hrtime.bigint()));
    await new Promise((resolve) => setTimeout(resolve, stamps.everyMs));
  }
  await sql.end();
  return quantile(took, 0.99);
}

async function back(): Promise<number> {
  const first = await startServer("realtime");
  await using waiting = await start(
    "bench-clients.ts",
    ["--experimental-eventsource", "--no-warnings"],
    [`http://127.0.0.1:${first.port}/0`],
  );
  await waiting.next();
  await first[Symbol.asyncDispose]();
  await using _second = await startServer("realtime", "", first.port);
  const [awayMs = Number.NaN] = await waiting.next();
  return awayMs;
}

const measured: Measured = {
  memory: { samples: [], floor: [] },
  publish: { samples: [], floor: [] },
  publishP99: { samples: [], floor: [] },
  stalled: { samples: [], floor: [] },
  replicasP99: { samples: [], floor: [] },
  back: { samples: [], floor: null },
};
// In turns, so that what else the machine does is in both.
for (let round = 0; round < Number(rounds); round += 1) {
  for (const kind of kinds) {
    const into = (name: keyof Measured) => (kind === "bare" ? (measured[name].floor ?? []) : measured[name].samples);
    into("memory").push(await memory(kind));
    const took = await publish(kind);
    into("publish").push(...took);
    into("publishP99").push(quantile(took, 0.99));
    into("stalled").push(await stalled(kind));
  }
  measured.replicasP99.samples.push(await betweenReplicas());
  measured.replicasP99.floor?.push(await bareNotifications());
  measured.back.samples.push(await back());
}
console.log(JSON.stringify(measured));
