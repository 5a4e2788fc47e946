import { isRunOver, type RunValue } from "@svc/control/fleet/cluster/keys";
import { type AttemptEnd, beginOf, cancelOf, type Outcome } from "@svc/control/tenants/jobs/runs/rules";
import { type JobRunFacts, type JobRunStep, nextJobRunStep } from "@svc/control/tenants/jobs/runs/steps";
import { isJobRunOver, type JobRunStatus } from "@svc/proto";
import type { Model } from "./explore.ts";

/**
 * Runs of one job between Postgres, etcd, two that take themselves for the leader , and nodes: real `nextJobRunStep`, `beginOf` and
 * `cancelOf`. What a leader decides it carries out later, or never, in two halves between which it may be killed; each
 * half is guarded as the real one is. A run may be canceled at any moment, and a node may be silent at any moment.
 */
interface Attempt {
  outcome: Outcome | null;
  /** Its record in etcd; null: none. */
  state: RunValue["state"] | null;
  cancel: boolean;
  exitCode: number | null;
  box: "none" | "running" | "ended";
  starts: number;
  isAway: boolean;
}
interface Run {
  status: JobRunStatus;
  reason: string | null;
  count: number;
  attempts: readonly Attempt[];
}
interface Intent {
  run: number;
  /** Of the run when it was decided. */
  status: JobRunStatus;
  /** The attempt that it is about, and its record as it was seen. */
  attempt: number;
  seen: RunValue["state"] | null;
  seenCancel: boolean;
  step: JobRunStep;
  /** The first half is done: what is left is in etcd. */
  isWritten: boolean;
}
interface State {
  runs: readonly Run[];
  leaders: readonly (Intent | null)[];
  wrong: string | null;
}

export type JobRunMutant =
  | "overlap ignores unknown"
  | "retry after unknown"
  | "grant before Postgres"
  | "cancel ends what runs";

export interface JobRunBounds {
  leaders: number;
  runs: number;
  /** Of each run. */
  attempts: number;
}

const now = new Date(1e9);
const then = new Date(0).toISOString();

const replaced = <T>(list: readonly T[], at: number, value: T): readonly T[] =>
  list.map((each, i) => (i === at ? value : each));

function change(state: State, run: number, values: Partial<Run>): State {
  return { ...state, runs: replaced(state.runs, run, { ...(state.runs[run] as Run), ...values }) };
}
function move(state: State, run: number, at: number, values: Partial<Attempt>): State {
  const { attempts } = state.runs[run] as Run;
  return change(state, run, { attempts: replaced(attempts, at, { ...(attempts[at] as Attempt), ...values }) });
}

const recordOf = ({ state, cancel, exitCode }: Attempt): RunValue | null =>
  state === null
    ? null
    : {
        ...{ attemptId: "a", kind: "job", ownerKind: "job", ownerId: "r", projectId: "p", state, cancel, exitCode },
        ...{ acceptedBy: null, token: null, timedOut: false, message: null, startedAt: null, finishedAt: null },
        changedAt: now.toISOString(),
      };

function factsOf({ runs }: State, at: number): JobRunFacts {
  const { status, reason, count, attempts } = runs[at] as Run;
  const open = attempts.findIndex(({ outcome }) => outcome === null);
  const current = attempts[open];
  const began = attempts.findLastIndex(({ outcome }) => outcome !== null && outcome !== "not_started");
  return {
    ...{ now, id: String(at), jobId: "j", status, reason, trigger: "schedule", attemptCount: count },
    ...{ createdAt: now, retryAt: null, deploymentId: "d" },
    isFirst: runs.findIndex((run) => !isJobRunOver(run.status)) === at,
    job: { deploymentId: "d", retries: 1, isRetired: false, pause: null },
    ...{ projectGone: false, hasImage: true },
    attempt: current
      ? {
          ...{ id: String(open), number: open, nodeId: "n", run: recordOf(current) },
          nodeLostAt: current.isAway ? new Date(then) : null,
        }
      : null,
    last: began < 0 ? null : { outcome: (attempts[began] as Attempt).outcome as Outcome, message: null },
    neverBegan: attempts.slice(began + 1).filter(({ outcome }) => outcome === "not_started").length,
  };
}

const isWaiting = (status: JobRunStatus): boolean => status === "queued" || status === "waiting";
const unknownEnd: AttemptEnd = { outcome: "unknown", reason: "unknown", message: null, exitCode: null };

