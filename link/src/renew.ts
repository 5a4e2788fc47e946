import { backoffMs } from "./backoff.ts";
import { belongsToKey, certificateLife, certificateName, createKeyAndRequest } from "./certificate.ts";
import { type Identity, saveIdentity } from "./identity.ts";
import type { LinkLog } from "./log.ts";
import { createWish, type Wish } from "./wish.ts";

/** Also the longest sleep, so that a suspended machine notices an approaching end soon after it wakes. */
const LOOK_EVERY_MS = 60 * 60 * 1000;
const LONGEST_PAUSE_MS = 10 * 60 * 1000;
const CALL_TIMEOUT_MS = 30_000;

type Life = { fromMs: number; untilMs: number };

/**
 * When to renew: a random instant between 50 and 80 % of the certificate's life, so that a fleet
 * enrolled together does not renew together.
 *
 * @param random in [0, 1)
 */
export function renewAtMs(life: Life, random: number): number {
  return life.fromMs + (life.untilMs - life.fromMs) * (0.5 + 0.3 * random);
}

/** Less than a quarter is left: every renewal so far has failed, and somebody has to look why. */
const LATE_SHARE = 0.75;

/** How much of its life a certificate has left, in the words that its failing renewals are told with. */
export function renewalUrgency({ fromMs, untilMs }: Life, nowMs: number): "in time" | "late" | "over" {
  if (nowMs >= untilMs) return "over";
  return nowMs >= fromMs + (untilMs - fromMs) * LATE_SHARE ? "late" : "in time";
}

const failures = {
  "in time": "renewal failed",
  late: "renewal keeps failing: once this certificate is over, control refuses this daemon",
  over: "renewal failed, and the certificate is over",
} as const;

/**
 * Keeps the certificate fresh until `signal` aborts. Each renewal uses a new key, is on disk before it is
 * announced through `onRenewed`, and leaves the old identity in force when it fails.
 */
export async function renewLoop(options: {
  dir: string;
  identity: Identity;
  /** The RenewCertificate call over the present identity. */
  renew(csr: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<{ certificateChain: string; ca: string }>;
  /** Control's wish for a renewal before its time. */
  wanted?: Wish;
  /** What is opened from here on has to use the new certificate, and what is open be opened again. */
  onRenewed(identity: Identity): void;
  signal: AbortSignal;
  log: LinkLog;
}): Promise<void> {
  const { dir, wanted = createWish(), signal, log } = options;
  let identity = options.identity;
  let attempt = 0;
  let dueMs = renewAtMs(certificateLife(identity.certificatePem), Math.random());
  while (!signal.aborted) {
    const waitMs = dueMs - Date.now();
    if (waitMs > 0 && !(await wanted.wait(Math.min(waitMs, LOOK_EVERY_MS), signal))) continue;
    try {
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
      const life = certificateLife(identity.certificatePem);
      const reason = cause instanceof Error ? cause.message : String(cause);
      const validUntil = new Date(life.untilMs).toISOString();
      log.warn({ attempt, pauseMs, validUntil, reason }, failures[renewalUrgency(life, Date.now())]);
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
