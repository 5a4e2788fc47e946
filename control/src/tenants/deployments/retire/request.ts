import { retireKey } from "../../../fleet/tasks/deployment.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { enqueue, hasOpenWork } from "../../../stores/work/queue.ts";

/** Ends what a deployment left on nodes as soon as no edge sends visitors there any more. */
export const retire = (db: Db, deploymentId: string) =>
  enqueue(db, { kind: "retire", key: retireKey(deploymentId), payload: { deploymentId } });

/** Whether that is still under way. */
export const isRetiring = (db: Db, deploymentId: string): Promise<boolean> => hasOpenWork(db, retireKey(deploymentId));
