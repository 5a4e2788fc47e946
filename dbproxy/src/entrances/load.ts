import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Entrances, entranceFiles, entrances } from "@svc/proto/entrances";
import type { Log } from "../log.ts";

export const entrancesFile = (dir: string): string => join(dir, entranceFiles.entrances);
/** Ten thousand entrances have some 0.6. */
const fileMaxBytes = 4 * 1024 * 1024;

/**
 * A look at the file that the agent writes: what is to be in force. What cannot be read leaves that as it is; null as long as
 * there was never anything.
 */
export function createEntrancesReader({ dir, log }: { dir: string; log: Log }) {
  let current: Entrances | null = null;
  let seen: string | null = null;
  return async function readEntrances(): Promise<Entrances | null> {
    const text = await readFile(entrancesFile(dir), "utf8").catch(() => null);
    if (text === null || text === seen) return current;
    seen = text;
    try {
      if (text.length > fileMaxBytes) throw new Error(`it has more than ${fileMaxBytes} bytes`);
      current = entrances.parse(JSON.parse(text));
      log.info({ entrances: current.entrances.length }, "other entrances of apps are in force");
    } catch (err) {
      log.error({ err }, "the entrances of apps cannot be read: those in force stay");
    }
    return current;
  };
}
