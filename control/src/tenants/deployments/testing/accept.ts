import type { Caller } from "../../../http/caller.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { type AcceptDeps, insertDeployment, type NewDeployment, openProject } from "../create/accept.ts";

/** A deployment of any channel, whatever the project's mode and its plan say. */
export const acceptDeployment = async (
  tx: Db,
  deps: AcceptDeps,
  caller: Caller,
  projectId: string,
  accepted: NewDeployment,
) => insertDeployment(tx, deps, caller, await openProject(tx, caller, projectId), accepted);
