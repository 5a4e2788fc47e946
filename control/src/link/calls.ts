import type { ServerUnaryCall, sendUnaryData } from "@grpc/grpc-js";
import { limits } from "@svc/proto";
import type { NodeService } from "@svc/proto/node";
import type { Authority } from "../ca/authority.ts";
import { BadCertificateRequest, readRequest } from "../ca/certificates.ts";
import type { DaemonIdentity, DaemonRole } from "../ca/identity.ts";
import type { Db } from "../db/pool.ts";
import type { ServiceHandlers } from "../grpc/adapter.ts";
import type { Log } from "../log.ts";
import { setCertificateExpiry } from "../nodes/store.ts";
import { listGone } from "../projects/gone.ts";
import { grpcError, LinkError } from "./errors.ts";
import { deliverLog } from "./log-query.ts";
import { appendLog } from "./logs.ts";
import { admit, IdentityFenced, peerIdentity } from "./peer.ts";
import { insertSamples, plausibleSamples } from "./samples.ts";

export interface CallDeps {
  db: Db;
  authority: Authority;
  log: Log;
  now: () => Date;
  /** Whose log an agent's stream belongs to; null when the placement or attempt is not on that node. */
  logTarget: (nodeId: string, streamId: string) => Promise<{ streamId: string } | null>;
}

/**
 * A unary call as a function of who calls and what is asked. The caller is looked up anew each time:
 * a daemon that was fenced a moment ago gets nothing more done.
 */
export function asDaemon<Req, Res>(
  role: DaemonRole,
  { db, authority, log, now }: CallDeps,
  handle: (identity: DaemonIdentity, request: Req) => Promise<Res>,
): (call: ServerUnaryCall<Req, Res>, reply: sendUnaryData<Res>) => void {
  return (call, reply) => {
    const answer = async () => {
      const identity = peerIdentity(call, { clusterId: authority.clusterId, role, now: now() });
      await admit(db, identity);
      return handle(identity, call.request);
    };
    answer().then(
      (response) => reply(null, response),
      (error: unknown) => {
        if (error instanceof IdentityFenced) return reply(grpcError(new LinkError("PERMISSION_DENIED", "fenced")));
        if (!(error instanceof LinkError)) log.warn({ err: error, method: call.getPath() }, "a daemon's call failed");
        reply(grpcError(error));
      },
    );
  };
}

const maxSamples = 2_000;
const maxProjectsAsked = 1_000;

/** The unary calls of NodeService. */
export const nodeCalls = (deps: CallDeps): Omit<ServiceHandlers<typeof NodeService>, "session"> => ({
  appendLog: asDaemon("node", deps, async ({ id }, { streamId, offset, data }) => {
    if (data.length > limits.logChunkBytesMax || offset > BigInt(Number.MAX_SAFE_INTEGER)) {
      throw new LinkError("INVALID_ARGUMENT", `a piece of a log has at most ${limits.logChunkBytesMax} bytes`);
    }
    if ((await deps.logTarget(id, streamId)) === null) {
      throw new LinkError("NOT_FOUND", "this node has no such log");
    }
    return { length: BigInt(await appendLog(deps.db, streamId, Number(offset), data)) };
  }),
  deliverLog: asDaemon("node", deps, async (_, request) => {
    await deliverLog(deps.db, request, deps.now());
    return {};
  }),
  reportSamples: asDaemon("node", deps, async ({ id }, { samples }) => {
    if (samples.length > maxSamples) throw new LinkError("INVALID_ARGUMENT", `at most ${maxSamples} samples at once`);
    await insertSamples(deps.db, id, plausibleSamples(samples, deps.now()));
    return {};
  }),
  listGoneProjects: asDaemon("node", deps, async (_, { projectIds }) => {
    if (projectIds.length > maxProjectsAsked) {
      throw new LinkError("INVALID_ARGUMENT", `at most ${maxProjectsAsked} projects at once`);
    }
    return { gone: await listGone(deps.db, projectIds) };
  }),
  renewCertificate: renewCertificate("node", deps),
});

/** A new certificate for the caller's own identity and the key of its request. */
export const renewCertificate = (role: DaemonRole, deps: CallDeps) =>
  asDaemon<{ csr: Uint8Array }, { certificateChain: string; ca: string }>(role, deps, async (identity, { csr }) => {
    const key = await readRequest(csr).catch((error: unknown) => {
      throw error instanceof BadCertificateRequest ? new LinkError("INVALID_ARGUMENT", error.message) : error;
    });
    const { certificate, expiresAt } = await deps.authority.issueDaemon(identity, key, deps.now());
    await setCertificateExpiry(deps.db, identity.id, expiresAt);
    deps.log.info({ daemon: identity.id, role, expiresAt }, "certificate renewed");
    return { certificateChain: certificate, ca: deps.authority.caCertificate };
  });
