import { rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { readIfThere, syncDirectory } from "@svc/runtime/durable-file";
import type { Random } from "@svc/runtime/random";
import { sleep } from "@svc/runtime/sleep";
import { certificateLife } from "./certificate.ts";
import { type Identity, identityFile, loadIdentity } from "./identity.ts";
import { JoinRefusedError, joinCluster } from "./join.ts";
import type { LinkLog } from "./log.ts";

/** Where the next identity waits until it takes the place of the present one. */
const nextName = "next";
const usualLookMs = 60_000;
const usualTokenMs = 5_000;

/**
 * Waits until the certificate in `dir` is over, and then for a bootstrap token with which this daemon joins anew, under
 * another id. An expired certificate cannot be renewed: control has nothing else to know the daemon by, and a disk that
 * was lost long ago would open the door again. The new identity is kept beside the old one, which stays in force until
 * `takeNextIdentity`; after a crash the same one comes back. Resolves to null when `signal` aborts.
 */
export async function nextIdentity(options: {
  clock: Clock;
  random: Random;
  dir: string;
  enrollUrls: readonly string[];
  /** Null: none is configured, so a person has to start this daemon with one. */
  tokenFile: string | null;
  proposedName: string;
  signal: AbortSignal;
  log: LinkLog;
  /** Shorter waits, for tests. */
  lookEveryMs?: number;
  tokenEveryMs?: number;
}): Promise<Identity | null> {
  const { clock, dir, tokenFile, signal, log, lookEveryMs = usualLookMs, tokenEveryMs = usualTokenMs } = options;
  try {
    const over = await whenOver(clock, dir, lookEveryMs, signal);
    const nextDir = join(dir, nextName);
    const kept = await loadIdentity(nextDir);
    if (kept !== null && !isOver(kept, clock.now())) return kept;
    // Nobody fenced the old one in all that time.
    if (kept !== null) await rm(nextDir, { recursive: true, force: true });
    log.warn(
      { id: over.identity.id, over: new Date(over.untilMs).toISOString() },
      `the certificate of this daemon is over, so control refuses it. What it runs goes on. To bring it back: fence or remove it, and put a new bootstrap token ${tokenFile === null ? "into the file that SVC_BOOTSTRAP_TOKEN_FILE is to name" : `into ${tokenFile}`}`,
    );
    let refused: string | null = null;
    for (;;) {
      const token = tokenFile === null ? null : await freshToken(tokenFile, over.issuedMs);
      if (token !== null && token !== refused) {
        try {
          return await joinCluster({ ...options, dir: nextDir, token });
        } catch (cause) {
          if (!(cause instanceof JoinRefusedError)) throw cause;
          log.warn({ reason: cause.message }, "the bootstrap token was refused: put another into its file");
          refused = token;
        }
      }
      await sleep(clock, tokenEveryMs, signal);
    }
  } catch (cause) {
    if (signal.aborted) return null;
    throw cause;
  }
}

/** Puts the identity that `nextIdentity` found in the place of the present one. Safe to repeat. */
export async function takeNextIdentity(dir: string): Promise<void> {
  const nextDir = join(dir, nextName);
  if ((await loadIdentity(nextDir)) !== null) {
    await rename(identityFile(nextDir), identityFile(dir));
    await syncDirectory(dir);
  }
  await rm(nextDir, { recursive: true, force: true });
}

/** Whether the certificate has ended: control refuses it. */
export const isOver = ({ certificatePem }: Pick<Identity, "certificatePem">, now: Date): boolean =>
  now.getTime() >= certificateLife(certificatePem).untilMs;

/** Certificates are backdated by this much, so it is when they were issued. */
const backdatedMs = 60 * 60 * 1000;

async function whenOver(clock: Clock, dir: string, everyMs: number, signal: AbortSignal) {
  for (;;) {
    signal.throwIfAborted();
    // Renewals meanwhile are in the file.
    const identity = await loadIdentity(dir);
    if (identity !== null) {
      const { fromMs, untilMs } = certificateLife(identity.certificatePem);
      if (isOver(identity, clock.now())) return { identity, untilMs, issuedMs: fromMs + backdatedMs };
    }
    await sleep(clock, everyMs, signal);
  }
}

/** The token in the file, if it was put there after the certificate was issued: an older one has been used. */
async function freshToken(path: string, issuedMs: number): Promise<string | null> {
  try {
    if ((await stat(path)).mtimeMs <= issuedMs) return null;
    const token = (await readIfThere(path))?.trim() ?? "";
    return token === "" ? null : token;
  } catch {
    // It may be put there later, or be readable later.
    return null;
  }
}
