import type { Checks } from "../checks.ts";
import type { World } from "../world.ts";

/** How long a decision may rest on what was true before: a watch that stands still unnoticed, a late write, and some air. */
export const lagMs = 45_000;

/** What several checks go by: all that has happened so far, in true time. */
export class Seen {
  /** How often an attempt was started, and which ran to their end. */
  readonly starts = new Map<string, number>();
  readonly ranToEnd = new Set<string>();
  /** Attempts of which it was said that they never started. */
  readonly neverStarted = new Set<string>();
  readonly endedPlacements = new Set<string>();
  readonly placementNode = new Map<string, string>();
  /**
   * Placed a moment before etcd was restored, and Postgres had not heard of it: nobody knows any more where they may run,
   * and they are placed anew.
   */
  readonly lostPlacements = new Set<string>();
  /** When a placement was made, in true time. */
  readonly placedAtMs = new Map<string, number>();
  /** When a machine last told its engine to stop a container. */
  readonly stopOrderedAtMs = new Map<string, number>();
  /** Since when a node is lost or removed. */
  readonly goneSinceMs = new Map<string, number>();
  /** Since when a node has had no session key, which is when its lease was over. */
  readonly absentSinceMs = new Map<string, number>();
  /** Deployments that a stop covers, and those of them that must not come to serve any more before a start. */
  readonly toStop = new Set<string>();
  readonly stopped = new Set<string>();

  readonly world: World;
  private readonly checks: Checks;

  constructor(world: World, checks: Checks) {
    this.world = world;
    this.checks = checks;
  }

  readonly fail = (invariant: number, text: string): void => this.checks.fail(invariant, text);

  get nowMs(): number {
    return this.world.kernel.nowMs;
  }
}

/** Looks at one kind of what happens. */
export abstract class Check {
  protected readonly seen: Seen;

  constructor(seen: Seen) {
    this.seen = seen;
  }

  protected get world(): World {
    return this.seen.world;
  }

  protected get nowMs(): number {
    return this.seen.nowMs;
  }

  protected fail(invariant: number, text: string): void {
    this.seen.fail(invariant, text);
  }
}
