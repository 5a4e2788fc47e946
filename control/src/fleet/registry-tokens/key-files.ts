import { randomBytes } from "node:crypto";
import { link, mkdir, readFile, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { isTokenPair } from "@svc/registry";
import { certifyTokenKey, createTokenKey } from "@svc/registry/token-key";
import { createDurably, isFileError, readIfThere } from "@svc/runtime/durable-file";

/** Nobody renews it: whoever wants another key makes one, and restarts registry and control with it. */
const validYears = 30;
/** For a registry whose clock is behind. */
const dayMs = 86_400_000;

/** What of the two files was made; nothing when they were there and fit. */
export type Made = "both" | "certificate" | "nothing";

/**
 * Makes the key that signs the registry's tokens and its certificate, unless both are there. A key is never replaced, and
 * the certificate is always made from the one that is there: so the two fit, however many make them at once and whatever
 * is cut short. Throws `BadTokenKey` when one of the files is something else.
 */
export async function ensureKeyFiles(
  { keyFile, certificateFile }: { keyFile: string; certificateFile: string },
  now: Date,
): Promise<Made> {
  const isNew = (await readIfThere(keyFile)) === null && (await place(keyFile, createTokenKey(), 0o600, link));
  const key = await readFile(keyFile, "utf8");
  const certificate = await readIfThere(certificateFile);
  if (certificate !== null && isTokenPair({ key, certificate })) return isNew ? "both" : "nothing";
  const notAfter = new Date(now);
  notAfter.setUTCFullYear(now.getUTCFullYear() + validYears);
  const made = await certifyTokenKey(key, { notBefore: new Date(now.getTime() - dayMs), notAfter });
  // One that somebody else has made meanwhile may be in a registry already, which knows the key by no other.
  const isPlaced = await place(certificateFile, made, 0o644, certificate === null ? link : rename);
  if (isNew) return "both";
  return isPlaced ? "certificate" : "nothing";
}

/** Writes a whole file aside and brings it to its place; false when `bring` finds it taken. */
async function place(
  path: string,
  text: string,
  mode: 0o600 | 0o644,
  bring: typeof link | typeof rename,
): Promise<boolean> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const aside = `${path}.${randomBytes(6).toString("hex")}`;
  try {
    await createDurably(aside, text, { mode });
    await bring(aside, path);
    return true;
  } catch (error) {
    if (isFileError(error, "EEXIST")) return false;
    throw error;
  } finally {
    await rm(aside, { force: true });
  }
}
