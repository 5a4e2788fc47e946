import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { EnrollmentService, type JoinResponse, DaemonRole as WireRole } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { readIfThere, writeDurably } from "@svc/runtime/durable-file";
import type { Random } from "@svc/runtime/random";
import { backOffMs } from "@svc/runtime/retry";
import { sleep } from "@svc/runtime/sleep";
import { CaMismatchError, fetchPinnedCa } from "./ca-pin.ts";
import { belongsToKey, certificateName, createKeyAndRequest, type KeyAndRequest } from "./certificate.ts";
import { createEndpoints, linkBackOff, roundsFailed } from "./endpoints.ts";
import { type Identity, loadIdentity, saveIdentity } from "./identity.ts";
import type { LinkLog } from "./log.ts";
import { parseToken } from "./token.ts";
import { createEnrollTransport } from "./transport.ts";

/** Enrolment cannot succeed by trying again: a wrong, used or expired token, or the wrong server. */
export class JoinRefusedError extends Error {
  override name = "JoinRefusedError";
}

const pendingFile = "enrolment.json";
const attemptTimeoutMs = 15_000;

const hopeless = new Set<Code>([
  Code.Unauthenticated,
  Code.PermissionDenied,
  Code.InvalidArgument,
  Code.NotFound,
  Code.AlreadyExists,
  Code.FailedPrecondition,
  Code.Unimplemented,
]);

/**
 * The identity of this daemon: the one in `dir`, or a new one got with a bootstrap token. Key and request
 * are on disk before the first call, so a reply that was lost is repeated by the server and not spent twice.
 * Waits for control as long as `signal` allows.
 *
 * @throws JoinRefusedError when trying again cannot help
 */
export async function joinCluster(options: {
  clock: Clock;
  random: Random;
  dir: string;
  /** Where replicas of control admit daemons; they are tried in turn. */
  enrollUrls: readonly string[];
  token: string;
  proposedName: string;
  /** Done before each attempt; it may take its time, and must not reject. */
  prepare?(): Promise<void>;
  signal: AbortSignal;
  log: LinkLog;
}): Promise<Identity> {
  const { clock, random, dir, signal, log } = options;
  const known = await loadIdentity(dir);
  if (known !== null) return known;
  let pending: KeyAndRequest | null = null;
  const endpoints = createEndpoints(options.enrollUrls, random);
  for (let failures = 1; ; failures += 1) {
    signal.throwIfAborted();
    const enrollUrl = endpoints.current();
    await options.prepare?.();
    try {
      // A disk that is full takes it once there is room.
      pending ??= await pendingRequest(dir);
      const identity = await joinOnce({ ...options, enrollUrl }, pending);
      await saveIdentity(dir, identity);
      await rm(join(dir, pendingFile), { force: true });
      log.info({ id: identity.id, name: identity.name, role: identity.role }, "joined the cluster");
      return identity;
    } catch (cause) {
      signal.throwIfAborted();
      if (isHopeless(cause)) throw new JoinRefusedError(`enrolment refused: ${messageOf(cause)}`, { cause });
      log.warn({ endpoint: enrollUrl, failures, reason: messageOf(cause) }, "enrolment failed, trying again");
      endpoints.moveOn(enrollUrl);
    }
    const pauseMs = backOffMs(roundsFailed(failures, endpoints.count), linkBackOff, random.next());
    await sleep(clock, pauseMs, signal);
  }
}

async function joinOnce(
  options: { clock: Clock; enrollUrl: string; token: string; proposedName: string; signal: AbortSignal },
  pending: KeyAndRequest,
): Promise<Identity> {
  const token = parseToken(options.token);
  if (token === null) throw new JoinRefusedError("the bootstrap token is malformed");
  const signal = AbortSignal.any([options.signal, options.clock.abortAfter(attemptTimeoutMs)]);
  const caPem = await fetchPinnedCa(options.enrollUrl, token.caSha256, signal);
  const link = createEnrollTransport(options.clock, caPem, options.enrollUrl);
  try {
    const client = createClient(EnrollmentService, link.transport);
    const request = { token: options.token, csr: pending.csr, proposedName: options.proposedName };
    const reply = await client.join(request, { signal });
    return identityFrom(reply, pending.privateKeyPem, caPem, token.clusterId);
  } finally {
    link.close();
  }
}

function identityFrom(reply: JoinResponse, privateKeyPem: string, caPem: string, clusterId: string): Identity {
  const role = reply.role === WireRole.EDGE ? "edge" : "node";
  const name = certificateName(reply.certificateChain);
  const agrees =
    reply.clusterId === clusterId &&
    name?.clusterId === clusterId &&
    name.id === reply.id &&
    name.role === role &&
    name.incarnation === reply.incarnation &&
    belongsToKey(reply.certificateChain, privateKeyPem);
  if (!agrees) throw new JoinRefusedError("the certificate does not match the reply it came with");
  // The reply came over a connection that the pinned CA vouches for, and so does whoever is trusted besides it.
  return {
    id: reply.id,
    name: reply.name,
    role,
    clusterId,
    incarnation: reply.incarnation,
    certificatePem: reply.certificateChain,
    privateKeyPem,
    caPem: reply.ca === "" ? caPem : reply.ca,
    entrancePem: "",
  };
}

async function pendingRequest(dir: string): Promise<KeyAndRequest> {
  const path = join(dir, pendingFile);
  const kept = decodePending(await readIfThere(path));
  if (kept !== null) return kept;
  const made = await createKeyAndRequest();
  const csr = Buffer.from(made.csr).toString("base64");
  await writeDurably(path, `${JSON.stringify({ privateKeyPem: made.privateKeyPem, csr })}\n`);
  return made;
}

function decodePending(text: string | null): KeyAndRequest | null {
  if (text === null) return null;
  try {
    const { privateKeyPem, csr }: { privateKeyPem?: unknown; csr?: unknown } = JSON.parse(text);
    if (typeof privateKeyPem !== "string" || typeof csr !== "string") return null;
    return { privateKeyPem, csr: new Uint8Array(Buffer.from(csr, "base64")) };
  } catch {
    return null;
  }
}

function isHopeless(cause: unknown): boolean {
  if (cause instanceof JoinRefusedError || cause instanceof CaMismatchError) return true;
  return cause instanceof ConnectError && hopeless.has(cause.code);
}

const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));
