import type { ServerUnaryCall, sendUnaryData } from "@grpc/grpc-js";
import { limits } from "@svc/proto";
import type { DaemonRole } from "@svc/proto/daemon-identity";
import type { NodeService, TunnelRequest } from "@svc/proto/node";
import type { IssuedToken } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import type { TokenBuckets } from "@svc/runtime/token-bucket";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { ServiceHandlers } from "../../stores/grpc/adapter.ts";
import { answerBaseImage, type BaseImageDeps } from "../agents/base-image.ts";
import { listGone } from "../agents/gone.ts";
import { deliverLog } from "../agents/log-query.ts";
import { appendLog } from "../agents/logs.ts";
import { insertSamples, plausibleSamples } from "../agents/samples.ts";
import type { Authority } from "../ca/authority.ts";
import { BadCertificateRequest, readRequest } from "../ca/certificates.ts";
import { noteTrust } from "../ca/store.ts";
import { reportedVolumesMax, storeVolumeReport } from "../database-volumes/reports.ts";
import { storeCopySamples } from "../databases/copy-reports.ts";
import { plausibleReports, storeReports } from "../databases/reports.ts";
import type { TableFeed } from "../edges/table-feed.ts";
import { insertNodeEvents } from "../nodes/events/store.ts";
import { listGoneNodes } from "../nodes/gone.ts";
import { setCertificateExpiry } from "../nodes/store.ts";
import type { RegistryTokens } from "../registry-tokens/issue.ts";
import { grpcError, LinkError } from "../sessions/errors.ts";
import type { LeafCheck } from "../sessions/leaf-check.ts";
import {
  type AuthenticatedCall,
  admit,
  IdentityFenced,
  nameOfPeer,
  type Peer,
  peerIdentity,
} from "../sessions/peer.ts";
import { sessionRows } from "../sessions/rows.ts";
import type { TunnelCall } from "../tunnels/bytes.ts";
import type { Tunnels } from "../tunnels/tunnels.ts";

export interface CallDeps extends BaseImageDeps {
  db: Db;
  authority: Authority;
  leaves: LeafCheck;
  /** How many calls each identity may make. */
  own: TokenBuckets;
  log: Log;
  clock: Clock;
  /**
   * How much is kept of an agent's stream; null unless it is the log of a placement or attempt on that node. It is not deleted
   * before the transaction is over.
   */
  logBytesMax: (nodeId: string, streamId: string, tx: Db) => Promise<number | null>;
  registryTokens: RegistryTokens;
}

/** Who calls, if it may. Throws `LinkError`, or `IdentityFenced` and its like. */
async function admitCaller(
  role: DaemonRole,
  { db, authority, leaves, own, clock }: CallDeps,
  call: AuthenticatedCall,
): Promise<Peer> {
  const identity = peerIdentity(call, { clusterId: authority.clusterId, role, now: clock.now() });
  if (!own.take(nameOfPeer(identity), clock.bootMs())) {
    throw new LinkError("RESOURCE_EXHAUSTED", "too many calls at once");
  }
  await leaves.require(identity.certificate.leaf);
  await admit(sessionRows(db), identity);
  return identity;
}

/** How a daemon is told that its call failed; what nobody expected is logged. */
function refusalOf(error: unknown, method: string, log: Log) {
  if (error instanceof IdentityFenced) return grpcError(new LinkError("PERMISSION_DENIED", "fenced"));
  if (!(error instanceof LinkError)) log.warn({ err: error, method }, "a daemon's call failed");
  return grpcError(error);
}

/**
 * A unary call as a function of who calls and what is asked. The caller is looked up anew each time:
 * a daemon that was fenced a moment ago gets nothing more done.
 */
export function asDaemon<Req, Res>(
  role: DaemonRole,
  deps: CallDeps,
  handle: (identity: Peer, request: Req) => Promise<Res>,
): (call: ServerUnaryCall<Req, Res>, reply: sendUnaryData<Res>) => void {
  return (call, reply) => {
    admitCaller(role, deps, call)
      .then((identity) => handle(identity, call.request))
      .then(
        (response) => reply(null, response),
        (error: unknown) => reply(refusalOf(error, call.getPath(), deps.log)),
      );
  };
}

