import { readIfThere } from "@svc/runtime/durable-file";
import { z } from "zod";
import { isAlive, type ProcessId } from "./process-id.ts";

const record = z.object({ pid: z.int().positive(), startTicks: z.string().nullable() });

/** The living process that keeps a platform running, as its supervisor file names it; null when there is none. */
export async function findSupervisor(file: string): Promise<ProcessId | null> {
  const text = await readIfThere(file);
  if (text === null) return null;
  const result = record.safeParse(JSON.parse(text));
  return result.success && isAlive(result.data) ? result.data : null;
}
