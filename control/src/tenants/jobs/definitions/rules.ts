// @pure
import {
  isOciManifest,
  type JobPauseReason,
  type Manifest,
  manifestType,
  nextFire,
  type SourceManifest,
} from "@svc/proto";
import type { Job } from "../../../stores/db/tables.ts";

/** A scheduled job as a manifest has it; its command stays there. */
export type Definition = Omit<SourceManifest["jobs"][number], "command">;

/** What a deployment with `manifest` has its channel do by schedule. */
export const definitionsOf = (manifest: Manifest): Definition[] =>
  isOciManifest(manifest) || manifestType(manifest) !== "ssr"
    ? []
    : manifest.jobs.map(({ command: _, ...definition }) => definition);

type Known = Pick<Job, "id" | "name" | "schedule" | "timezone" | "retired_at">;

export interface Switch {
  added: Definition[];
  /** `counts anew`: its next instant is another one than before. */
  kept: { id: string; definition: Definition; countsAnew: boolean }[];
  retired: string[];
}

/**
 * What becomes of the jobs of a channel, retired ones included, when what it serves has others. A name is what makes a job the
 * same one, also after it was gone for a while; one whose schedule stays keeps its next instant, so that no deployment loses it.
 */
export function switchJobs(known: readonly Known[], wanted: readonly Definition[]): Switch {
  const byName = new Map(known.map((job) => [job.name, job]));
  const names = new Set(wanted.map(({ name }) => name));
  return {
    added: wanted.filter(({ name }) => !byName.has(name)),
    kept: wanted.flatMap((definition) => {
      const job = byName.get(definition.name);
      if (job === undefined) return [];
      const { schedule, timezone } = definition;
      const countsAnew = job.retired_at !== null || job.schedule !== schedule || job.timezone !== timezone;
      return [{ id: job.id, definition, countsAnew }];
    }),
    retired: known.filter(({ name, retired_at }) => retired_at === null && !names.has(name)).map(({ id }) => id),
  };
}

/** Whether it is scheduled as far as the manifest and its owner say; a pause is another matter. */
export const isEnabled = ({ source_enabled, user_enabled }: Pick<Job, "source_enabled" | "user_enabled">): boolean =>
  source_enabled && user_enabled !== false;

/** What may keep the platform from scheduling the jobs of a project. */
export interface Situation {
  now: Date;
  isSuspended: boolean;
  /** Its owner has stopped production. */
  isStopped: boolean;
  /** Of the owner's plan, in all channels. */
  maxScheduledJobs: number;
}

type Live = Pick<
  Job,
  | "id"
  | "channel"
  | "pr_number"
  | "name"
  | "schedule"
  | "timezone"
  | "source_enabled"
  | "user_enabled"
  | "pause_reason"
  | "next_fire_at"
>;

/** Production is what a small plan goes to first, and previews of pull requests come last. */
const channelOrder = ["production", "dev", "preview"];

/** In the order in which a plan has room for them. */
const byRank = (a: Live, b: Live): number =>
  channelOrder.indexOf(a.channel) - channelOrder.indexOf(b.channel) ||
  a.pr_number - b.pr_number ||
  (a.name < b.name ? -1 : 1);

export interface Settled {
  id: string;
  pause_reason: JobPauseReason | null;
  next_fire_at: Date | null;
}

/**
 * What is not as it should be of all jobs of a project that are not retired. What begins to be scheduled counts from now: what
 * was due in a pause is not made up for.
 */
export function settle(jobs: readonly Live[], situation: Situation): Settled[] {
  return [...jobs].sort(byRank).flatMap((job, at) => {
    const pause_reason = pauseOf(job, at, situation);
    const isScheduled = pause_reason === null && isEnabled(job);
    const next_fire_at = isScheduled ? (job.next_fire_at ?? nextFire(job.schedule, job.timezone, situation.now)) : null;
    const isSame =
      job.pause_reason === pause_reason && (job.next_fire_at?.getTime() ?? null) === (next_fire_at?.getTime() ?? null);
    return isSame ? [] : [{ id: job.id, pause_reason, next_fire_at }];
  });
}

function pauseOf({ channel }: Live, at: number, situation: Situation): JobPauseReason | null {
  if (situation.isSuspended) return "suspended";
  if (channel === "production" && situation.isStopped) return "stopped";
  return at < situation.maxScheduledJobs ? null : "plan";
}

/** How many jobs a project has, and how many of them are paused for what. */
export interface PauseCounts {
  jobs: number;
  ofProduction: number;
  suspended: number;
  stopped: number;
  plan: number;
}

/** Whether the pauses of a project are those of `settle`; which jobs they are of, that alone says. */
export function arePausesRight(counts: PauseCounts, situation: Omit<Situation, "now">): boolean {
  const { jobs, ofProduction, suspended, stopped, plan } = counts;
  if (situation.isSuspended) return suspended === jobs;
  if (suspended > 0) return false;
  const wantedStopped = situation.isStopped ? ofProduction : 0;
  const first = Math.max(situation.maxScheduledJobs, wantedStopped);
  return stopped === wantedStopped && plan === Math.max(0, jobs - first);
}
