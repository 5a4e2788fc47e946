import { randomBytes } from "node:crypto";
import { open, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { hasCode, syncDirectory } from "../durable-file.ts";
import type { Log } from "../log.ts";

/** Which projects used which bundle, and when last: bundle -> project -> milliseconds since 1970. */
export type BundleUses = Map<string, Map<string, number>>;

const stored = z.record(z.string(), z.record(z.string(), z.number()));

/** What was written last. Nothing is lost with it but knowledge of what is worth keeping. */
export async function readUses(path: string, log: Log): Promise<BundleUses> {
  try {
    const uses = stored.parse(JSON.parse(await readFile(path, "utf8")));
    return new Map(Object.entries(uses).map(([bundle, byProject]) => [bundle, new Map(Object.entries(byProject))]));
  } catch (err) {
    if (!hasCode(err, "ENOENT")) log.warn({ err }, "what bundles were used for is not known");
    return new Map();
  }
}

/** Replaces the file as a whole. */
export async function writeUses(path: string, uses: BundleUses): Promise<void> {
  const text = JSON.stringify(
    Object.fromEntries([...uses].map(([bundle, byProject]) => [bundle, Object.fromEntries(byProject)])),
  );
  const temporary = join(dirname(path), `.uses.${randomBytes(6).toString("hex")}`);
  try {
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
    await syncDirectory(dirname(path));
  } catch (cause) {
    await rm(temporary, { force: true });
    throw cause;
  }
}
