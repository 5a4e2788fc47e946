// @pure
import { type DeploymentStatus, failureMessage } from "@svc/proto";
import { type Looking, lasted } from "../../../fleet/cluster/looking.ts";
import { type Abandoned, type BringUpFacts, bringUp } from "../../../fleet/replicas/bring-up.ts";
import { howFar, type RouteFacts } from "../../../fleet/routes/how-far.ts";
import { recheckAfterMs } from "../../../stores/work/recheck.ts";

/** What decides how a stop or a start goes on. All times are the database's. */
interface LifecycleFacts extends Looking {
  /** When it was asked for. */
  askedAt: Date;
  /** Of the deployment that it is about. */
  status: DeploymentStatus;
  projectGone: boolean;
  /** Null: its channel leads to another one, or to none. */
  channel: { stopped: boolean; since: Date } | null;
  /** Whether visitors get what the channel shows. */
  route: RouteFacts;
}

export interface StopFacts extends LifecycleFacts {
  action: "stop";
  /** It is what was asked for, or what a stop of that covers. */
  isCovered: boolean;
}

export interface StartFacts extends LifecycleFacts {
  action: "start";
  suspended: boolean;
  /** Why this start did not bring it up; null: nobody said so. */
  error: string | null;
  /** Containers of before are on their way out. */
  retiring: boolean;
  /** Null: it serves from no containers. */
  app: Omit<BringUpFacts, keyof Looking | "restMayFollow"> | null;
}

export type LifecycleStep =
  /** Visitors are to get the page. */
  | { do: "close" }
  /** They do: it is stopped, and its containers go. */
  | { do: "stopped" }
  /** Containers for these slots, without those that nobody waits for any more. */
  | { do: "make"; slots: number[]; abandoned: Abandoned[] }
  /** Visitors are to get the site. */
  | { do: "open" }
  /** They do: it runs. */
  | { do: "started"; detail: string | null }
  /** The site stays stopped. */
  | { do: "fail"; message: string }
  /** `recheckMs`: not a matter of moments, so other work comes first; null: it is. */
  | { do: "wait"; for: string; recheckMs: number | null }
  /** `error`: why it could not be done. */
  | { do: "end"; error: string | null };

/** An app usually starts within that: so long its start has the room to itself. */
const startMs = 60_000;
const soonMs = 10_000;

/** The next thing to do for a stop or a start of what production serves. */
export const nextLifecycleStep = (facts: StopFacts | StartFacts): LifecycleStep =>
  facts.action === "stop" ? stopStep(facts) : startStep(facts);

const done = { do: "end", error: null } as const;

const wait = (reason: string, waitedMs: number, longMs: number): LifecycleStep => ({
  do: "wait",
  for: reason,
  recheckMs: waitedMs < longMs ? null : recheckAfterMs(waitedMs),
});

function stopStep(facts: StopFacts): LifecycleStep {
  const { status, projectGone, channel, isCovered } = facts;
  if (projectGone || channel === null) return done;
  // It takes the traffic over at this moment; there is nothing to stop before it has, or has given up.
  if (status === "deploying") return wait("it to have the traffic, or not", lasted(facts, facts.askedAt), soonMs);
  if (status !== "running" || !isCovered) return done;
  if (!channel.stopped) return { do: "close" };
  return waitForEdges(facts, channel.since) ?? { do: "stopped" };
}

function startStep(facts: StartFacts): LifecycleStep {
  const { status, projectGone, channel, app } = facts;
  if (projectGone || status !== "stopped" || channel === null) return done;
  // It was written down, and whoever did so did not get to say that it is over.
  if (facts.error !== null) return { do: "end", error: facts.error };
  if (facts.suspended) return { do: "fail", message: "The project is suspended." };
  // Using those again would race with their removal. It needs a worker as this does: none waits for it.
  if (facts.retiring) return wait("containers of before to go", lasted(facts, facts.askedAt), 0);
  const { now, lookingSince } = facts;
  // A site that is up in part is better than one that stays stopped.
  const next = app === null ? up : bringUp({ now, lookingSince, ...app, restMayFollow: true });
  const fail = ({ code, message }: { code: string; message: string }): LifecycleStep => ({
    do: "fail",
    message: message === "" ? failureMessage(code) : message,
  });
  if (!channel.stopped) {
    if (next.is === "failed" && next.isOver) return fail(next);
    // Visitors are sent to these containers. Whatever takes their place is for the keeper of replicas to make, which ends none
    // before edges have left it.
    const detail = next.is === "up" ? next.lacks : null;
    return waitForEdges(facts, channel.since) ?? { do: "started", detail };
  }
  switch (next.is) {
    case "make":
      return { do: "make", slots: next.slots, abandoned: next.abandoned };
    case "failed":
      return fail(next);
    case "wait":
      return wait(next.for, lasted(facts, newest(app)), startMs);
    case "up":
      return { do: "open" };
  }
}

const up = { is: "up", lacks: null } as const;

/** When the last of its containers was made. */
const newest = (app: StartFacts["app"]): Date =>
  new Date(Math.max(0, ...(app?.containers ?? []).map(({ createdAt }) => createdAt.getTime())));

/** Null once visitors get what the channel shows: an edge that is dead must not hold up everything that the owner does. */
function waitForEdges(facts: StopFacts | StartFacts, since: Date): LifecycleStep | null {
  const forMs = lasted(facts, since);
  const far = howFar(facts.route, forMs);
  if (far === "everywhere" || far === "behind") return null;
  return { do: "wait", for: "the edges to follow", recheckMs: far === "coming" ? null : recheckAfterMs(forMs) };
}
