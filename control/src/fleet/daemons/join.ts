import { DaemonRole, type EnrollmentService } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import type { TokenBucket } from "@svc/runtime/token-bucket";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { ServiceHandlers } from "../../stores/grpc/adapter.ts";
import type { Authority } from "../ca/authority.ts";
import { BadCertificateRequest, readRequest } from "../ca/certificates.ts";
import { type EnrollRefusal, enroll } from "../nodes/enroll.ts";
import { parseBootstrapToken } from "../nodes/token.ts";
import { grpcError, LinkError } from "../sessions/errors.ts";
import { peerAddress } from "../sessions/peer.ts";

export interface JoinDeps {
  db: Db;
  authority: Authority;
  joins: TokenBucket;
  log: Log;
  clock: Clock;
}

const refusals: Record<EnrollRefusal, string> = {
  unknown: "the bootstrap token is not one of this cluster",
  revoked: "the bootstrap token was revoked",
  expired: "the bootstrap token has ended; make a new one",
  used: "the bootstrap token was used by another daemon; make a new one",
  authority: "the bootstrap token names an authority that this cluster does not have any more; make a new token",
  fenced: "the daemon that this token admitted was fenced or removed; make a new token",
};

/** Admission of new daemons: the one service that answers without a client certificate. */
export const joinHandlers = ({
  db,
  authority,
  joins,
  log,
  clock,
}: JoinDeps): ServiceHandlers<typeof EnrollmentService> => ({
  join(call, reply) {
    const answer = async () => {
      if (!joins.take(clock.bootMs()))
        throw new LinkError("RESOURCE_EXHAUSTED", "too many daemons join at once; try again");
      const { token, csr, proposedName } = call.request;
      const key = await readRequest(csr).catch((error: unknown) => {
        throw error instanceof BadCertificateRequest ? new LinkError("INVALID_ARGUMENT", error.message) : error;
      });
      const address = peerAddress(call);
      const result = await enroll(db, authority, { token, key, proposedName, address }, clock.now());
      if ("refused" in result) {
        // The id of the token is no secret, and tells the operator which one somebody tries to use. Of what is no token nothing is told.
        const tokenId = parseBootstrapToken(token)?.id ?? null;
        log.warn({ tokenId, why: result.refused, address }, "a daemon was not admitted");
        throw new LinkError("PERMISSION_DENIED", refusals[result.refused]);
      }
      const { id, name, role, incarnation, certificate, trusted, again } = result;
      log.info({ daemon: id, name, role, again }, "a daemon was admitted");
      return {
        id,
        name,
        role: role === "node" ? DaemonRole.NODE : DaemonRole.EDGE,
        clusterId: authority.clusterId,
        incarnation: BigInt(incarnation),
        certificateChain: certificate,
        ca: trusted,
      };
    };
    answer().then(
      (response) => reply(null, response),
      (error: unknown) => {
        if (!(error instanceof LinkError)) log.error({ err: error }, "an enrolment failed");
        reply(grpcError(error));
      },
    );
  },
});
