import { createDumpCheck } from "@svc/agent/backups/dump-check";
import { type BackupFacts, type BackupStep, nextBackupStep } from "@svc/control/tenants/databases/backups/steps";
import type { Model } from "./explore.ts";

/**
 * Backups of one project, asked for by two requests at once and made by the node of its database: real `nextBackupStep` and, of the node, real
 * `createDumpCheck`. A worker reads, decides and writes at once, another one's some time later, or it dies; a dump breaks off at any
 * point, the node is lost, begins anew, and says again what it has said; the registry loses what it was never told to keep.
 */
interface State {
  /** What each request has read of others; null: it has not read, or is over. */
  requests: readonly { hasRead: boolean; sawOne: boolean; isOver: boolean }[];
  backups: readonly Backup[];
  workers: readonly { at: number; step: BackupStep }[];
  branch: "ready" | "dropping";
  wrong: string | null;
}

interface Backup {
  status: BackupFacts["status"];
  /** Its task: wanted, and how far the node is; null: there is none. */
  task: { isWanted: boolean; is: "waiting" | "running" | "completed" | "failed"; file: File | null } | null;
  tasks: number;
  /** What the registry has of it. */
  stored: File | null;
  /** What was noted when it became complete. */
  noted: File | null;
}

/** Bytes, and whether they are of a whole dump: nobody in the protocol can see the latter afterwards. */
interface File {
  digest: "whole" | "part";
}

export type BackupMutant =
  | "takes the last exit code of the pipe"
  | "does not look for the last line"
  | "takes the node's word"
  | "looks for another one and then begins"
  | "starts a task without looking again"
  | "writes over what has ended";

const dumpText = "create table t (id int);\n--\n-- PostgreSQL database dump complete\n--\n";

/** Whether a node pushes what its dumper has written: by how that ended, and by what passed. */
function isPushed(text: string, isCut: boolean, mutant: BackupMutant | null): boolean {
  const check = createDumpCheck("postgres", 1_000_000);
  // In pieces, as it comes.
  for (let at = 0; at < text.length; at += 16) check.push(Buffer.from(text.slice(at, at + 16)));
  const isWhole = check.isWhole() || mutant === "does not look for the last line";
  // A pipe ends with what its last part says, which has packed whatever came.
  return isWhole && (!isCut || mutant === "takes the last exit code of the pipe");
}

/** How a dumper may end: with all of it; killed at the start, in the middle, or after its last line, but before it knows that it is well. */
const ends: readonly { name: string; text: string; exitCode: number; isWhole: boolean }[] = [
  { name: "with everything", text: dumpText, exitCode: 0, isWhole: true },
  { name: "with a part, and says so", text: dumpText.slice(0, 30), exitCode: 1, isWhole: false },
  { name: "with a part, and does not say so", text: dumpText.slice(0, 30), exitCode: 0, isWhole: false },
  { name: "with a last line, and an error", text: dumpText, exitCode: 1, isWhole: false },
];

