import { join } from "node:path";
import { readIfThere, writeDurably } from "@svc/runtime/durable-file";

/** Writes what a process says of itself, unless the file says so already: a process that takes over has it to itself later only. */
export async function writeState(dir: string, name: string, state: object): Promise<void> {
  const path = join(dir, name);
  const text = `${JSON.stringify(state)}\n`;
  if ((await readIfThere(path)) !== text) await writeDurably(path, text, { mode: 0o644 });
}
