import { randomBytes } from "node:crypto";
import { readIfThere, writeDurably } from "@svc/runtime/durable-file";

/** The secret kept in the file; the first time, what `make` gives. */
export async function keptSecret(path: string, make: () => string): Promise<string> {
  const kept = await readIfThere(path);
  if (kept !== null && kept.trim() !== "") return kept.trim();
  const secret = make();
  await writeDurably(path, `${secret}\n`);
  return secret;
}

/** Letters and digits only, so that it may stand in URLs and files unescaped. */
export const randomText = (bytes: number) => randomBytes(bytes).toString("hex");
