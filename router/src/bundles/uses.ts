import { readFile } from "node:fs/promises";
import { isFileError, writeDurably } from "@svc/runtime/durable-file";
import { z } from "zod";
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
    if (!isFileError(err, "ENOENT")) log.warn({ err }, "what bundles were used for is not known");
    return new Map();
  }
}

/** Replaces the file as a whole. */
export async function writeUses(path: string, uses: BundleUses): Promise<void> {
  const text = JSON.stringify(
    Object.fromEntries([...uses].map(([bundle, byProject]) => [bundle, Object.fromEntries(byProject)])),
  );
  await writeDurably(path, text);
}
