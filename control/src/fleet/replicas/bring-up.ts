// @pure
import { limits } from "@svc/proto";
import { hasEnded } from "../cluster/keys.ts";
import { type Looking, lasted } from "../cluster/looking.ts";
import { explainRefusal } from "../scheduler/placement.ts";
import { roomMs } from "../scheduler/room.ts";
import { isServing, type TaskFacts } from "../tasks/deployment-status.ts";

/** How long what is to be up may take, at each step of its way. */
export const bringUpDeadlines = {
  /** For a node with room for it. */
  placementMs: 60_000,
  /** For a leader to be there and look. */
  schedulerMs: 5 * 60_000,
  pullMs: limits.pullSecondsMax * 1_000,
  /** A node that lost its stream may come back within this time and go on. */
  nodeLostMs: 60_000,
  /** Reports travel: added to what the agent enforces by itself. */
  graceMs: 60_000,
  /** Containers that are made for one slot. */
  attempts: 3,
  /** After that what has no room follows, where it may. */
  roomMs,
} as const;

/** What decides how a deployment's containers come up, whoever brings them: a deploy, a start or a resumption. */
export interface BringUpFacts extends Looking {
  /** How many are wanted, one in each slot. */
  replicas: number;
  /** How many were made since somebody asked, those that are gone included. */
  attempts: number;
  /** The deployment's. Those that are not to run do not count. */
  containers: readonly TaskFacts[];
  healthTimeoutSeconds: number;
  /** With half of them up it is up, if the others have no room: these follow once there is some. */
  restMayFollow: boolean;
}

export type BringUp =
  /** `lacks`: why some follow; null: all of them answer. */
  | { is: "up"; lacks: string | null }
  | { is: "wait"; for: string; nextLook: Date }
  /** One container for each of the slots, without those that nobody waits for any more. */
  | { is: "make"; slots: number[]; abandoned: Abandoned[] }
  /** `message` is empty where `code` says it all. `isOver`: by the app's own doing, so that no other node would do better. */
  | { is: "failed"; code: string; message: string; isOver: boolean };

export interface Abandoned {
  taskId: string;
  why: string;
}

type Failed = Extract<BringUp, { is: "failed" }>;

/** How far one container is. */
type Standing =
  | { is: "up" }
  | { is: "coming"; task: TaskFacts }
  | (Failed & { task: TaskFacts })
  | { is: "lost"; taskId: string; failure: { code: string; message: string } | null };

/** The next thing to do for a deployment whose containers are to answer. */
export function bringUp(facts: BringUpFacts): BringUp {
  const slots = Array.from({ length: facts.replicas }, (_, slot) => standingsIn(facts, slot));
  // Of several in one slot, which take each other's place, the best one counts.
  const best = slots.map(([first]) => first);
  const failed = best.filter((each) => each?.is === "failed");
  const own = failed.find(({ isOver }) => isOver);
  if (own) return failure(own);
  const lacks = facts.restMayFollow ? whatFollows(facts, best) : null;
  if (lacks !== null) return { is: "up", lacks };
  const [late] = failed;
  if (late) return failure(late);
  const missing = [...slots.keys()].filter((slot) => best[slot] === undefined || best[slot].is === "lost");
  if (missing.length > 0)
    return make(
      facts,
      missing,
      missing.flatMap((slot) => slots[slot] ?? []),
    );
  const coming = best.find((each) => each?.is === "coming");
  return coming === undefined
    ? { is: "up", lacks: null }
    : { is: "wait", for: waitsFor(coming.task), nextLook: nextLook(facts.now) };
}

const failure = ({ code, message, isOver }: Failed): BringUp => ({ is: "failed", code, message, isOver });

/** Something may become overdue without any event: look again in good time. */
export const nextLook = (now: Date): Date => new Date(now.getTime() + 5_000);

const ranks = ["up", "coming", "failed", "lost"] as const satisfies readonly Standing["is"][];

/** Best first. */
const standingsIn = (facts: BringUpFacts, slot: number): Standing[] =>
  facts.containers
    .filter((task) => task.slot === slot && task.desired === "running")
    .map((task) => standingOf(facts, task))
    .sort((a, b) => ranks.indexOf(a.is) - ranks.indexOf(b.is));

