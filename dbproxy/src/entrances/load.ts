import { join } from "node:path";
import { type Entrances, entranceFiles, entrances } from "@svc/proto/entrances";
import type { Log } from "../log.ts";
import { createNewestReader } from "../newest-file.ts";

export const entrancesFile = (dir: string): string => join(dir, entranceFiles.entrances);
/** Ten thousand entrances have some 0.6. */
const fileMaxBytes = 4 * 1024 * 1024;

/** A look at the file that the agent writes: what is to be in force. Null as long as there was never anything. */
export function createEntrancesReader({ dir, log }: { dir: string; log: Log }): () => Promise<Entrances | null> {
  let current: Entrances | null = null;
  const look = createNewestReader({
    ...{ path: entrancesFile(dir), what: "entrances", bytesMax: fileMaxBytes, log },
    parse(text) {
      const wanted = entrances.parse(JSON.parse(text));
      return { generation: BigInt(wanted.generation), wanted };
    },
    inForce: () => (current === null ? null : BigInt(current.generation)),
    use({ wanted }) {
      current = wanted;
      log.info({ entrances: wanted.entrances.length }, "other entrances of apps are in force");
    },
  });
  return async () => {
    await look();
    return current;
  };
}
