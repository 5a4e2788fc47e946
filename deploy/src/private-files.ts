import { randomBytes } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/** Writes the whole file or nothing, readable by its owner only. */
export async function writePrivate(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const aside = `${path}.${randomBytes(6).toString("hex")}`;
  await writeFile(aside, text, { mode: 0o600, flag: "wx" });
  await rename(aside, path);
}

/** The file's text, or null when there is none. */
export async function readIfThere(path: string): Promise<string | null> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return null;
    throw error;
  }
}

/** The secret kept in the file; the first time, what `make` gives. */
export async function keptSecret(path: string, make: () => string): Promise<string> {
  const kept = await readIfThere(path);
  if (kept !== null && kept.trim() !== "") return kept.trim();
  const secret = make();
  await writePrivate(path, `${secret}\n`);
  return secret;
}

/** Letters and digits only, so that it may stand in URLs and files unescaped. */
export const randomText = (bytes: number) => randomBytes(bytes).toString("hex");
