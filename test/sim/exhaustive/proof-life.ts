import { compareProof } from "@svc/control/tenants/databases/proofs/compare";
import {
  nextProofStep,
  type ProofFacts,
  type ProofStep,
  proofMs,
  settledMs,
} from "@svc/control/tenants/databases/proofs/steps";
import type { Model } from "./explore.ts";

/**
 * A copy that is restored for a look while its branch is written to: real `nextProofStep` and `compareProof`. One table, to which rows are added;
 * the server counts them for others some time later. The copy may have lost the first row without anybody's knowing. A worker counts,
 * asks and writes down at once, another one with time in between, or it dies; the copy's node is to be empty, or the copy ends.
 */
interface State {
  /** Rows that were added, and those that the server's counter tells of. */
  rows: number;
  counter: number;
  /** So many has the copy, as it says. */
  copied: number;
  isBad: boolean;
  isKept: boolean;
  verdict: "pending" | "proven" | "failed" | "gone";
  source: { rows: number; counter: number; at: number } | null;
  task: { wanted: boolean; state: "waiting" | "running" | "completed" | "failed"; result: Restored | null } | null;
  /** The server's counters have what there was at the moment that was restored. */
  isSettled: boolean;
  workers: readonly Worker[];
  /** At the verdict: the counter told that somebody had written. */
  wasWritten: boolean;
}

interface Restored {
  /** The moment: rows that there were then. */
  at: number;
  rows: number;
}

interface Worker {
  step: Exclude<ProofStep["do"], "wait" | "end">;
  /** What there was when it began. */
  rows: number;
  counter: number;
}

export type ProofMutant =
  | "judges before the counters are there"
  | "starts before the copy has what was counted"
  | "counts after the moment that it asks for"
  | "blames the copy for a drain";

const rowsMax = 2;

export function proofLife(mutant: ProofMutant | null): Model<State> {
  const factsOf = (state: State, isLate: boolean): ProofFacts => {
    const { verdict, source, task, copied } = state;
    const isSettled = state.isSettled || mutant === "judges before the counters are there";
    return {
      verdict: verdict === "gone" ? "pending" : verdict,
      ageMs: isLate ? proofMs : 0,
      nodeId: state.isKept ? "n2" : null,
      ...{ isServing: true, hasSource: source !== null },
      coversSource:
        mutant === "starts before the copy has what was counted" || (source !== null && copied >= source.at),
      task: task && {
        ...{ taskId: "t", wanted: task.wanted || mutant === "blames the copy for a drain", state: task.state },
        problem: null,
        result: task.result && { coveredAt: "", tookMs: 1, bytes: 1, tables: tablesOf(task.result.rows), isCut: false },
      },
      restoredAgoMs: task?.result == null ? null : isSettled ? settledMs : 0,
    };
  };

  function written(state: State, worker: Worker): State {
    if (worker.step === "removeTask") return { ...state, task: state.task && { ...state.task, wanted: false } };
    if (state.verdict !== "pending") return state;
    switch (worker.step) {
      case "look": {
        if (state.source !== null) return state;
        // What is counted was written before the moment that is asked for after it.
        const [first, last] = [worker, state];
        const isLate = mutant === "counts after the moment that it asks for";
        const { rows, counter } = isLate ? last : first;
        return { ...state, source: { rows, counter, at: isLate ? first.rows : last.rows } };
      }
      case "startTask":
        return state.task === null ? { ...state, task: { wanted: true, state: "waiting", result: null } } : state;
      case "judge": {
        const { source, task } = state;
        if (source === null || task?.result == null) return state;
        const table = { schema: "public", name: "t" };
        const before = [{ ...table, rows: source.rows, counter: String(source.counter) }];
        const after = [{ ...table, rows: null, counter: String(worker.counter) }];
        const { problem } = compareProof(before, after, { tables: tablesOf(task.result.rows), isCut: false });
        const wasWritten = worker.counter !== source.counter;
        return { ...state, verdict: problem === null ? "proven" : "failed", wasWritten };
      }
      case "fail":
        return { ...state, verdict: "failed" };
      case "drop":
        return { ...state, verdict: "gone", task: state.task && { ...state.task, wanted: false } };
    }
  }

  function* work(state: State): Generator<readonly [string, State]> {
    if (state.verdict === "gone") return;
    for (const isLate of [false, true]) {
      const { do: step } = nextProofStep(factsOf(state, isLate));
      if (step === "wait" || step === "end") continue;
      const { rows, counter } = state;
      const worker: Worker = { step, rows, counter };
      yield [step, written(state, worker)];
      if (state.workers.length === 0) yield [`decide ${step}`, { ...state, workers: [worker] }];
    }
    for (const [at, worker] of state.workers.entries()) {
      const without = { ...state, workers: state.workers.toSpliced(at, 1) };
      yield [`note ${worker.step}`, written(without, worker)];
      yield [`a worker is killed before ${worker.step}`, without];
    }
  }

  function* others(state: State): Generator<readonly [string, State]> {
    const { rows, counter, copied, task } = state;
    if (rows < rowsMax) yield ["a row is added", { ...state, rows: rows + 1 }];
    if (counter < rows) yield ["the counter has it", { ...state, counter: counter + 1 }];
    if (copied < rows) yield ["the copy follows", { ...state, copied: copied + 1 }];
    if (state.isKept) yield ["the copy ends", { ...state, isKept: false }];
    if (task === null) return;
    if (task.wanted && task.state !== "completed")
      yield ["its node is to be empty", { ...state, task: { ...task, wanted: false } }];
    if (task.state === "waiting") yield ["the node begins", { ...state, task: { ...task, state: "running" } }];
    if (task.state === "running") {
      const result: Restored = { at: copied, rows: state.isBad && copied > 0 ? copied - 1 : copied };
      yield ["the node restores it", { ...state, task: { ...task, state: "completed", result } }];
      if (!task.wanted || state.isBad)
        yield ["the node comes to nothing", { ...state, task: { ...task, state: "failed" } }];
    }
    if (task.result !== null && !state.isSettled && counter >= task.result.at)
      yield ["time passes", { ...state, isSettled: true }];
  }

  const beginning = {
    rows: 0,
    counter: 0,
    copied: 0,
    isKept: true,
    verdict: "pending",
    source: null,
    task: null,
  } as const;
  const rest = { isSettled: false, workers: [], wasWritten: false };
  return {
    initial: { ...beginning, ...rest, isBad: false },
    *next(state) {
      if (state.copied === 0 && !state.isBad && state.task === null)
        yield ["the copy loses a row", { ...state, isBad: true }];
      yield* work(state);
      yield* others(state);
    },
    key: (state) => JSON.stringify(state),
    problem({ verdict, isBad, source, wasWritten }) {
      if (verdict === "failed" && !isBad) return "a copy that is blamed, and is as it should be";
      const isSeen = verdict === "proven" && isBad && source !== null && source.rows > 0 && !wasWritten;
      return isSeen ? "a copy that is proven, and has lost a row" : null;
    },
  };
}

const tablesOf = (rows: number) => [{ schema: "public", name: "t", rows }];
