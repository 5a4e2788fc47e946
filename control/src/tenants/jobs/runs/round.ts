import { createLimiter } from "@svc/runtime/limiter";
import { isRunOver } from "../../../fleet/cluster/keys.ts";
import { explainRefusal, type Hints } from "../../../fleet/scheduler/placement.ts";
import { listReservations, namedNodes } from "../../../fleet/scheduler/snapshot.ts";
import { type Attempts, createAttempts, type SeenRun } from "../../../fleet/tasks/attempts.ts";
import { cancelRun } from "../../../fleet/tasks/runs.ts";
import { applyStep, type JobRunDeps } from "./apply.ts";
import { type Placing, placeAttempts } from "./placing.ts";
import { type ReadRuns, readOpenRuns } from "./read.ts";
import { said } from "./rules.ts";
import { type JobRunFacts, type JobRunStep, nextJobRunStep } from "./steps.ts";
import { orderInTurn } from "./turns.ts";

/** Runs whose next steps are done at once: each is a transaction or two. */
const stepsAtOnce = 16;

/**
 * One round over all runs of jobs that are not over. Every step may be repeated, and is done only while what it was decided on is
 * there. A run is nobody's while it runs: hours of it cost a row in each round.
 */
export async function driveJobRuns(deps: JobRunDeps): Promise<void> {
  const { clock, leadership, log } = deps;
  const attempts = createAttempts({ clock, txn: (ops, guards) => leadership.txn(ops, guards) });
  const read = await readOpenRuns(deps);
  const decided = read.runs.map((facts) => ({ facts, step: nextJobRunStep(facts) }));
  const wanting = decided.filter(({ step }) => step.do === "place").map(({ facts }) => facts);
  const placings = wanting.length === 0 ? new Map<string, Placing>() : await placeAll(deps, read, wanting);
  const inTurn = createLimiter({ total: stepsAtOnce });
  const done = await Promise.allSettled([
    ...decided.map(({ facts, step }) =>
      inTurn(() => applyStep({ ...deps, attempts }, read, facts, placed(facts, step, placings))),
    ),
    ...read.unwanted.map((seen) => inTurn(() => clear(deps, attempts, seen))),
  ]);
  const failed = done.filter((each) => each.status === "rejected");
  // What went wrong with one is no trouble of the others, which have had their turn.
  for (const { reason } of failed.slice(1)) log.warn({ err: reason }, "a step of a job's run failed");
  if (failed[0] !== undefined) throw failed[0].reason;
}

/** What to do for a run, once it is known which nodes have room. */
function placed(facts: JobRunFacts, step: JobRunStep, placings: ReadonlyMap<string, Placing>) {
  if (step.do !== "place") return step;
  const placing = placings.get(facts.id) ?? { turn: true };
  if ("nodeId" in placing) return { do: "make", nodeId: placing.nodeId } as const;
  if ("turn" in placing) return { do: "wait" } as const;
  const note = said("capacity");
  return { do: "note", said: { ...note, message: `${note.message} (${explainRefusal(placing.refused)})` } } as const;
}

async function placeAll(
  { clock, rows, fleet }: JobRunDeps,
  { runs }: ReadRuns,
  wanting: readonly JobRunFacts[],
): Promise<Map<string, Placing>> {
  // The same ones first in rounds that follow each other at once, and none because of its name or its age.
  const requests = await rows.requests(wanting.toSorted(orderInTurn(clock.now())));
  const starting = new Map<string, number>();
  for (const { attempt } of runs) {
    const state = attempt?.run?.state;
    if (attempt === null || (state !== undefined && (state === "started" || isRunOver(state)))) continue;
    starting.set(attempt.nodeId, (starting.get(attempt.nodeId) ?? 0) + 1);
  }
  const nodes = namedNodes(await rows.nodes(), fleet);
  const deploymentIds = new Set(wanting.map(({ deploymentId }) => deploymentId));
  return placeAttempts(
    { nodes, taken: listReservations(fleet), starting, hints: holdersOf(fleet, deploymentIds) },
    requests,
  );
}

/** Nodes that have the image of a deployment, since a container of it runs there. */
function holdersOf(fleet: Pick<JobRunDeps["fleet"], "placements" | "observation">, of: ReadonlySet<string>): Hints {
  const images = new Map<string, Set<string>>();
  for (const { nodeId, placement } of fleet.placements()) {
    if (!of.has(placement.ownerId) || placement.kind !== "serve") continue;
    if (fleet.observation(nodeId, placement.placementId)?.observed !== "running") continue;
    images.set(placement.ownerId, (images.get(placement.ownerId) ?? new Set()).add(nodeId));
  }
  return { images, failures: new Map() };
}

/** Ends what nobody waits for, and forgets it once it is over. */
async function clear({ clock, etcd }: JobRunDeps, attempts: Attempts, seen: SeenRun): Promise<void> {
  if (isRunOver(seen.run.state)) await attempts.forget(seen);
  else if (!seen.run.cancel) await cancelRun(etcd, seen.nodeId, seen.run.attemptId, clock.now());
}
