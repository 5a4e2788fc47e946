import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import type { RunValue } from "../../../fleet/cluster/keys.ts";
import type { SeenRun } from "../../../fleet/tasks/attempts.ts";
import { findRun } from "../../../fleet/tasks/runs.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import type { JobAttempt, JobRunRows } from "./rows.ts";
import type { Outcome } from "./rules.ts";
import type { JobRunFacts, OpenAttempt } from "./steps.ts";

export interface ReadRuns {
  runs: JobRunFacts[];
  /** Records of attempts that nobody waits for: their run is over, or their outcome is written down. */
  unwanted: SeenRun[];
  /** The record of each open attempt as it was read, by the attempt's id. */
  seen: ReadonlyMap<string, SeenRun>;
  /** Rows of open attempts, by id. */
  rows: ReadonlyMap<string, JobAttempt>;
}

/** Everything that the next steps of all runs rest on which are not over, read at this moment. */
export async function readOpenRuns({
  rows,
  etcd,
  fleet,
}: {
  rows: Pick<JobRunRows, "open" | "attempts">;
  etcd: Etcd;
  fleet: Fleet;
}): Promise<ReadRuns> {
  // The records first: an attempt has its row before it has one, so that none of them is taken for unwanted that is new.
  const records = fleet.runs().filter(({ run }) => run.kind === "job");
  const { now, runs: found } = await rows.open();
  const attempts = found.length === 0 ? [] : await rows.attempts(found.map(({ id }) => id));
  const attemptsOf = Map.groupBy(attempts, ({ owner_id }) => owner_id);
  const seen = new Map<string, SeenRun>(records.map((each) => [each.run.attemptId, each]));
  const open = new Map(attempts.filter(({ outcome }) => outcome === null).map((row) => [row.id, row]));
  for (const row of open.values()) {
    if (seen.has(row.id)) continue;
    // The view may be behind: absence is asked of etcd itself.
    const found = await findRun({ etcd, fleet }, row.node_id, row.id);
    if (found !== null) seen.set(row.id, found);
  }
  const firsts = new Map<string, string>();
  for (const { id, jobId } of found) if (!firsts.has(jobId)) firsts.set(jobId, id);
  // Waits are counted from times that the database gave, and this replica's clock may differ from its.
  const aheadMs = fleet.now().getTime() - now.getTime();
  const runs = found.map((run): JobRunFacts => {
    const own = attemptsOf.get(run.id) ?? [];
    const began = own.findLastIndex(({ outcome }) => outcome !== null && outcome !== "not_started");
    const last = own[began];
    const current = own.find(({ outcome }) => outcome === null);
    return {
      ...run,
      now,
      isFirst: firsts.get(run.jobId) === run.id,
      attempt: current === undefined ? null : openAttempt(current, seen.get(current.id)?.run ?? null, fleet, aheadMs),
      last: last === undefined ? null : { outcome: last.outcome as Outcome, message: last.message },
      neverBegan: own.slice(began + 1).filter(({ outcome }) => outcome === "not_started").length,
    };
  });
  const unwanted = records.filter(({ run }) => !open.has(run.attemptId));
  return { runs, unwanted, seen, rows: open };
}

function openAttempt(row: JobAttempt, run: RunValue | null, fleet: Fleet, aheadMs: number): OpenAttempt {
  const lostAt = fleet.nodeLostAt(row.node_id);
  const shared = (at: Date) => new Date(at.getTime() - aheadMs);
  return {
    ...{ id: row.id, number: row.number, nodeId: row.node_id, nodeLostAt: lostAt && shared(lostAt) },
    run: run && { ...run, changedAt: shared(new Date(run.changedAt)).toISOString() },
  };
}
