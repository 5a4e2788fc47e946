import { setTimeout as delay } from "node:timers/promises";
import { backoffMs } from "./backoff.ts";
import { belongsToKey, certificateLife, certificateName, createKeyAndRequest } from "./certificate.ts";
import { type Identity, saveIdentity } from "./identity.ts";
import type { LinkLog } from "./log.ts";

/** Also the longest sleep, so that a suspended machine notices an approaching end soon after it wakes. */
const LOOK_EVERY_MS = 60 * 60 * 1000;
const LONGEST_PAUSE_MS = 10 * 60 * 1000;
const CALL_TIMEOUT_MS = 30_000;

/**
 * When to renew: a random instant between 50 and 80 % of the certificate's life, so that a fleet
 * enrolled together does not renew together.
 *
 * @param random in [0, 1)
 */
export function renewAtMs(life: { fromMs: number; untilMs: number }, random: number): number {
  return life.fromMs + (life.untilMs - life.fromMs) * (0.5 + 0.3 * random);
}

/**
 * Keeps the certificate fresh until `signal` aborts. Each renewal uses a new key, is on disk before it is
 * announced through `onRenewed`, and leaves the old identity in force when it fails.
 */
export async function renewLoop(options: {
  dir: string;
  identity: Identity;
  /** The RenewCertificate call over the present identity. */
  renew(csr: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<{ certificateChain: string; ca: string }>;
  onRenewed(identity: Identity): void;
  signal: AbortSignal;
  log: LinkLog;
}): Promise<void> {
  const { dir, signal, log } = options;
  let identity = options.identity;
  let attempt = 0;
  let dueMs = renewAtMs(certificateLife(identity.certificatePem), Math.random());
  while (!signal.aborted) {
    try {
      const waitMs = dueMs - Date.now();
      if (waitMs > 0) {
        await delay(Math.min(waitMs, LOOK_EVERY_MS), undefined, { signal });
        continue;
      }
      identity = await renewOnce(identity, options.renew, signal);
      await saveIdentity(dir, identity);
      attempt = 0;
      dueMs = renewAtMs(certificateLife(identity.certificatePem), Math.random());
      log.info({ dueAt: new Date(dueMs).toISOString() }, "certificate renewed");
      options.onRenewed(identity);
    } catch (cause) {
      if (signal.aborted) return;
      const pauseMs = 1_000 + backoffMs(attempt, Math.random(), LONGEST_PAUSE_MS);
      attempt += 1;
      dueMs = Date.now() + pauseMs;
      log.warn({ attempt, pauseMs, reason: cause instanceof Error ? cause.message : String(cause) }, "renewal failed");
    }
  }
}

async function renewOnce(
  identity: Identity,
  renew: (csr: Uint8Array<ArrayBuffer>, signal: AbortSignal) => Promise<{ certificateChain: string; ca: string }>,
  signal: AbortSignal,
): Promise<Identity> {
  const made = await createKeyAndRequest();
  const reply = await renew(made.csr, AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)]));
  const name = certificateName(reply.certificateChain);
  const agrees =
    name?.id === identity.id &&
    name.clusterId === identity.clusterId &&
    name.incarnation === identity.incarnation &&
    belongsToKey(reply.certificateChain, made.privateKeyPem);
  if (!agrees) throw new Error("the renewed certificate is not for this identity and key");
  // The reply came over a connection that the present CA vouches for, so a new CA in it is genuine.
  const caPem = reply.ca === "" ? identity.caPem : reply.ca;
  return { ...identity, certificatePem: reply.certificateChain, privateKeyPem: made.privateKeyPem, caPem };
}
