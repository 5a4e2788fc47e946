import type { Clock } from "@svc/runtime/clock";
import { createLimiter } from "@svc/runtime/limiter";
import { pause } from "@svc/runtime/sleep";
import type { Container, Engine } from "../engine/engine.ts";
import type { Log } from "../log.ts";
import { devicesOf, heldOpenBytes, processesBeside } from "./held-open.ts";
import { layerOfProcess } from "./overlays.ts";
import { bytesBelow } from "./written.ts";

/** A container that may write so much and no more. */
export interface Writer {
  /** Name of the container. */
  name: string;
  storageMb: number;
  /** Ends it, and remembers why. */
  end(container: Container): Promise<void>;
}

export const usualLookMs = 5_000;
/** Looking takes this share of the time at most, however many files there are. */
const shareMax = 0.1;
/** So many are looked at together, on a machine that has other things to do. */
const looksAtOnce = 2;
const mb = 1024 * 1024;

/** How long after a look of `tookMs` the next one comes. */
export const pauseMs = (tookMs: number, everyMs: number): number => Math.max(everyMs, tookMs / shareMax - tookMs);

/**
 * Looks every `everyMs` at what each container holds on the disk, until the signal aborts, and has those ended that hold
 * too much. A few are looked at together: one with millions of files keeps no other waiting.
 */
export async function watchStorage(options: {
  clock: Clock;
  engine: Pick<Engine, "findContainer" | "describe">;
  writers(): readonly Writer[];
  everyMs: number;
  signal: AbortSignal;
  log: Log;
}): Promise<void> {
  const { clock, engine, everyMs, signal, log } = options;
  const inTurn = createLimiter({ total: looksAtOnce });
  /** When each is looked at next; `Infinity` while somebody looks. */
  const dueAtMs = new Map<string, number>();

  const look = async ({ name, storageMb, end }: Writer, engineDir: string): Promise<void> => {
    let tookMs = 0;
    dueAtMs.set(name, Number.POSITIVE_INFINITY);
    try {
      const enough = storageMb * mb;
      const [container, held] = await inTurn(
        async () => {
          // Waiting for others is no work of its own, and puts nothing off.
          const startedMs = clock.steadyMs();
          try {
            const found = await engine.findContainer(name);
            return [found, found === null ? 0 : await heldBytes(found, engineDir, enough)] as const;
          } finally {
            tookMs = clock.steadyMs() - startedMs;
          }
        },
        { signal },
      );
      if (container === null || held <= enough || signal.aborted) return;
      log.warn({ container: name, storageMb }, "a container wrote more than it may");
      await end(container);
    } catch (cause) {
      if (!signal.aborted) log.warn({ container: name, reason: String(cause) }, "what a container wrote is not known");
    } finally {
      dueAtMs.set(name, clock.steadyMs() + pauseMs(tookMs, everyMs));
    }
  };

  const lookAll = async (due: readonly Writer[]): Promise<void> => {
    try {
      const { rootDir } = await engine.describe();
      for (const writer of due) void look(writer, rootDir);
    } catch (cause) {
      if (!signal.aborted) log.warn({ reason: String(cause) }, "what containers wrote is not known");
    }
  };

  while (!signal.aborted) {
    const writers = options.writers();
    const names = new Set(writers.map(({ name }) => name));
    for (const name of dueAtMs.keys()) if (!names.has(name)) dueAtMs.delete(name);
    const due = writers.filter(({ name }) => (dueAtMs.get(name) ?? 0) <= clock.steadyMs());
    if (due.length > 0) await lookAll(due);
    await pause(clock, everyMs, signal);
  }
}

/** Bytes on the disk that go with a running container: its own layer, its volumes, and files without a name. */
async function heldBytes({ pid, volumes }: Container, engineDir: string, enough: number): Promise<number> {
  if (pid === null) return 0;
  const layer = await layerOfProcess(pid, engineDir);
  const directories = layer === null ? volumes : [layer, ...volumes];
  let sum = 0;
  for (const directory of directories) {
    sum += (await bytesBelow(directory, enough - sum, "blocks")) ?? 0;
    if (sum > enough) return sum;
  }
  const devices = await devicesOf([`/proc/${pid}/root/`, ...directories]);
  return sum + (await heldOpenBytes(await processesBeside(pid), devices, enough - sum));
}
