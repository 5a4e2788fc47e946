import { chmod, lstat, mkdir, utimes } from "node:fs/promises";
import { join } from "node:path";
import { type Gate, gateName } from "./gate.ts";

// A gate as this machine sees it: the directory of the volume, to which the engine is not needed. Making a file
// (exclusively) and making a directory are each one step of the file system, so that one of them is first.

/** Looking at gates, and shutting them. */
export interface Gates {
  /** Lets any user of the image in. Before the container is started, and never after. */
  open(directory: string): Promise<void>;
  read(directory: string): Promise<Exclude<Gate, "none">>;
  /** Shuts an open gate. What it is from then on. Throws when the disk does not let it. */
  shut(directory: string): Promise<Exclude<Gate, "none">>;
}

/** When nobody has been there: whoever makes or removes something changes it. */
const untouched = new Date(0);

export async function openGate(directory: string): Promise<void> {
  await chmod(directory, 0o777);
  await utimes(directory, untouched, untouched);
}

export async function readGate(directory: string): Promise<Exclude<Gate, "none">> {
  // In this order: what is claimed in between has changed the directory.
  const found = await stat(join(directory, gateName));
  if (found !== null) return found.isDirectory() ? "shut" : "claimed";
  const gate = await stat(directory);
  if (gate === null) return "gone";
  // A command that tidies up has taken its own claim away.
  return gate.mtimeMs === untouched.getTime() ? "open" : "claimed";
}

export async function shutGate(directory: string): Promise<Exclude<Gate, "none">> {
  const before = await readGate(directory);
  if (before !== "open") return before;
  try {
    await mkdir(join(directory, gateName));
    return "shut";
  } catch (cause) {
    if (isError(cause, "EEXIST") || isError(cause, "ENOENT")) return readGate(directory);
    throw cause;
  }
}

export const gateFiles: Gates = { open: openGate, read: readGate, shut: shutGate };

async function stat(path: string) {
  try {
    return await lstat(path);
  } catch (cause) {
    if (isError(cause, "ENOENT")) return null;
    throw cause;
  }
}

const isError = (cause: unknown, code: string): boolean => (cause as NodeJS.ErrnoException).code === code;
