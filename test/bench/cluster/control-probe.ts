/**
 * Loaded into control before its own code (`node --import`): tells over a Unix socket how late its event loop is, and
 * takes processor profiles and heap snapshots. Commands and answers are one line each.
 */
import { rmSync, writeFileSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { createServer } from "node:net";
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import { createInterface } from "node:readline";
import { getHeapStatistics, setFlagsFromString, writeHeapSnapshot } from "node:v8";
import { runInNewContext } from "node:vm";
import pg from "pg";

const path = process.env["SVC_BENCH_PROBE"];
const resolutionMs = 10;

function serve(socketPath: string): void {
  const delays = monitorEventLoopDelay({ resolution: resolutionMs });
  delays.enable();
  let usage = performance.eventLoopUtilization();
  let profiler: Session | null = null;

  const statements = countStatements();

  /** A timer that is not late fires `resolutionMs` after the last one. */
  const late = (nanoseconds: number) => Math.max(0, nanoseconds / 1e6 - resolutionMs);

  async function answer(command: string, argument: string): Promise<unknown> {
    switch (command) {
      case "lag": {
        const now = performance.eventLoopUtilization();
        const reply = {
          count: delays.count,
          p50: late(delays.percentile(50)),
          p99: late(delays.percentile(99)),
          max: late(delays.max),
          busy: performance.eventLoopUtilization(now, usage).utilization,
          heapMb: process.memoryUsage().heapUsed / 1024 ** 2,
        };
        delays.reset();
        usage = now;
        return reply;
      }
      case "profile-start":
        profiler = new Session();
        profiler.connect();
        await profiler.post("Profiler.enable");
        await profiler.post("Profiler.setSamplingInterval", { interval: 1_000 });
        await profiler.post("Profiler.start");
        return {};
      case "profile-stop": {
        if (profiler === null) return {};
        const { profile } = await profiler.post("Profiler.stop");
        writeFileSync(argument, JSON.stringify(profile), { mode: 0o600 });
        profiler.disconnect();
        profiler = null;
        return {};
      }
      case "memory": {
        // Twice: what the first frees of weak references and finalizers, the second takes away.
        if (argument === "collected") for (let round = 0; round < 2; round += 1) collect();
        const { rss, heapTotal, heapUsed, external, arrayBuffers } = process.memoryUsage();
        const mb = (bytes: number) => bytes / 1024 ** 2;
        return {
          ...{ rssMb: mb(rss), heapTotalMb: mb(heapTotal), heapUsedMb: mb(heapUsed) },
          ...{ externalMb: mb(external), arrayBuffersMb: mb(arrayBuffers) },
          mallocedMb: mb(getHeapStatistics().malloced_memory),
        };
      }
      case "statements": {
        const since = Object.fromEntries(statements);
        statements.clear();
        return since;
      }
      case "snapshot":
        writeHeapSnapshot(argument);
        return {};
      default:
        return { error: `unknown command ${command}` };
    }
  }

  /** A full collection, whatever flags control was started with. */
  function collect(): void {
    setFlagsFromString("--expose-gc");
    runInNewContext("gc")();
  }

  rmSync(socketPath, { force: true });
  const server = createServer((socket) => {
    socket.on("error", () => {});
    createInterface({ input: socket }).on("line", (line) => {
      const [command = "", argument = ""] = line.split(" ");
      answer(command, argument)
        .catch((error: unknown) => ({ error: String(error) }))
        .then((reply) => socket.write(`${JSON.stringify(reply)}\n`))
        .catch(() => {});
    });
  });
  server.on("error", () => {});
  server.listen(socketPath).unref();
}

/** How often each statement was sent to Postgres, by its text, whoever sent it. */
function countStatements(): Map<string, number> {
  const counts = new Map<string, number>();
  const { query } = pg.Client.prototype;
  pg.Client.prototype.query = function counted(this: pg.Client, ...args: unknown[]) {
    const [asked] = args as [string | { text?: string }];
    const text = typeof asked === "string" ? asked : (asked.text ?? "");
    counts.set(text, (counts.get(text) ?? 0) + 1);
    return (query as (...args: unknown[]) => unknown).apply(this, args);
  } as typeof query;
  return counts;
}

// Other commands of control inherit the setting and have nothing to tell.
if (path !== undefined && process.argv[2] === "serve") serve(path);
