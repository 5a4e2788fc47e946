import type { Placement, PlacementStatus, RunOffer } from "@svc/proto/node";

/** Where the chain of assignments stands. */
export interface Chain {
  clusterEpoch: bigint;
  leaderEpoch: bigint;
  /** The newest that is in force: nothing older is taken over any more. */
  resultsIn: string;
  /** Everything is to be named again before anything continues it. */
  beginsAnew: boolean;
}

/** What the agent has to remember of a placement besides what it reports. */
export interface Memory {
  /** Whether it answered its health path once: from then on a crash is restarted. */
  wasHealthy: boolean;
  /** Crashes in a row, see `nextCrash`. */
  crashes: number;
  /** Names the end that was counted last, so that a restart of the agent does not count it again. */
  countedExit: string;
  /** What it exited with; 0 also where an agent of before counted it. */
  countedCode: number;
  /** Whether that was told to be for want of memory: the engine may say so later than that it ended. */
  countedOom: boolean;
  /** When the wait for the next try began, and before when nothing is tried: milliseconds since 1970, 0 for no wait. */
  retrySinceMs: number;
  retryAtMs: number;
  /**
   * The host port of its containers, one after the other: edges that still send visitors there must never reach
   * anybody else's. Held until the placement is removed; 0 before the first.
   */
  hostPort: number;
  /** Whether its containers are published on loopback, and edges come in by an entrance at that port. Decided with the port. */
  behindEntrance: boolean;
  /** How often in a row that port turned out to be somebody's. */
  portMisses: number;
  /** Limits that the container did not get when the engine was asked for them, see `limitsKey`; empty for none. */
  limitsTried: string;
  /** How often, and when to ask again (milliseconds since 1970). */
  limitsMisses: number;
  limitsRetryAtMs: number;
  /** Between which two runs it was asked last, see `pauseOf`; empty when the container ran. */
  limitsPause: string;
  /** The container that was ended because it wrote more to the disk than it may; empty for none. */
  overflowOf: string;
  /** How much it might write. */
  overflowMb: number;
  /** Milliseconds since 1970 until which it serves what is still open, once it is to go; 0 before that. */
  drainUntilMs: number;
  /** The boot of this machine in which an assignment named it last; empty for none that is remembered. */
  grantedIn: string;
}

export const freshMemory: Memory = {
  wasHealthy: false,
  crashes: 0,
  countedExit: "",
  countedCode: 0,
  countedOom: false,
  retrySinceMs: 0,
  retryAtMs: 0,
  hostPort: 0,
  behindEntrance: false,
  portMisses: 0,
  limitsTried: "",
  limitsMisses: 0,
  limitsRetryAtMs: 0,
  limitsPause: "",
  overflowOf: "",
  overflowMb: 0,
  drainUntilMs: 0,
  grantedIn: "",
};

/** One placement as this node knows it. */
export interface PlacementRecord {
  /** What control last said. Of an orphan found without a journal only its ids are known. */
  placement: Placement;
  /** What this agent last reported, or is about to. */
  status: PlacementStatus;
  memory: Memory;
  /** Control's complete set did not name it: it goes on as it is until a verdict. */
  orphan: boolean;
}

/**
 * - `offer`: accepted, not granted
 * - `intent`: granted; the container may exist, it was not told to start
 * - `start-sent`: the engine was told to start it, so it may have run
 * - `exit`: it ran and ended
 * - `tombstone`: it did not and never will start
 * - `indeterminate`: nobody can tell whether it ran
 */
export type RunState = "offer" | "intent" | "start-sent" | "exit" | "tombstone" | "indeterminate";

export interface RunRecord {
  offer: RunOffer;
  state: RunState;
  /** Empty before the grant. */
  token: string;
  exitCode: number;
  timedOut: boolean;
  /** How much it might write to the disk, when it was ended because it wrote more. */
  overflowMb?: number;
  message: string;
  /** RFC 3339; empty when unknown. */
  startedAt: string;
  finishedAt: string;
  /** The directory of its gate on this machine, once it was to start. Absent: its container has none. */
  gate?: string;
  /** The boot of this machine in which it was to start. */
  startedIn?: string;
}
