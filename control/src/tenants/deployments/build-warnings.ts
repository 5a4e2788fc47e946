import type { Manifest } from "@svc/proto";
import { areEventsSplit, splitEvents } from "@svc/proto/realtime";
import type { ObservationValue } from "../../fleet/cluster/keys.ts";
import { branchOf, listReadyBranches } from "../../fleet/databases/ready.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment } from "../../stores/db/tables.ts";
import { warnsOfSite } from "./site-doubts.ts";
import { addWarnings, listWarnings } from "./store.ts";

const splitEventsWarning = `${splitEvents.problem} ${splitEvents.cure}`;

/** Warns the deployment's readers of what its build found, in the transaction that takes the build's result. */
export async function warnOfBuild(
  tx: Db,
  { deployment, manifest }: { deployment: Deployment; manifest: Manifest },
  { reusedFrom, warnings = [], packages = [] }: NonNullable<ObservationValue["build"]>,
): Promise<void> {
  const at = { projectId: deployment.project_id, deploymentId: deployment.id };
  if (warnsOfSite(manifest)) {
    // What an earlier build warned of holds for its result as long as that is used. How many replicas it had is not of its result.
    const said =
      reusedFrom === undefined
        ? warnings
        : (await listWarnings(tx, { ...at, deploymentId: reusedFrom })).filter((each) => each !== splitEventsWarning);
    await addWarnings(tx, at, said);
  }
  const hasDatabase = branchOf(await listReadyBranches(tx, [deployment.project_id]), deployment) !== null;
  if (areEventsSplit(manifest, { packages, hasDatabase })) await addWarnings(tx, at, [splitEventsWarning]);
}
