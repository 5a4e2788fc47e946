import { connect } from "node:net";
import type { Route } from "@svc/proto/edge";
import type { Clock } from "@svc/runtime/clock";
import { run } from "@svc/runtime/command";
import { pause } from "@svc/runtime/sleep";
import type { Log } from "../log.ts";
import { isUpstream } from "../names.ts";
import { machineOf, machinesToAsk, nextSilence, silentMachines } from "./rules.ts";

const askEveryMs = 500;
const answerWithinMs = 400;
const asksAtOnce = 64;
const endWithinMs = 2_000;

/**
 * Whether a machine answers at all: a port that refuses is an answer, and costs a visitor no time, since Caddy then
 * asks another upstream at once. Only silence does.
 */
function answers(clock: Clock, upstream: string, timeoutMs: number): Promise<boolean> {
  const at = upstream.lastIndexOf(":");
  return new Promise((resolve) => {
    const socket = connect({
      host: upstream.slice(0, at).replace(/^\[|\]$/g, ""),
      port: Number(upstream.slice(at + 1)),
    });
    const settle = (isThere: boolean) => {
      timer[Symbol.dispose]();
      socket.destroy();
      resolve(isThere);
    };
    // After a stall of this process the answer may have come in time and just not been looked at.
    const timer = clock.after(timeoutMs, () => clock.soon(() => settle(false)));
    socket.once("connect", () => settle(true));
    socket.once("error", (error: NodeJS.ErrnoException) =>
      settle(error.code === "ECONNREFUSED" || error.code === "ECONNRESET"),
    );
  });
}

/**
 * Ends this machine's connections to upstreams of another one that is silent, as far as the system allows it: a request
 * that waits on one would wait for minutes, and Caddy gives it to another upstream when it breaks. Only what is an
 * address and a port: `ss` takes words for everything.
 */
async function endConnections(upstreams: readonly string[], log: Log): Promise<void> {
  for (const upstream of upstreams.filter(isUpstream)) {
    try {
      await run(["ss", "-K", "dst", upstream], { timeoutMs: endWithinMs });
    } catch (err) {
      log.info({ upstream, err }, "connections to a silent machine were left to end by themselves");
      return;
    }
  }
}

/** Whether any of a machine's upstreams gives any answer. */
async function isThere(clock: Clock, upstreams: readonly string[]): Promise<boolean> {
  const results = await Promise.all(upstreams.map((upstream) => answers(clock, upstream, answerWithinMs)));
  return results.includes(true);
}

/** Asks all machines, so many at once: one that is silent takes its place until its time is over, and no more. */
async function askAll(clock: Clock, machines: ReadonlyMap<string, readonly string[]>): Promise<Map<string, boolean>> {
  const answered = new Map<string, boolean>();
  const left = machines.entries();
  const worker = async (): Promise<void> => {
    for (const [machine, upstreams] of left) answered.set(machine, await isThere(clock, upstreams));
  };
  await Promise.all(Array.from({ length: Math.min(asksAtOnce, machines.size) }, worker));
  return answered;
}

/** Asks the machines of sites with several upstreams, all the time, whether they are there. */
export async function watchReach(options: {
  routes: () => Iterable<Route>;
  /** Called with the machines that are silent, whenever these change. */
  onChange: (silent: ReadonlySet<string>) => void;
  signal: AbortSignal;
  clock: Clock;
  log: Log;
}): Promise<void> {
  const { signal, clock, log } = options;
  let silence = new Map<string, number>();
  let silent = new Set<string>();
  for (let round = 0; !signal.aborted; round += 1) {
    const routes = [...options.routes()];
    const answered = await askAll(clock, machinesToAsk(routes, round));
    if (signal.aborted) return;
    silence = nextSilence(silence, answered);
    const now = silentMachines(silence);
    const lost = [...now].filter((machine) => !silent.has(machine));
    const back = [...silent].filter((machine) => !now.has(machine));
    silent = now;
    if (lost.length + back.length > 0) {
      log.warn({ lost, back }, "machines that answer");
      options.onChange(now);
      const gone = new Set(lost);
      const upstreams = routes.flatMap(({ target }) => (target.case === "proxy" ? target.value.upstreams : []));
      await endConnections(
        [...new Set(upstreams)].filter((each) => gone.has(machineOf(each))),
        log,
      );
    }
    await pause(clock, askEveryMs, signal);
  }
}
