import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { readIfThere } from "@svc/runtime/durable-file";
import { z } from "zod";
import { endProcess, isAlive } from "./process-id.ts";

const record = z.object({
  pid: z.int().positive(),
  startTicks: z.string().nullable(),
  stopSignal: z.enum(["SIGTERM", "SIGINT", "SIGQUIT"]).default("SIGTERM"),
});

const graceMs = 10_000;

/**
 * Ends the programs that an earlier supervisor in this directory started and could not stop. Only a
 * process whose start time is the recorded one is touched. Returns the names of those that were ended.
 */
export async function endLeftovers(clock: Clock, runRecords: string): Promise<string[]> {
  const files = (await readdir(runRecords).catch(() => [])).filter((name) => name.endsWith(".json"));
  const ended = await Promise.all(
    files.map(async (name) => {
      const path = join(runRecords, name);
      const result = record.safeParse(parse((await readIfThere(path)) ?? ""));
      const alive = result.success && isAlive(result.data);
      if (alive) await endProcess(clock, result.data, graceMs, result.data.stopSignal);
      await rm(path, { force: true });
      return alive ? name.slice(0, -".json".length) : null;
    }),
  );
  return ended.filter((name) => name !== null);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