const maxSamples = 2_000;
const maxDatabaseSamples = 20_000;
const maxProjectsAsked = 1_000;
const maxNodesAsked = 100;

/** The unary calls of NodeService. */
export const nodeCalls = (deps: CallDeps): Omit<ServiceHandlers<typeof NodeService>, "session" | "tunnel"> => ({
  appendLog: asDaemon("node", deps, async ({ id }, { streamId, offset, data }) => {
    if (data.length > limits.logChunkBytesMax || offset > BigInt(Number.MAX_SAFE_INTEGER)) {
      throw new LinkError("INVALID_ARGUMENT", `a piece of a log has at most ${limits.logChunkBytesMax} bytes`);
    }
    return deps.db.transaction().execute(async (tx) => {
      const bytesMax = await deps.logBytesMax(id, streamId, tx);
      if (bytesMax === null) throw new LinkError("NOT_FOUND", "this node has no such log");
      return { length: BigInt(await appendLog(tx, streamId, Number(offset), data, bytesMax)) };
    });
  }),
  deliverLog: asDaemon("node", deps, async ({ id }, request) => {
    if (!(await deliverLog(deps.db, id, request, deps.clock.now())))
      throw new LinkError("NOT_FOUND", "nobody waits for that of this node");
    return {};
  }),
  reportSamples: asDaemon("node", deps, async ({ id }, { samples }) => {
    if (samples.length > maxSamples) throw new LinkError("INVALID_ARGUMENT", `at most ${maxSamples} samples at once`);
    await insertSamples(deps.db, id, plausibleSamples(samples, deps.clock.now()));
    return {};
  }),
  reportDatabases: asDaemon("node", deps, async ({ id }, { samples, copies, volumes }) => {
    if (samples.length > maxDatabaseSamples || copies.length > maxDatabaseSamples) {
      throw new LinkError("INVALID_ARGUMENT", `at most ${maxDatabaseSamples} samples at once`);
    }
    if (volumes !== undefined && volumes.names.length > reportedVolumesMax) {
      throw new LinkError("INVALID_ARGUMENT", `at most ${reportedVolumesMax} volumes at once`);
    }
    await storeReports(deps.db, id, plausibleReports(samples, deps.clock.now()));
    await storeCopySamples(deps, id, copies, deps.clock.now());
    if (volumes !== undefined) await storeVolumeReport(deps, id, volumes.names);
    return {};
  }),
  listGoneProjects: asDaemon("node", deps, async (_, { projectIds }) => {
    if (projectIds.length > maxProjectsAsked) {
      throw new LinkError("INVALID_ARGUMENT", `at most ${maxProjectsAsked} projects at once`);
    }
    return { gone: await listGone(deps.db, projectIds) };
  }),
  listGoneNodes: asDaemon("node", deps, async (_, { nodeIds }) => {
    if (nodeIds.length > maxNodesAsked)
      throw new LinkError("INVALID_ARGUMENT", `at most ${maxNodesAsked} nodes at once`);
    return { gone: await listGoneNodes(deps.db, nodeIds) };
  }),
  renewCertificate: renewCertificate("node", deps),
  issueRegistryToken: asDaemon("node", deps, async ({ id }, wish) =>
    tokenReply(await deps.registryTokens.forNode(id, wish)),
  ),
  fetchBaseImage: asDaemon("node", deps, ({ id }, request) => answerBaseImage(deps, id, request)),
});

const firstMessageMs = 5_000;

