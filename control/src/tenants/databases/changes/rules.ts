// @pure
import type { DatabaseStatus } from "@svc/proto";
import type { Refusal } from "../rules.ts";
import type { ChangeState } from "./steps.ts";

/** A copy as far as it decides what can be restored. */
export interface CopyOffer {
  id: string;
  nodeId: string;
  coveredAt: Date;
}

export interface RestoreFacts {
  status: DatabaseStatus;
  /** Its tenant was made once: before that nobody had anything there. */
  wasReady: boolean;
  suspended: boolean;
  /** What it is on its way to; null: to nothing. */
  changing: string | null;
  /** The moment that is asked for; null: all there is. */
  at: Date | null;
  /** Among those that were asked for, the one that covers that moment, or that has most; null: none does. */
  copy: CopyOffer | null;
  /** All moments that any copy covers; null: there is no copy. */
  range: { from: Date; to: Date } | null;
  confirmed: boolean;
}

const refuse = (code: Refusal["code"], message: string): Refusal => ({ code, message });

/** Why a branch is not restored; null: it is. */
export function restoreRefusal(facts: RestoreFacts): Refusal | null {
  const { status, wasReady, changing, at, copy, range, confirmed } = facts;
  const refusal = branchRefusal({ changing, suspended: facts.suspended });
  if (refusal !== null) return refusal;
  if (status === "dropping") return refuse("DATABASE_NOT_READY", "The database is being dropped.");
  if (!wasReady) return refuse("DATABASE_NOT_READY", "The database was never ready, so there is nothing to restore.");
  if (copy === null) return refuse("CONFLICT", noCopy(at, range));
  if (confirmed) return null;
  const until = (at ?? copy.coveredAt).toISOString();
  return refuse(
    "DESTRUCTIVE_CONFIRMATION_REQUIRED",
    `What was written after ${until} is lost. Repeat the call with confirm: true.`,
  );
}

function noCopy(at: Date | null, range: RestoreFacts["range"]): string {
  if (range === null) return "There is no copy of this database on a machine that can be reached.";
  const known = `Copies go from ${range.from.toISOString()} to ${range.to.toISOString()}.`;
  if (at === null) return `No copy is where it is asked for. ${known}`;
  const isGap = range.from <= at && at <= range.to;
  return `No copy covers ${at.toISOString()}. ${known}${isGap ? " Changes are missing in between." : ""}`;
}

export interface ReopenFacts
  extends Pick<RestoreFacts, "status" | "wasReady" | "suspended" | "changing" | "confirmed"> {
  /** The volume that is asked for; null: the branch has, and had, none of that name. */
  volume: {
    /** The branch has its data in it, on the machine that the branch is on. */
    isOwn: boolean;
    /** It is there, in its time, and its machine was not declared lost. */
    isThere: boolean;
    /** Its machine takes no new work. */
    isLeaving: boolean;
  } | null;
}

/** Why a branch does not go back to a volume that it had before; null: it does. */
export function reopenRefusal({
  status,
  wasReady,
  changing,
  suspended,
  volume,
  confirmed,
}: ReopenFacts): Refusal | null {
  const refusal = branchRefusal({ changing, suspended });
  if (refusal !== null) return refusal;
  if (status === "dropping") return refuse("DATABASE_NOT_READY", "The database is being dropped.");
  if (!wasReady)
    return refuse("DATABASE_NOT_READY", "The database was never ready, so there is nothing to go back to.");
  if (volume === null) return refuse("CONFLICT", "This database never had a volume of that name.");
  if (volume.isOwn) return refuse("CONFLICT", "The database has its data in that volume already.");
  if (!volume.isThere) {
    return refuse("CONFLICT", "The volume has had its time, or is on a machine that was declared lost.");
  }
  if (volume.isLeaving) {
    return refuse(
      "CONFLICT",
      "The volume is on a machine that takes no new work. Uncordon it, or end its drain, before.",
    );
  }
  return confirmed
    ? null
    : refuse(
        "DESTRUCTIVE_CONFIRMATION_REQUIRED",
        "What was written to the database since is not in that volume; the one of now is kept for a week. Repeat the call with confirm: true.",
      );
}

export interface MoveFacts {
  status: DatabaseStatus;
  suspended: boolean;
  changing: string | null;
  nodeId: string | null;
  /** Its server takes nothing from anybody, so that its tenant cannot be kept out there. */
  standsBy: boolean;
  /** Null: any machine will do. */
  to: { id: string; name: string; isActive: boolean; isLeaving: boolean } | null;
  /** Whether there is a machine besides the branch's own. */
  hasOther: boolean;
}

/** Why a branch is not moved; null: it is. */
export function moveRefusal({
  status,
  suspended,
  changing,
  nodeId,
  standsBy,
  to,
  hasOther,
}: MoveFacts): Refusal | null {
  const refusal = branchRefusal({ changing, suspended });
  if (refusal !== null) return refusal;
  if (status !== "ready" || nodeId === null) {
    return refuse(
      "DATABASE_NOT_READY",
      "Only a database that is ready can be moved. One whose machine is lost is restored.",
    );
  }
  if (standsBy) {
    return refuse(
      "DATABASE_NOT_READY",
      "The database is read-only, and can be moved once it may be written to: under a plan that allows it more.",
    );
  }
  if (to === null) return hasOther ? null : refuse("CONFLICT", "There is no other machine that takes new work.");
  if (to.id === nodeId) return refuse("CONFLICT", `The database is on ${to.name} already.`);
  return to.isActive && !to.isLeaving ? null : refuse("CONFLICT", `${to.name} takes no new work.`);
}

function branchRefusal({ changing, suspended }: { changing: string | null; suspended: boolean }): Refusal | null {
  if (changing !== null) return refuse("CONFLICT", `The database is under a ${changing} already.`);
  return suspended ? refuse("CONFLICT", "The project is suspended. Resume it first.") : null;
}

/**
 * Why a change is not ended any more; null: it is.
 *
 * @param home the machine that has the branch's volume, and whether a server of it could be started again there; null: it is lost
 */
export function cancelRefusal(
  state: ChangeState | null,
  home: { name: string; takesWork: boolean } | null,
): Refusal | null {
  if (state === null) return refuse("CONFLICT", "The database is under no change.");
  if (state === "restoring") {
    return refuse("CONFLICT", "The database has its next volume already, and there is no way back.");
  }
  if (state !== "stopping" || home === null || home.takesWork) return null;
  return refuse(
    "CONFLICT",
    `The server is ending, and ${home.name} takes no other one. Uncordon it, or cancel its drain, and try again.`,
  );
}

const doing = {
  restore: "restored",
  move: "moved to another machine",
  upgrade: "started again with a newer engine",
} as const;

/** Why a branch that is ready cannot be used at this moment; null: it can. */
export const heldRefusal = (change: { kind: keyof typeof doing; state: ChangeState } | null): Refusal | null =>
  change === null || change.state === "copying"
    ? null
    : refuse("DATABASE_NOT_READY", `The database is being ${doing[change.kind]}. Try again in a moment.`);
