import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import type { Container, Engine } from "./engine/engine.ts";
import type { Log } from "./log.ts";
import type { IsolationGuard } from "./network/iptables.ts";

const surveyEveryMs = 30_000;
const reconnectMs = 1_000;

/**
 * Follows the engine's events, and looks at everything every 30 s besides, since an event can be lost. The
 * survey also puts back what other programs change on the host, such as firewall rules.
 */
export async function watchEngine(options: {
  clock: Clock;
  engine: Engine;
  onContainer(name: string): void;
  survey(containers: readonly Container[]): Promise<void>;
  /** Called after every survey, whatever came of it. */
  onTurn?(): void;
  isolation: IsolationGuard;
  signal: AbortSignal;
  log: Log;
}): Promise<void> {
  const { clock, engine, signal, log } = options;

  const attempt = async (failed: string, work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (cause) {
      if (!signal.aborted) log.error({ err: cause }, failed);
    }
  };
  const survey = async (): Promise<void> => {
    await attempt("the node's rules could not be put back", () => options.isolation.assert());
    await attempt("the node could not be surveyed", async () => options.survey(await engine.listContainers()));
  };
  const surveyLoop = async (): Promise<void> => {
    while (!signal.aborted) {
      await pause(clock, surveyEveryMs, signal);
      if (!signal.aborted) await survey();
      options.onTurn?.();
    }
  };
  const eventLoop = async (): Promise<void> => {
    while (!signal.aborted) {
      try {
        // What happened while nobody listened is found by looking.
        await engine.followEvents(
          (event) => options.onContainer(event.name),
          () => void survey(),
          signal,
        );
      } catch (cause) {
        if (!signal.aborted) log.warn({ reason: String(cause) }, "the engine's events broke off");
      }
      await pause(clock, reconnectMs, signal);
    }
  };
  await Promise.all([surveyLoop(), eventLoop()]);
}
