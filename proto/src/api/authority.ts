import { z } from "zod";
import { count, id, replyObject, success, timestamp } from "./envelope.ts";
import { daemonRoles } from "./node.ts";

/** A machine that a replacement of the certificate authority waits for. */
export const movingDaemon = replyObject({
  id,
  name: z.string(),
  role: z.enum(daemonRoles),
  // Null when the daemon has not been seen yet.
  lastSeenAt: timestamp.nullable(),
  // From then on it is waited for no more: it can only come back with a new token.
  certificateExpiresAt: timestamp.nullable(),
});

/** The certificate authority of the cluster, by which its machines and control know each other. */
export const certificateAuthority = replyObject({
  // Of the certificate's DER, hex; bootstrap tokens name it.
  sha256: z.string(),
  expiresAt: timestamp,
  // Null when it is not being replaced.
  rotation: replyObject({
    startedAt: timestamp,
    previousSha256: z.string(),
    // Machines that have a certificate of the new authority.
    moved: count,
    // Machines that have not; at most `limits.movingDaemonsShown`.
    waitingFor: z.array(movingDaemon),
    waitingForCount: count,
  }).nullable(),
  // When the last replacement came to its end; null: there was none.
  rotatedAt: timestamp.nullable(),
});
export type CertificateAuthority = z.output<typeof certificateAuthority>;

export const certificateAuthorityReply = success({ ca: certificateAuthority });
export type CertificateAuthorityReply = z.output<typeof certificateAuthorityReply>;
