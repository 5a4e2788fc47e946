import { randomUUID } from "node:crypto";
import { access, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { createTokenKey } from "@svc/registry/token-key";

/** Nobody renews it: whoever wants another key makes one, and restarts registry and control with it. */
const validYears = 30;
/** For a registry whose clock is behind. */
const dayMs = 86_400_000;

/**
 * Makes the key that signs the registry's tokens and its certificate, unless both are there. False when they are. The
 * certificate is written last and goes first, so that a pair of files always fits, whatever was cut short.
 */
export async function ensureKeyFiles(
  { keyFile, certificateFile }: { keyFile: string; certificateFile: string },
  now: Date,
): Promise<boolean> {
  if ((await isThere(keyFile)) && (await isThere(certificateFile))) return false;
  const notAfter = new Date(now);
  notAfter.setUTCFullYear(now.getUTCFullYear() + validYears);
  const made = await createTokenKey({ notBefore: new Date(now.getTime() - dayMs), notAfter });
  await rm(certificateFile, { force: true });
  await writeWhole(keyFile, made.key, 0o600);
  await writeWhole(certificateFile, made.certificate, 0o644);
  return true;
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

async function writeWhole(path: string, text: string, mode: number): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const aside = `${path}.${randomUUID()}`;
  await writeFile(aside, text, { mode, flag: "wx" });
  await rename(aside, path);
}
