import type { Db } from "../../stores/db/pool.ts";
import { lockDeployment } from "../tasks/deployment.ts";

interface Line {
  deploymentId: string;
  phase: string;
}

/** Whether a deployment's timeline has a line of this phase. */
export async function hasLine(db: Db, { deploymentId, phase }: Line): Promise<boolean> {
  const known = await db
    .selectFrom("deployment_event")
    .select("id")
    .where("deployment_id", "=", deploymentId)
    .where("phase", "=", phase)
    .limit(1)
    .executeTakeFirst();
  return known !== undefined;
}

/**
 * Whether a deployment that is being rolled out has no line of this phase in its timeline yet. Its row is held, so that
 * of two who ask in their transactions only one is told so. False when it is not being rolled out any more.
 */
export const isNewLine = async (tx: Db, line: Line): Promise<boolean> =>
  (await lockDeployment(tx, line.deploymentId, "deploying")) && !(await hasLine(tx, line));
