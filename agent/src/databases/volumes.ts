import type { Clock } from "@svc/runtime/clock";
import { runLoop } from "@svc/runtime/loop";
import { createWake } from "@svc/runtime/wake";
import type { Engine } from "../engine/engine.ts";
import type { PlacementRecord } from "../journal/records.ts";
import type { Log } from "../log.ts";
import { neededVolumes } from "./needed.ts";

/** The volumes of databases and copies on this node: control hears which there are, and says which are to go. */
export interface Volumes {
  /** Takes control's whole word on volumes that are of no use any more. */
  take(names: readonly string[]): void;
  /** Control may think otherwise by the time it is heard again: until then nothing goes. */
  forget(): void;
  /** Removes and reports until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

const lookEveryMs = 60_000;

export function createVolumes(options: {
  clock: Clock;
  engine: Pick<Engine, "listDatabaseVolumes" | "removeDatabaseVolume">;
  list(): PlacementRecord[];
  /** Every volume that there is, by its name. */
  report(names: string[]): Promise<void>;
  log: Log;
}): Volumes {
  const { clock, engine, log } = options;
  const wake = createWake(clock);
  let useless: ReadonlySet<string> = new Set();

  const present = async (): Promise<string[]> => (await engine.listDatabaseVolumes()).map(({ name }) => name).sort();

  const remove = async (name: string): Promise<void> => {
    try {
      if (await engine.removeDatabaseVolume(name)) log.info({ volume: name }, "volume of a database removed");
      else log.warn({ volume: name }, "a volume that is to go stays: a container has it");
    } catch (cause) {
      log.warn({ err: cause, volume: name }, "a volume that is to go could not be removed");
    }
  };

  const look = async (signal: AbortSignal): Promise<void> => {
    for (const name of await present()) {
      if (signal.aborted) return;
      // Asked of each just before, since removing the one before took its time.
      if (!useless.has(name)) continue;
      if (neededVolumes(options.list()).has(name))
        log.warn({ volume: name }, "a volume that is to go stays: it is needed");
      else await remove(name);
    }
    const names = await present();
    await options
      .report(names)
      .catch((cause: unknown) => log.debug({ reason: String(cause) }, "a report of volumes was dropped"));
  };

  return {
    take(names) {
      useless = new Set(names);
      wake.signal();
    },
    forget() {
      useless = new Set();
    },
    run: (signal) =>
      runLoop(
        {
          ...{ clock, wake, periodMs: lookEveryMs, signal },
          onError: (cause) => log.warn({ err: cause }, "the volumes of databases cannot be looked at"),
        },
        () => look(signal),
      ),
  };
}
