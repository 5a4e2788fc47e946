import type { Storm } from "@svc/control/fleet/cluster/storm/rules";
import type { ReplicaStep, Site } from "@svc/control/fleet/replicas/steps";
import { drainSecondsAfter } from "@svc/control/fleet/tasks/drain";
import { type Work, wait } from "../../kernel/kernel.ts";
import type { createQueue } from "../../kernel/queue.ts";
import { readRouting } from "../routed.ts";
import { inFencedTransaction, type Leader } from "./fenced.ts";
import { createSiteReader, type ReadSite } from "./read-sites.ts";
import type { StormWatch } from "./storm-watch.ts";

const drainMs = 5_000;

/**
 * Returns the round that keeps every site at its number of replicas: mirrors `control/src/fleet/replicas/keeper.ts`. A site's
 * steps take turns with what publishes routes.
 */
export function createKeeper(
  leader: Leader,
  storms: StormWatch,
  takeTurns: ReturnType<typeof createQueue>,
): () => Work {
  const { replica } = leader;
  const { fleet, world } = replica;
  const readSites = createSiteReader(replica);
  const decide = (sites: readonly Site[], storm: Storm | null): ReplicaStep[] =>
    world.cores.keepReplicas({ now: fleet.now(), storm: storm !== null, drainMs, sites });

  /** A round takes its time, so what it decided must still be what the fleet asks for. */
  function* carryOut(read: ReadSite, decided: readonly ReplicaStep[]): Work {
    const site = read.current();
    const wanted = new Set(decide([site], storms.current()).map(about));
    if (!decided.every((step) => wanted.has(about(step)))) return;
    const steps = yield* withoutRouted(read, site, decided);
    if (steps.length > 0) yield* applySteps(leader, site, steps);
  }

  /** Without the removals of what an edge still uses by etcd itself: the view may be old. */
  function* withoutRouted(
    read: ReadSite,
    { running }: Site,
    steps: readonly ReplicaStep[],
  ): Work<readonly ReplicaStep[]> {
    const leaving = new Set(
      running.filter(({ retiring, node }) => retiring && node !== "gone").map(({ taskId }) => taskId),
    );
    const isRemoval = (step: ReplicaStep) => step.do === "remove" && leaving.has(step.taskId);
    if (!world.cores.shell.waitsForEdges || !steps.some(isRemoval)) return steps;
    const routing = yield* readRouting(replica, read.host);
    return steps.filter((step) => step.do !== "remove" || !isRemoval(step) || read.isLeft(step.taskId, routing));
  }

  return function* () {
    const storm = yield* storms.look();
    const reads = yield* readSites();
    const sites = reads.map((read) => read.current());
    yield* noteServed(leader, sites);
    const steps = Map.groupBy(decide(sites, storm), ({ deploymentId }) => deploymentId);
    for (const read of reads) {
      const decided = steps.get(read.deploymentId);
      if (decided !== undefined) yield* wait(takeTurns(() => carryOut(read, decided)));
    }
  };
}

/** What a step does, for comparing. */
const about = (step: ReplicaStep): string =>
  step.do === "replace" ? `replace ${step.slot} ${step.cause}` : `${step.do} ${step.taskId}`;

/** Writes down which replicas have come to serve: mirrors `control/src/fleet/replicas/served.ts`. */
function* noteServed(leader: Leader, sites: readonly Site[]): Work {
  const { world } = leader.replica;
  const fresh = sites.flatMap(({ running }) => running.filter(({ serving, served }) => serving && !served));
  if (fresh.length === 0) return;
  yield* inFencedTransaction(leader, (tables) => {
    for (const { taskId } of fresh) {
      const task = tables.tasks.get(taskId);
      if (task !== undefined) task.servedAt ??= world.postgres.now();
    }
  });
}

/** Unless the site is another one than was decided on: mirrors `control/src/fleet/replicas/apply.ts`. */
function* applySteps(leader: Leader, { deploymentId, running }: Site, steps: readonly ReplicaStep[]): Work {
  const { world } = leader.replica;
  yield* inFencedTransaction(leader, (tables, notify) => {
    const deployment = tables.deployments.get(deploymentId);
    const row = tables.siteOf(deployment?.projectId ?? "");
    if (deployment?.status !== "running" || row === null || row.deploymentId !== deploymentId || row.stopped) return;
    const open = [...tables.open.values()].filter(
      (task) => task.ownerId === deploymentId && task.desired === "running",
    );
    const known = new Map(running.map(({ taskId, retiring }) => [taskId, retiring]));
    if (open.length !== known.size || !open.every(({ id, retiringAt }) => known.get(id) === (retiringAt !== null)))
      return;
    for (const step of steps) {
      world.kernel.note(() => `keeper: ${JSON.stringify(step)}`);
      if (step.do === "replace") {
        world.checks.onReplace(step.cause);
        tables.insertTask({
          projectId: deployment.projectId,
          deploymentId,
          replica: step.slot,
          memoryMb: row.memoryMb,
          createdAt: world.postgres.now(),
          cause: step.cause,
        });
      } else {
        const task = tables.open.get(step.taskId);
        if (task === undefined) continue;
        if (step.do === "retire") {
          task.retiringAt ??= world.postgres.now();
          notify("route", deployment.projectId);
        } else tables.removeTasks([task.id], drainSecondsAfter(deployment.drainSeconds, drainMs));
      }
    }
    notify("task");
  });
}