/** A node's end of a tunnel that this or another replica asked for. */
export const takeTunnel =
  (deps: CallDeps, tunnels: Pick<Tunnels, "accept">) =>
  (call: TunnelCall): void => {
    // What goes wrong later is seen by the tunnel's user.
    call.on("error", () => {});
    const first = Promise.withResolvers<TunnelRequest>();
    const late = deps.clock.after(firstMessageMs, () =>
      first.reject(new LinkError("FAILED_PRECONDITION", "no first message in time")),
    );
    const onFirst = (message: TunnelRequest) => {
      call.pause();
      first.resolve(message);
    };
    call.once("data", onFirst);
    call.once("close", () => first.reject(new LinkError("UNAVAILABLE", "the call ended")));
    Promise.all([admitCaller("node", deps, call), first.promise])
      .then(([holder, { message }]) => {
        if (message.case !== "answer") throw new LinkError("INVALID_ARGUMENT", "the first message must be an answer");
        tunnels.accept(holder, message.value, call);
      })
      .catch((error: unknown) => {
        call.off("data", onFirst);
        call.emit("error", refusalOf(error, call.getPath(), deps.log));
        call.resume();
      })
      .finally(() => late[Symbol.dispose]());
  };

/** A token with which an edge fetches bundles of the table in force. */
export const issueEdgeToken = (deps: CallDeps, tables: Pick<TableFeed, "current">) =>
  asDaemon<{ repository: string }, { token: string; expiresInSeconds: number }>(
    "edge",
    deps,
    async ({ id }, { repository }) =>
      tokenReply(deps.registryTokens.forEdge(id, repository, tables.current()?.routes.values() ?? [])),
  );

/** Throws `LinkError` PERMISSION_DENIED when there is none. */
function tokenReply(issued: IssuedToken | null): IssuedToken {
  if (issued === null)
    throw new LinkError("PERMISSION_DENIED", "nothing that this daemon does now needs that repository");
  return issued;
}

/**
 * A new certificate for the caller's own identity and the key of its request. What it trusts by the one that it has is
 * noted: a daemon may renew and open no session, in which that is noted otherwise.
 */
export const renewCertificate = (role: DaemonRole, deps: CallDeps) =>
  asDaemon<{ csr: Uint8Array }, RenewedCertificate>(role, deps, async (identity, { csr }) => {
    const key = await readRequest(csr).catch((error: unknown) => {
      throw error instanceof BadCertificateRequest ? new LinkError("INVALID_ARGUMENT", error.message) : error;
    });
    const { certificate, expiresAt, ca, entrance } = await deps.db.transaction().execute(async (tx) => {
      const issuer = await deps.authority.lock(tx);
      const issued = await issuer.issueDaemon(identity, key, deps.clock.now());
      await setCertificateExpiry(tx, identity.id, issued.expiresAt);
      await noteTrust(tx, [{ id: identity.id, trust: identity.certificate.trust }]);
      // Certificates know whole seconds.
      const detail = `valid until ${issued.expiresAt.toISOString().slice(0, 19)}Z`;
      await insertNodeEvents(tx, [{ nodeId: identity.id, kind: "certificate-renewed", detail, at: deps.clock.now() }]);
      const address = role === "node" ? await findEntranceAddress(tx, identity.id) : null;
      const now = deps.clock.now();
      const entrance = address === null ? null : await issuer.issueEntrance(identity.id, key, address, now);
      return { ...issued, ca: issuer.trusted, entrance };
    });
    deps.log.info({ daemon: identity.id, role, expiresAt }, "certificate renewed");
    return { certificateChain: certificate, ca, ...(entrance !== null && { entranceChain: entrance }) };
  });

interface RenewedCertificate {
  certificateChain: string;
  ca: string;
  /** Of nodes only. */
  entranceChain?: string;
}

/** Where edges reach the node, unless that is one of loopback: there they need no entrance. */
async function findEntranceAddress(db: Db, nodeId: string): Promise<string | null> {
  // The one that it said last no other active node has, unlike those that it is bound to.
  const node = await db.selectFrom("node").select("address").where("id", "=", nodeId).executeTakeFirst();
  const address = node?.address ?? null;
  return address === null || /^(?:127\.|::1$)/.test(address) ? null : address;
}
