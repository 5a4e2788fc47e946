import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { type BackOff, backOffMs } from "@svc/runtime/retry";
import { createWake, type Wake } from "@svc/runtime/wake";
import { belongsToKey, certificateLife, certificateName, createKeyAndRequest } from "./certificate.ts";
import { type Identity, saveIdentity } from "./identity.ts";
import type { LinkLog } from "./log.ts";

/** Also the longest sleep, so that a suspended machine notices an approaching end soon after it wakes. */
const usualLookMs = 60 * 60 * 1000;
const backOff: BackOff = { firstMs: 100, maxMs: 10 * 60 * 1000 };
const callTimeoutMs = 30_000;

interface Life {
  fromMs: number;
  untilMs: number;
}

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
const lateShare = 0.75;

/** How much of its life a certificate has left, in the words that its failing renewals are told with. */
export function renewalUrgency({ fromMs, untilMs }: Life, nowMs: number): "in time" | "late" | "over" {
  if (nowMs >= untilMs) return "over";
  return nowMs >= fromMs + (untilMs - fromMs) * lateShare ? "late" : "in time";
}

const warnings = {
  "in time": "renewal failed",
  late: "renewal keeps failing: once this certificate is over, control refuses this daemon",
  over: "renewal failed, and the certificate is over",
} as const;

/** What control answers; `entranceChain` only to nodes, and empty from one that knows nothing of it. */
interface Renewed {
  certificateChain: string;
  ca: string;
  entranceChain?: string;
}

/**
 * Keeps the certificate fresh until `signal` aborts. Each renewal uses a new key, is on disk before it is
 * announced through `onRenewed`, and leaves the old identity in force when it fails.
 */
export async function renewLoop(options: {
  clock: Clock;
  random: Random;
  dir: string;
  identity: Identity;
  /** The RenewCertificate call over the present identity. */
  renew(csr: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<Renewed>;
  /** Control's wish for a renewal before its time. */
  wanted?: Wake;
  /** What is opened from here on has to use the new certificate, and what is open be opened again. */
  onRenewed(identity: Identity): void;
  signal: AbortSignal;
  log: LinkLog;
}): Promise<void> {
  const { clock, random, dir, wanted = createWake(clock), signal, log } = options;
  let identity = options.identity;
  let failures = 0;
  let dueMs = renewAtMs(certificateLife(identity.certificatePem), random.next());
  while (!signal.aborted) {
    const waitMs = dueMs - clock.now().getTime();
    if (waitMs > 0 && !(await wanted.wait(Math.min(waitMs, usualLookMs), signal))) continue;
    try {
      identity = await renewOnce(clock, identity, options.renew, signal);
      await saveIdentity(dir, identity);
      failures = 0;
      dueMs = renewAtMs(certificateLife(identity.certificatePem), random.next());
      log.info({ dueAt: new Date(dueMs).toISOString() }, "certificate renewed");
      options.onRenewed(identity);
    } catch (cause) {
      if (signal.aborted) return;
      failures += 1;
      const pauseMs = 1_000 + backOffMs(failures, backOff, random.next());
      const nowMs = clock.now().getTime();
      dueMs = nowMs + pauseMs;
      const life = certificateLife(identity.certificatePem);
      const reason = cause instanceof Error ? cause.message : String(cause);
      const validUntil = new Date(life.untilMs).toISOString();
      log.warn({ attempt: failures, pauseMs, validUntil, reason }, warnings[renewalUrgency(life, nowMs)]);
    }
  }
}

async function renewOnce(
  clock: Clock,
  identity: Identity,
  renew: (csr: Uint8Array<ArrayBuffer>, signal: AbortSignal) => Promise<Renewed>,
  signal: AbortSignal,
): Promise<Identity> {
  const made = await createKeyAndRequest();
  const reply = await renew(made.csr, AbortSignal.any([signal, clock.abortAfter(callTimeoutMs)]));
  const name = certificateName(reply.certificateChain);
  const agrees =
    name?.id === identity.id &&
    name.clusterId === identity.clusterId &&
    name.incarnation === identity.incarnation &&
    belongsToKey(reply.certificateChain, made.privateKeyPem);
  if (!agrees) throw new Error("the renewed certificate is not for this identity and key");
  // The reply came over a connection that the present CA vouches for, so a new CA in it is genuine.
  const caPem = reply.ca === "" ? identity.caPem : reply.ca;
  const entrancePem = reply.entranceChain ?? "";
  if (entrancePem !== "" && !belongsToKey(entrancePem, made.privateKeyPem))
    throw new Error("the certificate for edges is not for this key");
  const pems = { certificatePem: reply.certificateChain, privateKeyPem: made.privateKeyPem, caPem, entrancePem };
  return { ...identity, ...pems };
}
