import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { argv, runProgramSync, spawnProgram } from "@svc/runtime/programs";
import { Pool } from "undici";

/** What one kind of request costs the process that answers it. */
export interface Case {
  name: string;
  /** Of the process whose CPU time is measured. */
  pid: number;
  /** host:port */
  address: string;
  host: string | ((n: number) => string);
  path?: string;
  /** Over TLS, with HTTP/2. */
  tls?: boolean;
  headers?: Record<string, string>;
  /** Case that this one is compared with, and at most how many times its cost is aimed at. */
  floor?: { name: string; atMost?: number };
  /** First digit of the status of all answers; 2 unless said. */
  statusClass?: 2 | 4;
}

export interface Cost {
  /** CPU time per request: the least of all rounds. */
  microseconds: number;
  /** The most of all rounds. */
  requestsPerSecond: number;
}

const requestsPerRound = 10_000;
const rounds = 5;
const connections = 32;
/** Of the kernel's clock for process times. */
const ticksPerSecond = 100;
const browser = { accept: "text/html,*/*", "accept-language": "en", "user-agent": "Mozilla/5.0 (X11; Linux x86_64)" };

/**
 * All cases in turns, so that what else the machine does befalls each of them. A client in C asks, which leaves the
 * machine to those that answer; one in JavaScript where the host changes from request to request.
 */
export async function costs(cases: readonly Case[]): Promise<Map<string, Cost>> {
  const best = new Map<string, Cost>();
  for (let round = 0; round < rounds; round += 1) {
    for (const each of cases) {
      const cost = await measure(each);
      const before = best.get(each.name) ?? cost;
      best.set(each.name, {
        microseconds: Math.min(cost.microseconds, before.microseconds),
        requestsPerSecond: Math.max(cost.requestsPerSecond, before.requestsPerSecond),
      });
    }
  }
  return best;
}

async function measure(each: Case): Promise<Cost> {
  const before = await cpuMicroseconds(each.pid);
  const requestsPerSecond =
    typeof each.host === "string" ? await ask(each, each.host) : await askInTurn(each, each.host);
  return { microseconds: ((await cpuMicroseconds(each.pid)) - before) / requestsPerRound, requestsPerSecond };
}

/** Requests per second. */
async function ask({ name, address, path = "/", tls, headers, statusClass = 2 }: Case, host: string): Promise<number> {
  const fields = Object.entries({ ...browser, ...headers }).flatMap(([field, value]) => ["-H", `${field}: ${value}`]);
  const client = spawnProgram(
    argv(
      "h2load",
      ...(tls ? ["-m", "4"] : ["--h1"]),
      ...["-n", String(requestsPerRound), "-c", String(tls ? connections / 4 : connections), "-t", "1"],
      ...[`--connect-to=${address}`, ...fields, `${tls ? "https" : "http"}://${host}${path}`],
    ),
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  const [said] = await Promise.all([text(client.stdout), once(client, "exit")]);
  const answered = new RegExp(`(\\d+) ${statusClass}xx`).exec(said)?.[1];
  if (Number(answered) !== requestsPerRound) throw new Error(`${name} was not answered as it should be:\n${said}`);
  return Number(/, ([\d.]+) req\/s/.exec(said)?.[1]);
}

async function askInTurn({ name, address, path = "/", headers }: Case, host: (n: number) => string): Promise<number> {
  const pool = new Pool(`http://${address}`, { connections });
  let next = 0;
  const visitor = async () => {
    while (next < requestsPerRound) {
      const fields = { ...browser, ...headers, host: host(next++) };
      const { statusCode, body } = await pool.request({ path, method: "GET", headers: fields });
      await body.dump();
      if (statusCode >= 500) throw new Error(`${name} answered ${statusCode}`);
    }
  };
  const from = performance.now();
  await Promise.all(Array.from({ length: connections }, visitor));
  const tookMs = performance.now() - from;
  await pool.close();
  return (requestsPerRound * 1000) / tookMs;
}

/** CPU time of a process so far. */
export async function cpuMicroseconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const [user = "0", system = "0"] = stat
    .slice(stat.lastIndexOf(")") + 2)
    .split(" ")
    .slice(11, 13);
  return ((Number(user) + Number(system)) * 1_000_000) / ticksPerSecond;
}

/** Keeps a process and whatever it starts from now on to one core. */
export const pin = (pid: number, core: number): void =>
  void runProgramSync(argv("taskset", "--all-tasks", "--cpu-list", "--pid", String(core), String(pid)));
