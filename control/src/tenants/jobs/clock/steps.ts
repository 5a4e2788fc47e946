// @pure
import { nextFire } from "@svc/proto";

/** A run begins at most so long after its instant: long enough for the restart of the only control. */
export const lateMs = 5 * 60_000;
/** Of instants that nobody was there for no more are counted: a job of each minute has half a million in a year. */
export const missedMax = 100;
/** Two clocks that tell of a moment differently by more than this say that one of them was set. */
const stepMs = 2_000;

export interface DueJob {
  schedule: string;
  timezone: string;
  /** The first instant that was not seen to yet; not after `now`. */
  next_fire_at: Date;
}

export interface ClockStep {
  /** The instant to begin a run for; null: none. */
  run: Date | null;
  /** Instants before it that nobody was there for: how many, and the newest of them that was counted; null: none. */
  missed: { fireAt: Date; count: number } | null;
  /** The newest instant that is past, and the one after it; null: it never fires again. */
  lastFireAt: Date;
  nextFireAt: Date | null;
}

/**
 * What to do for a job that is due. Of several instants only the newest runs, and only while it is not too late; the others are
 * told of once. What comes next counts from instants of the schedule, so nothing is done twice or left out, whoever looks when.
 */
export function clockStep({ schedule, timezone, next_fire_at }: DueJob, now: Date): ClockStep {
  const after = (at: Date) => nextFire(schedule, timezone, at);
  const isPast = (at: Date | null): at is Date => at !== null && at <= now;
  const tooLate = new Date(now.getTime() - lateMs);
  const seen: Date[] = [];
  let at: Date | null = next_fire_at;
  while (isPast(at)) {
    seen.push(at);
    // Of what is too late no more is looked at one by one.
    at = seen.length === missedMax && at < tooLate ? after(new Date(tooLate.getTime() - 1)) : after(at);
  }
  const newest = seen.at(-1) ?? next_fire_at;
  const run = newest < tooLate ? null : newest;
  const others = run === null ? seen : seen.slice(0, -1);
  const fireAt = others.at(-1);
  return {
    run,
    missed: fireAt === undefined ? null : { fireAt, count: Math.min(others.length, missedMax) },
    lastFireAt: newest,
    nextFireAt: at,
  };
}

/** A moment as the database's clock and this machine's boot clock tell it, and how exactly. */
export interface Moment {
  now: Date;
  bootMs: number;
  withinMs: number;
}

/**
 * Whether a clock was set between two moments. Whoever finds that waits for the next one: a clock that jumped by mistake, and is set
 * right at once, must not begin what is due tomorrow.
 */
export function wasSet(before: Moment, after: Moment): boolean {
  const wallMs = after.now.getTime() - before.now.getTime();
  const driftMs = Math.abs(wallMs - (after.bootMs - before.bootMs));
  return driftMs > stepMs + before.withinMs + after.withinMs;
}
