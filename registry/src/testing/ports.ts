import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/** Below all that a system gives out by itself, so that no connection or other server gets one of these in between. */
const firstPort = 10_000;
const portsPerWorker = 1_000;
const workers = 12;

/** Test files that run at the same time have different workers, and so different ports. */
const worker = Number(process.env["VITEST_POOL_ID"] ?? 0) % workers;
let next = randomInt(portsPerWorker);

/** Ports of the loopback address on which nobody listens, for servers that cannot choose their own; each is given out once. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    const port = firstPort + worker * portsPerWorker + next;
    next = (next + 1) % portsPerWorker;
    if (await isFree(port)) ports.push(port);
  }
  return ports;
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const listening = once(server, "listening").then(
    () => true,
    () => false,
  );
  server.listen({ host: "127.0.0.1", port, exclusive: true });
  if (!(await listening)) return false;
  await once(server.close(), "close");
  return true;
}
