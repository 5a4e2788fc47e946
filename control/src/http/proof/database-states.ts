// @pure
import type { Channel, DatabaseStatus, ErrorCode, ProjectType } from "@svc/proto";
import type { ContractRoute } from "./contract.ts";

/**
 * What of a project decides about its databases, besides who asks. Written from the published contract, as `contract.ts` is:
 * nothing in here may be derived from the endpoints.
 */
export interface Situation {
  /** Of the branch; null: the channel has none. */
  branch: DatabaseStatus | null;
  type: ProjectType;
  channel: Channel;
  /** The owner's plan has databases. */
  inPlan: boolean;
  suspended: boolean;
  deleting: boolean;
}

/** Whether the route does what it is for, or how it refuses. */
export type Outcome = "done" | `${number} ${ErrorCode}`;

type Deciding = (situation: Situation) => Outcome;

const absent = "404 NOT_FOUND" satisfies Outcome;

/** What a route says that needs a branch in use. */
function ofReadyBranch({ branch }: Situation): Outcome {
  if (branch === null) return absent;
  if (branch === "ready") return "done";
  return branch === "provisioning" ? "409 DATABASE_PROVISIONING" : "409 DATABASE_NOT_READY";
}

const whenever: Deciding = () => "done";

/** Outside of the plan and of a suspension: who lost one of them sees what there is, keeps the backups, and may drop and delete. */
const ungated: ReadonlyMap<string, Deciding> = new Map<string, Deciding>([
  // The contract names it among the gated ones and gives it no gate; see `contract.ts`.
  ["GET /projects/:id/database", whenever],
  ["GET /projects/:id/database/branches", whenever],
  // Also to have none made any more, which is what the proof asks for.
  ["GET /projects/:id/database/settings", whenever],
  ["PUT /projects/:id/database/settings", whenever],
  ["DELETE /projects/:id/database", ({ branch }) => (branch === null ? absent : "done")],
  ["DELETE /projects/:id/database/saved-queries/:queryId", whenever],
  ["GET /projects/:id/database/backups", whenever],
  ["GET /projects/:id/database/backups/:backupId", whenever],
  ["DELETE /projects/:id/database/backups/:backupId", whenever],
  // The proof's backup is one that failed.
  ["GET /projects/:id/database/backups/:backupId/download", () => "409 BACKUP_NOT_READY"],
]);

/** Gated ones that do not need a branch in use. All others do. */
const gated: ReadonlyMap<string, Deciding> = new Map<string, Deciding>([
  [
    "POST /projects/:id/database",
    ({ branch, type, channel }) => {
      if (type === "static" || (type === "ociimage" && channel === "dev")) return "422 VALIDATION";
      return branch === "dropping" ? "409 DATABASE_NOT_READY" : "done";
    },
  ],
  // What is not ready has no schema yet, and no other word for that.
  ["GET /projects/:id/database/schema", ({ branch }) => (branch === "ready" ? "done" : absent)],
  ["GET /projects/:id/database/saved-queries", whenever],
  ["POST /projects/:id/database/saved-queries", whenever],
]);

/**
 * What the owner gets. A route that this file does not know is held to the rule of most: the plan has to have databases, the
 * project must not be suspended, and the branch has to be ready.
 */
export function databaseOutcome(
  { method, path }: Pick<ContractRoute, "method" | "path">,
  situation: Situation,
): Outcome {
  if (situation.deleting) return absent;
  const name = `${method} ${path}`;
  const open = ungated.get(name);
  if (open !== undefined) return open(situation);
  if (!situation.inPlan) return "403 PLAN_FEATURE_UNAVAILABLE";
  if (situation.suspended) return "403 SUSPENDED";
  return (gated.get(name) ?? ofReadyBranch)(situation);
}

/** Routes that the file has a word of its own for. */
export const namedRoutes: readonly string[] = [...ungated.keys(), ...gated.keys()];
