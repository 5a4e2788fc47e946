import { setTimeout as delay } from "node:timers/promises";
import type { Engine } from "../engine/engine.ts";
import { dockerfileProblem } from "../engine/floors.ts";
import type { Log } from "../log.ts";

/** Watches whether the container engine answers at all. */
export type EngineWatch = {
  /** It has not answered for a while: nothing new can be started, and what ended is not started again. */
  isStalled(): boolean;
  /** Why it must not build users' Dockerfiles, as it does not before it has said what it is; null when it may. */
  dockerfileProblem(): string | null;
  /** Asks from time to time, until the signal aborts. */
  watch(signal: AbortSignal): Promise<void>;
};

const LOOK_EVERY_MS = 5_000;
/** An engine that is restarted answers again within this time. */
const STALLED_AFTER_MS = 20_000;
const UNKNOWN = "the container engine has not said yet what it is";

/** `nowMs` is a clock that does not go back. */
export function createEngineWatch({
  engine,
  nowMs,
  log,
}: {
  engine: Pick<Engine, "describe">;
  nowMs: () => number;
  log: Log;
}): EngineWatch {
  let answeredAtMs = nowMs();
  let isStalled = false;
  let problem: string | null = UNKNOWN;
  const note = (found: boolean, reason: string): void => {
    if (found !== isStalled)
      log.warn({ stalled: found, reason }, found ? "the container engine does not answer" : "the engine answers again");
    isStalled = found;
  };
  const noteProblem = (found: string | null): void => {
    // That it may, said for the first time, is no news.
    if (found !== problem && !(found === null && problem === UNKNOWN))
      log.warn({ reason: found }, found === null ? "users' Dockerfiles are built" : "users' Dockerfiles are not built");
    problem = found;
  };
  const look = async (): Promise<void> => {
    try {
      noteProblem(dockerfileProblem(await engine.describe()));
      answeredAtMs = nowMs();
      note(false, "");
    } catch (cause) {
      if (nowMs() - answeredAtMs >= STALLED_AFTER_MS) note(true, String(cause));
    }
  };
  return {
    // A call that hangs has its own deadline; until then the time that has passed says it.
    isStalled: () => isStalled || nowMs() - answeredAtMs >= STALLED_AFTER_MS + LOOK_EVERY_MS,
    dockerfileProblem: () => problem,
    async watch(signal) {
      while (!signal.aborted) {
        await look();
        await delay(LOOK_EVERY_MS, undefined, { signal }).catch(() => {});
      }
    },
  };
}
