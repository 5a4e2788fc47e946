import { X509Certificate } from "node:crypto";
import { type CertificateAuthority, certificateAuthorityReply, limits } from "@svc/proto";
import { recordAudit } from "../../../http/audit.ts";
import { ApiError } from "../../../http/errors.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { endpoint } from "../../endpoint.ts";
import { RotationUnderWay, readRotation, startRotation } from "./rotate.ts";
import type { MovingDaemon } from "./rules.ts";

const iso = (at: Date | null) => at?.toISOString() ?? null;

const waitedFor = ({ id, name, role, lastSeenAt, certificateExpiresAt }: MovingDaemon) => ({
  ...{ id, name, role },
  lastSeenAt: iso(lastSeenAt),
  certificateExpiresAt: iso(certificateExpiresAt),
});

async function getAuthority(db: Db, now: Date): Promise<CertificateAuthority> {
  const state = await readRotation(db, now);
  // Control has made one before it answers anybody.
  if (state === null) throw new ApiError("UNAVAILABLE");
  const { rotation } = state;
  return {
    sha256: state.caSha256,
    expiresAt: new X509Certificate(state.caCertificate).validToDate.toISOString(),
    rotation: rotation && {
      startedAt: rotation.startedAt.toISOString(),
      previousSha256: rotation.previousSha256,
      moved: rotation.moved,
      waitingFor: rotation.heldUpBy.slice(0, limits.movingDaemonsShown).map(waitedFor),
      waitingForCount: rotation.heldUpBy.length,
    },
    rotatedAt: iso(state.finishedAt),
  };
}

const show = endpoint({
  method: "GET",
  path: "/admin/ca",
  access: "admin",
  summary: "The certificate authority of the cluster, and which machines a replacement of it waits for.",
  reply: certificateAuthorityReply,
  handle: async ({ db, clock }) => ({ ca: await getAuthority(db, clock.now()) }),
});

const rotate = endpoint({
  method: "POST",
  path: "/admin/ca/rotate",
  access: "admin",
  summary: "Replace the certificate authority of the cluster. Machines move to the new one by themselves.",
  status: 202,
  reply: certificateAuthorityReply,
  errors: ["CA_ROTATION_UNDER_WAY"],
  handle: ({ db, clock, secrets }, { caller, address }) =>
    db.transaction().execute(async (tx) => {
      const started = await startRotation(tx, { secrets, now: clock.now() }).catch((error: unknown) => {
        throw error instanceof RotationUnderWay ? new ApiError("CA_ROTATION_UNDER_WAY") : error;
      });
      if (started === null) throw new ApiError("UNAVAILABLE");
      await recordAudit(tx, { caller, address, action: "ca.rotate", target: started.caSha256 });
      return { ca: await getAuthority(tx, clock.now()) };
    }),
});

export const authorityEndpoints = [show, rotate];
