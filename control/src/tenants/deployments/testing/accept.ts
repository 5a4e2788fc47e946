import type { Caller } from "../../../http/caller.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { type AcceptDeps, findDatabases, insertDeployment, type NewDeployment, openProject } from "../create/accept.ts";

/** A deployment of any channel, whatever the project's mode and its plan say. */
export async function acceptDeployment(
  tx: Db,
  deps: AcceptDeps,
  caller: Caller,
  projectId: string,
  accepted: Omit<NewDeployment, "databases">,
) {
  const open = await openProject(tx, caller, projectId);
  return insertDeployment(tx, deps, caller, open, { ...accepted, databases: await findDatabases(tx, open.project) });
}
