/**
 * Loaded into control before its own code (`node --import`): tells over a Unix socket how late its event loop is, and
 * takes processor profiles. Commands and answers are one line each.
 */
import { rmSync, writeFileSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { createServer } from "node:net";
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import { createInterface } from "node:readline";

const path = process.env["SVC_BENCH_PROBE"];
const resolutionMs = 10;

function serve(socketPath: string): void {
  const delays = monitorEventLoopDelay({ resolution: resolutionMs });
  delays.enable();
  let usage = performance.eventLoopUtilization();
  let profiler: Session | null = null;

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
      default:
        return { error: `unknown command ${command}` };
    }
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

// Other commands of control inherit the setting and have nothing to tell.
if (path !== undefined && process.argv[2] === "serve") serve(path);
