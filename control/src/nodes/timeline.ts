import type { Db } from "../db/pool.ts";
import { lockDeployment } from "../deployments/store.ts";

/**
 * Whether a deployment that is being rolled out has no line of this phase in its timeline yet. Its row is held, so that
 * of two who ask in their transactions only one is told so. False when it is not being rolled out any more.
 */
export async function isNewLine(
  tx: Db,
  { deploymentId, phase }: { deploymentId: string; phase: string },
): Promise<boolean> {
  if (!(await lockDeployment(tx, deploymentId, "deploying"))) return false;
  const known = await tx
    .selectFrom("deployment_event")
    .select("id")
    .where("deployment_id", "=", deploymentId)
    .where("phase", "=", phase)
    .limit(1)
    .executeTakeFirst();
  return known === undefined;
}
