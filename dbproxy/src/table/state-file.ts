import { join } from "node:path";
import { type DatabaseProxyState, databaseProxyFiles } from "@svc/proto/database-proxy";
import { readIfThere, writeDurably } from "@svc/runtime/durable-file";

/** Writes what a process says of itself, unless the file says so already: a process that takes over has it to itself later only. */
export async function writeState(dir: string, state: DatabaseProxyState): Promise<void> {
  const path = join(dir, databaseProxyFiles.state);
  const text = `${JSON.stringify(state)}\n`;
  if ((await readIfThere(path)) !== text) await writeDurably(path, text, { mode: 0o644 });
}