export function jobRuns(mutant: JobRunMutant | null, limits: JobRunBounds): Model<State> {
  function decide(state: State, at: number): JobRunStep {
    const facts = factsOf(state, at);
    const { attempt, status } = facts;
    const isRunning = attempt?.run?.state === "granted" || attempt?.run?.state === "started";
    if (mutant === "overlap ignores unknown" && status === "running" && isRunning && attempt?.nodeLostAt) {
      const ending = { status: "failed", reason: "unknown", message: null } as const;
      return { do: "conclude", attempt, end: unknownEnd, after: { ends: ending } };
    }
    const step = nextJobRunStep(facts);
    if (mutant === "retry after unknown" && step.do === "conclude" && step.end.outcome === "unknown") {
      return { ...step, after: { againMs: 0, begun: facts.attemptCount, reason: "retry", message: null } };
    }
    return step;
  }

  /** What is written to Postgres; null: it is not what it was, and nothing happens. */
  function write(state: State, intent: Intent): State | null {
    const run = state.runs[intent.run] as Run;
    const attempt = run.attempts[intent.attempt];
    const { step } = intent;
    switch (step.do) {
      case "end": {
        const { status, reason } = step.ending;
        return isWaiting(run.status) ? change(state, intent.run, { status, reason }) : null;
      }
      case "note":
        return isWaiting(run.status)
          ? change(state, intent.run, { status: "waiting", reason: step.said.reason })
          : null;
      case "place": {
        const isOpen = run.attempts.some(({ outcome }) => outcome === null);
        if (!isWaiting(run.status) || isOpen || run.attempts.length >= limits.attempts) return null;
        const made: Attempt = {
          ...{ outcome: null, state: null, cancel: false, exitCode: null, box: "none", starts: 0, isAway: false },
        };
        return change(state, intent.run, { attempts: [...run.attempts, made] });
      }
      case "grant": {
        const mayGrant = isWaiting(run.status) || run.status === "running";
        if (!mayGrant) return null;
        if (attempt === undefined || attempt.outcome !== null) return null;
        if (mutant === "grant before Postgres") return state;
        const count = run.status === "running" ? run.count : run.count + 1;
        return change(state, intent.run, { status: "running", reason: null, count });
      }
      case "conclude": {
        if (run.status !== intent.status || (attempt && attempt.outcome !== null)) return null;
        const { end, after } = step;
        const values =
          "ends" in after
            ? { status: after.ends.status, reason: after.ends.reason }
            : { status: "waiting" as const, reason: after.reason, count: after.begun };
        const next = change(state, intent.run, values);
        return attempt ? move(next, intent.run, intent.attempt, { outcome: end.outcome }) : next;
      }
      default:
        return state;
    }
  }

  /** What is written to etcd after that, each guarded by what was seen; states only move on, so equal means unchanged. */
  function commit(state: State, intent: Intent): State {
    const run = state.runs[intent.run] as Run;
    const at = intent.step.do === "place" ? run.attempts.length - 1 : intent.attempt;
    const attempt = run.attempts[at];
    if (attempt === undefined) return state;
    const isSeen = attempt.state === intent.seen && attempt.cancel === intent.seenCancel;
    const put = (values: Partial<Attempt>) => move(state, intent.run, at, values);
    switch (intent.step.do) {
      case "place":
      case "offer":
        return attempt.state === null && attempt.outcome === null ? put({ state: "offered" }) : state;
      case "withdraw":
        return isSeen ? put({ state: "not_started" }) : state;
      case "stop":
        return attempt.state !== null && !isRunOver(attempt.state) ? put({ cancel: true }) : state;
      case "grant":
        return isSeen && attempt.state === "accepted" ? put({ state: "granted" }) : state;
      case "conclude":
        return isSeen ? put({ state: null }) : state;
      default:
        return state;
    }
  }

  function* leads(state: State, who: number): Iterable<readonly [string, State]> {
    const intent = state.leaders[who] ?? null;
    const set = (from: State, next: Intent | null): State => ({ ...from, leaders: replaced(from.leaders, who, next) });
    if (intent !== null) {
      yield [`${who} is killed`, set(state, null)];
      if (intent.isWritten) yield [`${who} writes ${intent.step.do} to etcd`, set(commit(state, intent), null)];
      else {
        const written = write(state, intent);
        yield [
          `${who} writes ${intent.step.do}`,
          written === null ? set(state, null) : set(written, { ...intent, isWritten: true }),
        ];
      }
      return;
    }
    for (const [at, run] of state.runs.entries()) {
      if (isJobRunOver(run.status)) continue;
      const step = decide(state, at);
      if (step.do === "wait") continue;
      const open = run.attempts.findIndex(({ outcome }) => outcome === null);
      const seen = run.attempts[open];
      const decided: Intent = {
        ...{ run: at, status: run.status, attempt: open, step, isWritten: false },
        ...{ seen: seen?.state ?? null, seenCancel: seen?.cancel ?? false },
      };
      yield [`${who} decides ${step.do} for run ${at}`, set(state, decided)];
    }
  }

  function* works(state: State, r: number, a: number): Iterable<readonly [string, State]> {
    const run = state.runs[r] as Run;
    const attempt = run.attempts[a] as Attempt;
    const to = (values: Partial<Attempt>) => move(state, r, a, values);
    const name = `run ${r} attempt ${a}`;
    if (attempt.box === "running") yield [`${name}: the command ends`, to({ box: "ended" })];
    // Its run is over, or its outcome is written down: its record goes.
    if (attempt.state !== null && (isJobRunOver(run.status) || attempt.outcome !== null)) {
      yield [`${name}: is cleared`, isRunOver(attempt.state) ? to({ state: null }) : to({ cancel: true })];
    }
    if (attempt.state === null || isRunOver(attempt.state)) return;
    yield [`${name}: its node is ${attempt.isAway ? "back" : "away"}`, to({ isAway: !attempt.isAway })];
    const mayRun = attempt.state === "granted" || attempt.state === "started";
    yield [
      `${name}: its node is fenced`,
      to({ state: mayRun ? "indeterminate" : "not_started", box: attempt.box === "running" ? "ended" : attempt.box }),
    ];
    if (attempt.isAway) return;
    if (attempt.state === "offered" && !attempt.cancel) yield [`${name}: is accepted`, to({ state: "accepted" })];
    if (attempt.cancel && !mayRun) yield [`${name}: is called off`, to({ state: "not_started" })];
    if (attempt.cancel && mayRun && attempt.box === "none")
      yield [`${name}: is called off`, to({ state: "not_started" })];
    if (attempt.cancel && attempt.box === "running") yield [`${name}: is ended`, to({ box: "ended" })];
    if (attempt.state === "granted" && attempt.box === "none" && !attempt.cancel) {
      const isAllowed = run.status === "running" || run.status === "cancel_requested";
      const begun = run.attempts.slice(0, a);
      const wrong = !isAllowed
        ? `an attempt began while its run was ${run.status}`
        : begun.some(({ outcome }) => outcome === "unknown")
          ? "a run was tried again of which nobody knew how it went"
          : null;
      yield [`${name}: begins`, { ...to({ box: "running", starts: attempt.starts + 1 }), wrong: state.wrong ?? wrong }];
    }
    if (attempt.state === "granted" && attempt.box !== "none")
      yield [`${name}: tells its start`, to({ state: "started" })];
    if (mayRun && attempt.box === "ended") {
      for (const exitCode of [0, 1]) yield [`${name}: tells its end, ${exitCode}`, to({ state: "exited", exitCode })];
      yield [`${name}: its journal is lost`, to({ state: "indeterminate" })];
    }
  }

  return {
    initial: { runs: [], leaders: Array.from({ length: limits.leaders }, () => null), wrong: null },
    *next(state) {
      if (state.runs.length < limits.runs) {
        const open = state.runs.flatMap(({ status, reason, count }, at) =>
          isJobRunOver(status)
            ? []
            : [{ id: String(at), status, reason, trigger: "schedule" as const, attemptCount: count }],
        );
        const begin = beginOf({ overlap: "queue", trigger: "schedule" }, open);
        if (begin.do === "insert" && begin.status !== "skipped") {
          const run: Run = { status: begin.status, reason: begin.said?.reason ?? null, count: 0, attempts: [] };
          yield ["one is due", { ...state, runs: [...state.runs, run] }];
        }
      }
      for (const [at, { status }] of state.runs.entries()) {
        const asked = cancelOf(status);
        const ends = asked === "end" || (asked === "ask" && mutant === "cancel ends what runs");
        if (ends) yield [`run ${at} is canceled`, change(state, at, { status: "canceled", reason: null })];
        else if (asked === "ask")
          yield [`the end of run ${at} is asked for`, change(state, at, { status: "cancel_requested" })];
      }
      for (const who of state.leaders.keys()) yield* leads(state, who);
      for (const [r, run] of state.runs.entries()) for (const a of run.attempts.keys()) yield* works(state, r, a);
    },
    key: ({ runs, leaders, wrong }) =>
      JSON.stringify([
        runs.map(({ status, reason, count, attempts }) => [
          status,
          reason,
          count,
          attempts.map((each) => Object.values(each)),
        ]),
        // Two leaders are alike.
        leaders
          .map(
            (intent) =>
              intent && [
                intent.run,
                intent.status,
                intent.attempt,
                intent.seen,
                intent.seenCancel,
                intent.isWritten,
                stepKey(intent.step),
              ],
          )
          .map((each) => JSON.stringify(each))
          .sort(),
        wrong,
      ]),
    problem({ runs, wrong }) {
      if (wrong !== null) return wrong;
      const attempts = runs.flatMap((run) => run.attempts);
      if (attempts.some(({ starts }) => starts > 1)) return "an attempt began twice";
      if (attempts.filter(({ box }) => box === "running").length > 1) return "two commands of one job run at once";
      return null;
    },
  };
}

const stepKey = (step: JobRunStep) =>
  step.do === "conclude" ? [step.do, step.end.outcome, "ends" in step.after ? step.after.ends : step.after] : step.do;