export function backupLife(mutant: BackupMutant | null): Model<State> {
  const outcomes = ends.map(({ name, text, exitCode, isWhole }) => {
    const file: File = { digest: isWhole ? "whole" : "part" };
    return { name, file: isPushed(text, exitCode !== 0, mutant) ? file : null };
  });
  const open = ({ backups }: State) => backups.filter(({ status }) => status === "pending" || status === "running");

  function factsOf(state: State, { status, task }: Backup, isLate: boolean): BackupFacts {
    return {
      ...{ status, ageMs: isLate ? 1e9 : 0, projectGone: false, suspended: false, branch: state.branch },
      server: state.branch === "ready" ? { nodeId: "n1", image: "i" } : null,
      task: task && {
        ...{ taskId: "t", wanted: task.isWanted, state: task.is, problem: null },
        file: task.file === null ? null : { digest: task.file.digest, sizeBytes: 1, dumpBytes: 1 },
      },
    };
  }

  const change = (state: State, at: number, how: Partial<Backup>): State => ({
    ...state,
    backups: state.backups.map((each, index) => (index === at ? { ...each, ...how } : each)),
  });

  function write(state: State, at: number, step: BackupStep): State {
    const backup = state.backups[at];
    if (backup === undefined) return state;
    const { status, task } = backup;
    const isOpen = status === "pending" || status === "running" || mutant === "writes over what has ended";
    switch (step.do) {
      case "startTask": {
        if (!isOpen || backup.tasks === 2 || (backup.tasks > 0 && mutant !== "starts a task without looking again"))
          return state;
        return change(state, at, { tasks: backup.tasks + 1, task: { isWanted: true, is: "waiting", file: null } });
      }
      case "markRunning":
        return status === "pending" ? change(state, at, { status: "running" }) : state;
      case "accept": {
        if (!isOpen) return state;
        const isThere = backup.stored?.digest === step.file.digest || mutant === "takes the node's word";
        const noted = task?.file ?? null;
        return change(state, at, isThere ? { status: "complete", noted } : { status: "failed" });
      }
      case "fail":
        return isOpen ? change(state, at, { status: "failed" }) : state;
      case "removeTask":
        return task === null ? state : change(state, at, { task: { ...task, isWanted: false } });
      default:
        return state;
    }
  }

  function* ask(state: State): Generator<readonly [string, State]> {
    for (const [at, request] of state.requests.entries()) {
      const become = (next: Partial<typeof request>) => state.requests.with(at, { ...request, ...next });
      if (request.isOver) continue;
      if (!request.hasRead) {
        yield [
          `request ${at} looks`,
          { ...state, requests: become({ hasRead: true, sawOne: open(state).length > 0 }) },
        ];
        continue;
      }
      // Whatever was read before, the index says it: another one that is under way leaves no room.
      const isRefused = mutant === "looks for another one and then begins" ? request.sawOne : open(state).length > 0;
      const fresh: Backup = { status: "pending", task: null, tasks: 0, stored: null, noted: null };
      const requests = become({ isOver: true });
      yield [
        `request ${at} begins`,
        { ...state, requests, ...(isRefused ? {} : { backups: [...state.backups, fresh] }) },
      ];
      yield [`request ${at} is cut off`, { ...state, requests }];
    }
  }

  function* node(state: State): Generator<readonly [string, State]> {
    for (const [at, { task }] of state.backups.entries()) {
      if (task === null) continue;
      const become = (next: Partial<typeof task>) => ({ task: { ...task, ...next } });
      if (task.is === "waiting" && task.isWanted)
        yield [`the node begins ${at}`, change(state, at, become({ is: "running" }))];
      if (task.is !== "running") continue;
      // Once begun it goes on, whatever is wanted by now, until the agent hears.
      for (const { name, file } of outcomes) {
        const after = become(file === null ? { is: "failed" } : { is: "completed", file });
        yield [`the dump of ${at} ends ${name}`, change(state, at, { ...after, stored: file })];
        // It says what it has not sent, or the registry has lost it.
        if (file !== null) yield [`the registry loses ${at}`, change(state, at, { ...after, stored: null })];
      }
      yield [`the agent of ${at} begins anew`, change(state, at, become({ is: "waiting" }))];
    }
  }

  function* work(state: State): Generator<readonly [string, State]> {
    for (const [at, backup] of state.backups.entries()) {
      for (const isLate of [false, true]) {
        const step = nextBackupStep(factsOf(state, backup, isLate));
        if (step.do === "wait" || step.do === "end") continue;
        yield [`${step.do} ${at}`, write(state, at, step)];
        if (state.workers.length === 0)
          yield [`decide ${step.do} ${at}`, { ...state, workers: [...state.workers, { at, step }] }];
      }
    }
    for (const [index, { at, step }] of state.workers.entries()) {
      const without = { ...state, workers: state.workers.toSpliced(index, 1) };
      yield [`${step.do} ${at} of a worker that stalled`, write(without, at, step)];
      yield [`a worker is killed before ${step.do} ${at}`, without];
    }
  }

  return {
    initial: {
      requests: Array.from({ length: 2 }, () => ({ hasRead: false, sawOne: false, isOver: false })),
      ...{ backups: [], workers: [], branch: "ready", wrong: null },
    },
    *next(state) {
      for (const [label, after] of events(state)) yield [label, judged(state, after)] as const;
    },
    key: (state) =>
      JSON.stringify([
        state.requests,
        state.backups,
        state.workers.map(({ at, step }) => [at, step]).sort(),
        state.branch,
        state.wrong,
      ]),
    problem(state) {
      if (state.wrong !== null) return state.wrong;
      if (open(state).length > 1) return "two backups of one project are under way";
      if (state.backups.some(({ tasks }) => tasks > 1)) return "two tasks make one backup";
      const complete = state.backups.filter(({ status }) => status === "complete");
      if (complete.some(({ noted }) => noted?.digest !== "whole")) return "a complete backup that is not all of it";
      return complete.some(({ stored, noted }) => stored?.digest !== noted?.digest)
        ? "a complete backup whose bytes are not there"
        : null;
    },
  };

  function* events(state: State): Generator<readonly [string, State]> {
    yield* ask(state);
    yield* node(state);
    yield* work(state);
    if (state.branch === "ready") yield ["the branch is dropped", { ...state, branch: "dropping" }];
  }

  /** What has ended stays as it is. */
  function judged(before: State, after: State): State {
    const isChanged = before.backups.some(({ status }, at) => {
      const hasEnded = status === "complete" || status === "failed";
      return hasEnded && after.backups[at]?.status !== status;
    });
    return isChanged ? { ...after, wrong: "a backup that has ended becomes another" } : after;
  }
}
