import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import type { Engine } from "../engine/engine.ts";
import { dockerfileProblem } from "../engine/floors.ts";
import type { Log } from "../log.ts";

/** Watches whether the container engine answers at all. */
export interface EngineWatch {
  /** It has not answered for a while: nothing new can be started, and what ended is not started again. */
  isStalled(): boolean;
  /** Why it must not build users' Dockerfiles, as it does not before it has said what it is; null when it may. */
  dockerfileProblem(): string | null;
  /** Asks from time to time, until the signal aborts. */
  watch(signal: AbortSignal): Promise<void>;
}

const usualLookMs = 5_000;
/** An engine that is restarted answers again within this time. */
const stalledAfterMs = 20_000;
const unknown = "the container engine has not said yet what it is";

export function createEngineWatch({
  clock,
  engine,
  log,
}: {
  clock: Clock;
  engine: Pick<Engine, "describe">;
  log: Log;
}): EngineWatch {
  let answeredAtMs = clock.steadyMs();
  let isStalled = false;
  let problem: string | null = unknown;
  const note = (found: boolean, reason: string): void => {
    if (found !== isStalled)
      log.warn({ stalled: found, reason }, found ? "the container engine does not answer" : "the engine answers again");
    isStalled = found;
  };
  const noteProblem = (found: string | null): void => {
    // That it may, said for the first time, is no news.
    if (found !== problem && !(found === null && problem === unknown))
      log.warn({ reason: found }, found === null ? "users' Dockerfiles are built" : "users' Dockerfiles are not built");
    problem = found;
  };
  const look = async (): Promise<void> => {
    try {
      noteProblem(dockerfileProblem(await engine.describe()));
      answeredAtMs = clock.steadyMs();
      note(false, "");
    } catch (cause) {
      if (clock.steadyMs() - answeredAtMs >= stalledAfterMs) note(true, String(cause));
    }
  };
  return {
    // A call that hangs has its own deadline; until then the time that has passed says it.
    isStalled: () => isStalled || clock.steadyMs() - answeredAtMs >= stalledAfterMs + usualLookMs,
    dockerfileProblem: () => problem,
    async watch(signal) {
      while (!signal.aborted) {
        await look();
        await pause(clock, usualLookMs, signal);
      }
    },
  };
}
