import { clip, limits, stripControl } from "@svc/proto";
import { RunPhase, type RunStatus } from "@svc/proto/node";
import { isRunOver, type RunValue } from "../cluster/keys.ts";
import { timeOf } from "./apply-status.ts";

/**
 * What the agent on the machine with `bootId` is to be told because of the run's present state; null when it is its turn,
 * or nobody's. Only the machine that accepted is told of the grant: another one may use the same identity.
 */
export function runMessage(
  run: Pick<RunValue, "state" | "cancel" | "token" | "acceptedBy">,
  bootId: string,
): "cancel" | "offer" | "grant" | null {
  const { state, cancel, token } = run;
  if (isRunOver(state)) return null;
  if (cancel) return "cancel";
  if (state === "offered") return "offer";
  return state === "granted" && token !== null && isAcceptedBy(run, bootId) ? "grant" : null;
}

const isAcceptedBy = ({ acceptedBy }: Pick<RunValue, "acceptedBy">, bootId: string): boolean =>
  acceptedBy === null || acceptedBy === bootId;

/** What follows from something that the agent said about a run. */
export interface RunAnswer {
  /** The run's next value; null when nothing changes. */
  write: RunValue | null;
  /** Whether the agent may forget the attempt, once `write` is stored. */
  ack: boolean;
}

const nothing: RunAnswer = { write: null, ack: false };

/** The agent takes an offer, or refuses it with a reason. Only the first answer counts. */
export function acceptRun(run: RunValue | null, refusedBecause: string, now: Date, bootId: string): RunAnswer {
  // Without a key nobody waits for the attempt any more: the agent may drop it.
  if (run === null) return { write: null, ack: true };
  if (run.state !== "offered") return { write: null, ack: isRunOver(run.state) };
  const changedAt = now.toISOString();
  return refusedBecause === ""
    ? { write: { ...run, state: "accepted", acceptedBy: bootId, changedAt }, ack: false }
    : { write: { ...run, state: "refused", message: forPeople(refusedBecause), changedAt }, ack: true };
}

/**
 * The agent's evidence. It moves a run forward only, and a start or an exit counts only with the
 * token of the grant: no other agent, and no earlier attempt, can have it.
 */
export function recordRun(run: RunValue | null, status: RunStatus, now: Date, bootId: string): RunAnswer {
  const final = status.phase !== RunPhase.STARTED && status.phase !== RunPhase.UNSPECIFIED;
  if (run === null) return { write: null, ack: final };
  if (isRunOver(run.state)) return { write: null, ack: final };
  const granted = run.state === "granted" || run.state === "started";
  const tokenFits = run.token !== null && run.token === status.token;
  const changedAt = now.toISOString();
  const startedAt = status.startedAt === "" ? run.startedAt : timeOf(status.startedAt, now);
  switch (status.phase) {
    case RunPhase.STARTED:
      return run.state === "granted" && tokenFits
        ? { write: { ...run, state: "started", startedAt, changedAt }, ack: false }
        : nothing;
    case RunPhase.EXITED: {
      if (!granted || !tokenFits) return nothing;
      const { exitCode, timedOut } = status;
      const finishedAt = timeOf(status.finishedAt, now);
      const message = status.message === "" ? null : forPeople(status.message);
      return {
        write: { ...run, state: "exited", exitCode, timedOut, message, startedAt, finishedAt, changedAt },
        ack: true,
      };
    }
    case RunPhase.NOT_STARTED: {
      const message = forPeople(status.message);
      // It said before that the command had started: which of the two is true cannot be known. Nor what the machine that
      // was allowed to start it has done, when another one says that it did not: a copy of its disk has the token, too.
      const isUncertain = run.state === "started" || (granted && !isAcceptedBy(run, bootId));
      const state = isUncertain ? "indeterminate" : "not_started";
      return { write: { ...run, state, message, changedAt }, ack: true };
    }
    case RunPhase.INDETERMINATE:
      return {
        write: { ...run, state: "indeterminate", message: forPeople(status.message), startedAt, changedAt },
        ack: true,
      };
    default:
      return nothing;
  }
}

const forPeople = (text: string) => clip(stripControl(text), limits.errorTextBytesMax);
