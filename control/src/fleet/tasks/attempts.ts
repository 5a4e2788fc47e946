import { randomBytes } from "node:crypto";
import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import type { Run } from "../../stores/db/tables.ts";
import type { Guard, Op } from "../../stores/etcd/index.ts";
import { keys, type RunValue } from "../cluster/keys.ts";

/** An attempt as it was read, with what guards a write to it. */
export interface SeenRun {
  nodeId: string;
  run: RunValue;
  modRevision: bigint;
}

/** Where an attempt is to be made. */
export type AttemptRow = Pick<Run, "id" | "kind" | "node_id" | "owner_kind" | "owner_id" | "project_id">;

/** How owners move attempts at their commands. Everything before the grant may be taken back; nothing after it is ever offered again. */
export interface Attempts {
  /** Says whether it was; false when it had been, and then stays what it has become. */
  offer(row: AttemptRow, reserved?: RunValue["reserved"]): Promise<boolean>;
  /** Nobody is to start it. Nothing happens when it is not what was seen any more. */
  withdraw(seen: SeenRun, detail: string): Promise<boolean>;
  /** Lets the node that accepted it start it, once. */
  grant(seen: SeenRun): Promise<boolean>;
  /** Forgets one that is over. */
  forget(seen: Pick<SeenRun, "nodeId" | "modRevision"> & { run: Pick<RunValue, "attemptId"> }): Promise<boolean>;
}

export interface AttemptDeps {
  clock: Clock;
  /** Applies `ops` while `guards` hold. */
  txn(ops: readonly Op[], guards: readonly Guard[]): Promise<{ succeeded: boolean }>;
}

/** Every write is guarded by what was read: of two who decide at once one does nothing, and an answer that came meanwhile counts. */
export function createAttempts({ clock, txn }: AttemptDeps): Attempts {
  const now = () => clock.now().toISOString();
  const write = async (nodeId: string, run: RunValue, modRevision: bigint | null): Promise<boolean> => {
    const key = keys.run(nodeId, run.attemptId);
    const guard: Guard =
      modRevision === null ? { key, compare: "absent" } : { key, compare: "modRevision", value: modRevision };
    const { succeeded } = await txn([{ put: { key, value: JSON.stringify(run) } }], [guard]);
    return succeeded;
  };
  return {
    offer: (row, reserved) =>
      write(
        row.node_id,
        {
          attemptId: row.id,
          kind: row.kind,
          ownerKind: row.owner_kind,
          ownerId: row.owner_id,
          projectId: row.project_id,
          state: "offered",
          cancel: false,
          acceptedBy: null,
          token: null,
          exitCode: null,
          timedOut: false,
          message: null,
          startedAt: null,
          finishedAt: null,
          changedAt: now(),
          ...(reserved && { reserved }),
        },
        null,
      ),
    withdraw: ({ nodeId, run, modRevision }, detail) =>
      write(nodeId, { ...run, state: "not_started", message: detail, changedAt: now() }, modRevision),
    grant: ({ nodeId, run, modRevision }) =>
      write(
        nodeId,
        { ...run, state: "granted", token: randomBytes(16).toString("hex"), changedAt: now() },
        modRevision,
      ),
    async forget({ nodeId, run, modRevision }) {
      const key = keys.run(nodeId, run.attemptId);
      const { succeeded } = await txn([{ delete: { key } }], [{ key, compare: "modRevision", value: modRevision }]);
      return succeeded;
    },
  };
}

const seenWithinMs = 2_000;

/** Waits until this replica's own view shows its write, so that the next step does not rest on the past. */
export async function seen(clock: Clock, condition: () => boolean): Promise<void> {
  const late = clock.abortAfter(seenWithinMs);
  while (!condition() && !late.aborted) await pause(clock, 10, late);
}