function standingOf(facts: BringUpFacts, task: TaskFacts): Standing {
  const { observation } = task;
  if (observation !== null && hasEnded(observation.observed)) {
    const { failure } = observation;
    return isOfNode(failure)
      ? { is: "lost", taskId: task.id, failure }
      : { is: "failed", code: failure.code, message: failure.message, isOver: true, task };
  }
  if (isNodeLost(facts, task)) return { is: "lost", taskId: task.id, failure: null };
  if (isServing(task)) return { is: "up" };
  const budgetMs = bringUpDeadlines.pullMs + facts.healthTimeoutSeconds * 1_000 + bringUpDeadlines.graceMs;
  const late = whyLate(facts, task, { budgetMs, code: "HEALTH_CHECK_FAILED" });
  return late === null ? { is: "coming", task } : { is: "failed", ...late, isOver: false, task };
}

type Failure = NonNullable<TaskFacts["observation"]>["failure"];

/** It ended for a reason that is not the app's own: another node may do better. */
const isOfNode = (failure: Failure): failure is null | (NonNullable<Failure> & { code: `NODE_${string}` }) =>
  failure === null || failure.code.startsWith("NODE_");

/** Its node has been away for longer than it may be. */
export const isNodeLost = (looking: Looking, { nodeLostAt }: TaskFacts): boolean =>
  nodeLostAt !== null && lasted(looking, nodeLostAt) >= bringUpDeadlines.nodeLostMs;

/** Why a task that gets somewhere takes too long; null: it may still get there. `budget`: for all of its way. */
export function whyLate(
  looking: Looking,
  { nodeId, refused, createdAt }: TaskFacts,
  budget: { budgetMs: number; code: string },
): { code: string; message: string } | null {
  const isOver = (ms: number) => lasted(looking, createdAt) >= ms;
  if (nodeId !== null) return isOver(budget.budgetMs) ? { code: budget.code, message: "" } : null;
  if (refused !== null) {
    return isOver(bringUpDeadlines.placementMs)
      ? { code: "NODE_CAPACITY_UNAVAILABLE", message: noNode(refused) }
      : null;
  }
  // Without a refusal no scheduler has looked at it yet: that says nothing about capacity.
  return isOver(bringUpDeadlines.schedulerMs)
    ? { code: "NODE_UNAVAILABLE", message: "No scheduler was there to place this deployment." }
    : null;
}

const noNode = (refused: Readonly<Record<string, number>>) =>
  `No node takes this deployment (${explainRefusal(refused)}).`;

/** Why it is up without all of its containers: at least half answer, and the rest has no room; null: it is not. */
function whatFollows(facts: BringUpFacts, best: readonly (Standing | undefined)[]): string | null {
  const up = best.filter((each) => each?.is === "up").length;
  const blocked = best.flatMap((each) => (each !== undefined && "task" in each ? blockedBy(facts, each.task) : []));
  const [refused] = blocked;
  const isEnough = up >= Math.ceil(facts.replicas / 2) && up + blocked.length === facts.replicas;
  return refused !== undefined && isEnough ? noNode(refused) : null;
}

/** No node has taken it for a while. */
function blockedBy(facts: Looking, { nodeId, refused, createdAt }: TaskFacts): Readonly<Record<string, number>>[] {
  return nodeId === null && refused !== null && lasted(facts, createdAt) >= bringUpDeadlines.roomMs ? [refused] : [];
}

function make({ attempts, replicas }: BringUpFacts, slots: number[], standings: readonly Standing[]): BringUp {
  const lost = standings.filter((each) => each.is === "lost");
  if (attempts + slots.length <= replicas * bringUpDeadlines.attempts) {
    const why = (failure: Failure | { message: string } | null) => failure?.message ?? "its node went away";
    return { is: "make", slots, abandoned: lost.map(({ taskId, failure }) => ({ taskId, why: why(failure) })) };
  }
  const last = lost.findLast(({ failure }) => failure !== null)?.failure;
  return {
    is: "failed",
    code: last?.code ?? "NODE_UNAVAILABLE",
    message: last?.message ?? "The nodes that were starting this deployment went away.",
    isOver: false,
  };
}

const waitsFor = ({ nodeId }: TaskFacts): string => (nodeId === null ? "a node to take it" : "the app to answer");
