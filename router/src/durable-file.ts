import { open } from "node:fs/promises";

/** Makes renames and new names in a directory last. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** Whether `cause` is a file system error with this code. */
export const hasCode = (cause: unknown, ...codes: string[]): boolean =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string" && codes.includes(cause.code);
