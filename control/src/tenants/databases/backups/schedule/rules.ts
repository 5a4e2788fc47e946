// @pure
import { type Channel, plural } from "@svc/proto";
import { planRefusal, type Refusal } from "../../rules.ts";
import { noBackups } from "../rules.ts";

/** Why a schedule is not made; null: it is. It never asks for more than the plan keeps. */
export function scheduleRefusal({
  maxDatabases,
  maxBackups,
  channels,
  keep,
}: {
  maxDatabases: number;
  maxBackups: number;
  channels: readonly Channel[];
  keep: number;
}): Refusal | null {
  const ofPlan = planRefusal(maxDatabases);
  if (ofPlan !== null) return ofPlan;
  if (maxBackups === 0) return noBackups;
  const wanted = channels.length * keep;
  if (wanted <= maxBackups) return null;
  return {
    code: "QUOTA_EXCEEDED",
    message: `That would be ${plural(wanted, "backup")}, and the plan keeps ${maxBackups} per project, of all channels together.`,
  };
}

/** Everything that decides about the backup of one channel in one night. Its database is ready. */
export interface NightFacts {
  maxDatabases: number;
  maxBackups: number;
  /** Complete ones of the project, of all channels, whoever asked for them. */
  complete: number;
  /** Those among them that the schedule made of this channel. */
  own: number;
  /** How many of these are to stay. */
  keep: number;
  /** The channel of the one that is pending or running; null: none is. */
  underWay: Channel | null;
}

export type NightStep =
  | { do: "begin" }
  /** Another one is under way: this one has its turn after it. */
  | { do: "wait" }
  | { do: "leaveOut"; problem: string };

/**
 * What becomes of a night. A backup that is complete replaces those of the schedule's own beyond `keep`, in one transaction: there
 * must be room for it then. Nothing is deleted for it that somebody asked for.
 */
export function nightStep({ maxDatabases, maxBackups, complete, own, keep, underWay }: NightFacts): NightStep {
  if (maxDatabases === 0 || maxBackups === 0) return { do: "leaveOut", problem: noBackups.message };
  if (underWay !== null) return { do: "wait" };
  const replaced = Math.max(0, own + 1 - keep);
  if (complete - replaced < maxBackups) return { do: "begin" };
  const problem = `The plan keeps ${plural(maxBackups, "backup")} per project, and as many are there. Delete one, or keep fewer.`;
  return { do: "leaveOut", problem };
}

/**
 * How many of a channel that its schedule made stay when one of them has ended. `asked`: as it said when that began; `keep`: as it
 * says by now, null without one. Whoever has more kept meanwhile, or ends it, loses none but for want of room in the plan.
 */
export function keptOfOwn({
  asked,
  keep,
  own,
  complete,
  maxBackups,
}: Pick<NightFacts, "own" | "complete" | "maxBackups"> & { asked: number; keep: number | null }): number {
  const wanted = keep === null ? own : Math.max(asked, keep);
  const tooMany = Math.max(0, complete - maxBackups);
  return Math.max(asked, Math.min(wanted, own - tooMany));
}
