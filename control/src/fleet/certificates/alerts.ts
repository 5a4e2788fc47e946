import type { Db } from "../../stores/db/pool.ts";
import { clearAlert, dropAlert, raiseAlert } from "../alerts/raise.ts";
import type { Certificate, Failure } from "./steps.ts";

/** So many tries in a row, some ten minutes: records are often a little late. */
const failuresTold = 3;

/**
 * Tells the owner of a domain that it gets no certificate, and that it has one. Of names that are not attached themselves,
 * as twins are, nobody is told.
 */
export async function tellOwner(tx: Db, after: Certificate, why: Pick<Failure, "text"> | undefined): Promise<void> {
  const isBad = why !== undefined && after.failures >= failuresTold;
  if (!isBad && (why !== undefined || !["issued", "none"].includes(after.state))) return;
  const domain = await tx
    .selectFrom("custom_domain")
    .select("project_id")
    .where("domain", "=", after.name)
    .where("status", "=", "verified")
    .executeTakeFirst();
  if (domain === undefined) return;
  const alert = { projectId: domain.project_id, event: "certificateFailing", subject: after.name } as const;
  if (isBad) await raiseAlert(tx, { ...alert, detail: why.text });
  else if (after.state === "issued") await clearAlert(tx, alert);
  // Nobody wants one any more.
  else await dropAlert(tx, alert);
}
