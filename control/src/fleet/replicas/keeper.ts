import type { Clock, Timer } from "@svc/runtime/clock";
import type { Limiter } from "@svc/runtime/limiter";
import type { Log } from "../../log.ts";
import type { Metrics } from "../../metrics/metrics.ts";
import { type Etcd, type Leadership, LeadershipLost } from "../../stores/etcd/index.ts";
import { LeaderOutdated } from "../cluster/fenced.ts";
import type { Fleet } from "../cluster/fleet.ts";
import type { StormWatch } from "../cluster/storm/watch.ts";
import { haveEdgesLeft } from "../routes/left.ts";
import { createSiteReader, type ReadSite } from "./read.ts";
import type { ReplicaRows } from "./rows.ts";
import { noteServed } from "./served.ts";
import { type KeeperState, keepReplicas, type ReplicaStep, type Site } from "./steps.ts";

export interface KeeperDeps {
  clock: Clock;
  rows: ReplicaRows;
  etcd: Etcd;
  fleet: Fleet;
  leadership: Leadership;
  storms: StormWatch;
  drainMs: number;
  log: Log;
  metrics?: Pick<Metrics, "replicasReplaced"> | undefined;
  /** Held while a site's steps are carried out: no other table is published meanwhile. */
  takeTurns: Limiter;
  /** Asks for another round before anything happens. */
  lookAgain: () => void;
}

/** Sites in a row that fail for whatever reason of their own; more of them mean that the stores do. */
const failuresMax = 10;

/** After a round that left something to time, which nobody announces. */
const lookAgainMs = 2_000;

export interface ReplicaKeeper {
  /** One round. */
  keep(): Promise<void>;
  /** A container waits for edges to send nobody to it any more: what they report, and what is published, concerns it. */
  isAnyLeaving(): boolean;
}

/**
 * Keeps every site at its number of replicas, round by round. Safe to repeat and to lose at any point: what a
 * round did not get to, the next one finds. A site that fails holds up no other one, and comes last in the next round.
 */
export function createKeeper(deps: KeeperDeps): ReplicaKeeper {
  const { clock, rows, etcd, fleet, leadership, storms, drainMs, log } = deps;
  const readSites = createSiteReader({ rows, fleet, log });
  const failed = new Set<string>();
  let timer: Timer | null = null;
  let isAnyLeaving = true;
  const decide = (sites: KeeperState["sites"], isStorm: boolean) =>
    keepReplicas({ now: fleet.now(), storm: isStorm, drainMs, sites });

  /** A round takes its time, so what it decided must still be what the fleet asks for. */
  async function carryOut(read: ReadSite, decided: readonly ReplicaStep[]): Promise<void> {
    const site = read.current();
    const wanted = new Set(decide([site], storms.current() !== null).map(about));
    if (!decided.every((step) => wanted.has(about(step)))) return;
    const steps = await withoutRouted(read, site, decided);
    if (steps.length === 0) return;
    if (!(await rows.carryOut({ epoch: leadership.epoch, drainMs }, site, steps))) return;
    for (const step of steps) {
      if (step.do === "replace") deps.metrics?.replicasReplaced.inc({ cause: step.cause });
      log.info({ ...step }, "replica");
    }
  }

  /** Without the removals of what an edge still uses. */
  async function withoutRouted(read: ReadSite, { running }: Site, steps: readonly ReplicaStep[]) {
    const leaving = new Set(
      running.filter((each) => each.retiring && each.node !== "gone").map(({ taskId }) => taskId),
    );
    const isRouted = async (step: ReplicaStep) =>
      step.do === "remove" &&
      leaving.has(step.taskId) &&
      !(await haveEdgesLeft({ edges: rows.edges, etcd, fleet }, read.hosts, read.isLeft(step.taskId)));
    const routed = await Promise.all(steps.map(isRouted));
    return steps.filter((_, at) => !routed[at]);
  }

  async function keep(): Promise<void> {
    const storm = await storms.look();
    const reads = await readSites();
    // From before anything is decided: what changes afterwards has the next round look again.
    isAnyLeaving = reads.some((read) => read.isLeaving);
    const sites = reads.map((read) => read.current());
    await noteServed(rows, leadership.epoch, sites);
    const steps = Map.groupBy(decide(sites, storm !== null), ({ deploymentId }) => deploymentId);
    const open = reads.filter(({ deploymentId }) => steps.has(deploymentId));
    const last = open.filter(({ deploymentId }) => failed.has(deploymentId));
    const inOrder = [...open.filter(({ deploymentId }) => !failed.has(deploymentId)), ...last];
    failed.clear();
    const isDraining = sites.some(({ running }) => running.some(({ unroutedAt }) => unroutedAt !== null));
    using _again = {
      [Symbol.dispose]() {
        timer?.[Symbol.dispose]();
        if (failed.size > 0 || isDraining || storm !== null) timer = clock.after(lookAgainMs, deps.lookAgain).unref();
      },
    };
    let inARow = 0;
    for (const read of inOrder) {
      const { deploymentId } = read;
      // The clock is asked, too: after a pause of the process no timer has run yet.
      if (!leadership.isHeld()) throw new LeadershipLost("no longer the leader");
      try {
        await deps.takeTurns(() => carryOut(read, steps.get(deploymentId) ?? []));
        inARow = 0;
      } catch (error) {
        if (error instanceof LeaderOutdated || error instanceof LeadershipLost) throw error;
        failed.add(deploymentId);
        inARow += 1;
        if (inARow >= failuresMax) throw error;
        log.warn({ err: error, deploymentId }, "a site's replicas were not kept this time");
      }
    }
  }

  return { keep, isAnyLeaving: () => isAnyLeaving };
}

/** What a step does, for comparing. */
const about = (step: ReplicaStep): string =>
  step.do === "replace" ? `replace ${step.slot} ${step.cause}` : `${step.do} ${step.taskId}`;
