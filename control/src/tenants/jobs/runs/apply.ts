import type { Clock } from "@svc/runtime/clock";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import type { Attempts } from "../../../fleet/tasks/attempts.ts";
import { cancelRun } from "../../../fleet/tasks/runs.ts";
import type { Log } from "../../../log.ts";
import type { Etcd, Leadership } from "../../../stores/etcd/index.ts";
import type { ReadRuns } from "./read.ts";
import type { JobRunRows } from "./rows.ts";
import type { JobRunFacts, JobRunStep } from "./steps.ts";

export interface JobRunDeps {
  clock: Clock;
  rows: JobRunRows;
  etcd: Etcd;
  fleet: Fleet;
  leadership: Pick<Leadership, "epoch" | "txn">;
  log: Log;
}

type Step = Exclude<JobRunStep, { do: "place" }> | { do: "make"; nodeId: string };

type Deps = JobRunDeps & { attempts: Attempts };

/** Does one step of one run, if it is what it was decided on. */
export async function applyStep(deps: Deps, read: ReadRuns, facts: JobRunFacts, step: Step): Promise<void> {
  const { attempts, clock, etcd, rows, log } = deps;
  const { epoch } = deps.leadership;
  const at = { jobId: facts.jobId, runId: facts.id };
  const tell = (to: string, why: string | null) => log.info({ ...at, from: facts.status, to, why }, "job run");
  switch (step.do) {
    case "wait":
      return;
    case "end": {
      const ended = await rows.end(epoch, facts, step.ending);
      if (ended !== null) tell(ended.status, ended.reason);
      return;
    }
    case "ask":
      await rows.ask(epoch, facts, step.reason);
      return;
    case "note":
      if (facts.status === "waiting" && facts.reason === step.said.reason) return;
      await rows.note(epoch, facts, step.said);
      return;
    case "move":
      await rows.move(epoch, facts, step.deploymentId);
      return;
    case "make": {
      // An attempt belongs to one node for good: the node is in Postgres before the offer is in etcd.
      const row = await rows.makeAttempt(epoch, facts, step.nodeId);
      if (row !== null) await attempts.offer(row, await rows.reserved(facts.deploymentId));
      return;
    }
    case "offer": {
      const row = read.rows.get(step.attempt.id);
      if (row !== undefined) await attempts.offer(row, await rows.reserved(facts.deploymentId));
      return;
    }
    case "withdraw": {
      const seen = read.seen.get(step.attempt.id);
      if (seen !== undefined) await attempts.withdraw(seen, step.detail);
      return;
    }
    case "stop":
      await cancelRun(etcd, step.attempt.nodeId, step.attempt.id, clock.now());
      return;
    case "grant": {
      const seen = read.seen.get(step.attempt.id);
      // Postgres first: what is canceled after this is canceled as something that runs, and what was before is not granted.
      if (seen === undefined || !(await rows.markRunning(epoch, facts, step.attempt.id))) return;
      if (facts.status !== "running") tell("running", null);
      if (seen.run.state === "accepted") await attempts.grant(seen);
      return;
    }
    case "conclude": {
      if (!(await rows.conclude(epoch, facts, step))) return;
      tell("ends" in step.after ? step.after.ends.status : "waiting", step.end.outcome);
      const seen = step.attempt && read.seen.get(step.attempt.id);
      // Whoever owns the node's stream has told the agent, and tells it again should it ask.
      if (seen) await attempts.forget(seen);
    }
  }
}
