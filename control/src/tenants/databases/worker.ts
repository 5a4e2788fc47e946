import { databaseNames, splitLastLines } from "@svc/proto";
import { createWake } from "@svc/runtime/wake";
import type { Fleet } from "../../fleet/cluster/fleet.ts";
import { pendingSecretAad, tenantSecretAad } from "../../fleet/databases/secrets.ts";
import { verifierOf } from "../../fleet/databases/verifier.ts";
import type { Log } from "../../log.ts";
import { recheckAfterMs } from "../../stores/work/recheck.ts";
import type { WorkHandler } from "../../stores/work/worker.ts";
import { ServerRefused, ServerUnreachable } from "./admin-sql.ts";
import { type BranchPlan, type FoundBranch, foundBranch } from "./facts.ts";
import { serverResources } from "./limits.ts";
import type { BranchRows } from "./rows.ts";
import { type BranchStep, nextBranchStep } from "./steps.ts";
import { type TenantWorkDeps, tenantWork } from "./tenant-work.ts";

export interface DatabaseWorkerDeps extends TenantWorkDeps {
  rows: BranchRows;
  fleet: Pick<Fleet, "observation" | "onChange">;
  log: Log;
  /** For so long a worker stays with a branch that waits for something; 15 s unless given. */
  holdMs?: number;
}

type Found = FoundBranch<BranchPlan>;

/** Ready branches take seconds: for so long a worker stays with one. */
const usualHoldMs = 15_000;
const lookMs = 500;
/** How long the volume of a branch that was dropped is kept: somebody may have meant another one. */
const keptHours = 72;

type Effects = {
  [K in Exclude<BranchStep["do"], "wait" | "end">]: (
    found: Found,
    step: Extract<BranchStep, { do: K }>,
    signal: AbortSignal,
  ) => Promise<void>;
};

/**
 * Work of kind `database`: brings a branch to where it should be. Each round reads everything and does one step. What a step
 * does in the server may be repeated; what it then writes down is a transaction that looks again at what it rests on. So a
 * round that is repeated, cut off, or done by two workers does no harm. What takes long is looked at now and then, and leaves
 * the room to others.
 */
export function databaseWorker(deps: DatabaseWorkerDeps): WorkHandler {
  const { clock, rows, fleet, log, holdMs = usualHoldMs } = deps;
  const effects = branchEffects(deps);
  return async (item, signal) => {
    const { databaseId } = item.payload as { databaseId: string };
    const wake = createWake(clock);
    using _placements = fleet.onChange("placements", wake.signal);
    while (!signal.aborted) {
      const row = await rows.find(databaseId);
      if (row === null) return { state: "done" };
      const found = foundBranch(row, fleet);
      const step = nextBranchStep(found.facts);
      // The item may be older than what it waits for, and the other way round.
      const waitedMs = Math.min(found.facts.sinceMs, item.ageMs);
      switch (step.do) {
        case "end":
          return { state: "done" };
        case "wait":
          if (waitedMs >= holdMs) return { retryAfterMs: recheckAfterMs(waitedMs), refund: true };
          await wake.wait(lookMs, signal);
          break;
        default:
          try {
            const effect = effects[step.do] as Effects[keyof Effects] as (
              found: Found,
              step: BranchStep,
              signal: AbortSignal,
            ) => Promise<void>;
            await effect(found, step, signal);
          } catch (error) {
            if (!(error instanceof ServerUnreachable || error instanceof ServerRefused)) throw error;
            log.warn({ err: error, databaseId, step: step.do }, "a database server did not do what it was asked");
            return { retryAfterMs: recheckAfterMs(waitedMs), refund: true, error: error.message };
          }
      }
    }
    return { retryAfterMs: 0, refund: true };
  };
}

function branchEffects(deps: DatabaseWorkerDeps): Effects {
  const { rows, secrets, admin, log } = deps;
  const { bring, bringTenant, isLetIn } = tenantWork(deps);

  const say = ({ branch }: Found, to: string, why?: string) =>
    log.info({ databaseId: branch.id, projectId: branch.project_id, from: branch.status, to, why }, "database");

  return {
    pin: ({ branch }, { nodeId }) => rows.pin(branch, nodeId),
    startServer: ({ branch }) => rows.startServer(branch),
    removeServers: ({ branch }, { taskIds }) => rows.removeServers(branch, taskIds),
    replaceServer: ({ branch }, { taskId }) => rows.replaceServer(branch, taskId),
    noteDown: async (found, { reason }) => {
      // The last lines of its log are for whoever reads that.
      const why = splitLastLines(reason).reason;
      if (await rows.noteDown(found.branch, why)) say(found, "down", why);
    },
    noteServing: async (found) => {
      if (await rows.noteServing(found.branch)) say(found, "serving again");
    },
    bringTenant: (found, _step, signal) => bringTenant(found, signal),

    async proveLogin(found, _step, signal) {
      if (await isLetIn(found, signal)) {
        if (await rows.proven(found.branch)) say(found, "ready");
        return;
      }
      await rows.refused(found.branch);
      throw new ServerRefused("the tenant's own password is refused");
    },

    async rotate(found, _step, signal) {
      const { branch } = found;
      const { pending_secret: pending } = branch;
      if (pending === null) return;
      const password = secrets.open(pending, pendingSecretAad(branch.id));
      const verifier = verifierOf(branch.engine, branch.id, password.toString("utf8"));
      const { role } = databaseNames(branch.id);
      await bring(found, signal, (target, bounded) => admin.rotate(target, { role, verifier }, bounded));
      await rows.rotated(branch, secrets.seal(password, tenantSecretAad(branch.id)));
      say(found, branch.status, "its password was replaced");
    },

    resizeServer: ({ branch, plan }, { taskId }) => rows.resizeServer(taskId, serverResources(branch.engine, plan)),

    async fail(found, { reason }) {
      if (await rows.fail(found.branch, reason)) say(found, "error", reason);
    },

    beginDrop: ({ branch }) => rows.beginDrop(branch.project_id),

    async bury(found, { nodeId }) {
      if (await rows.bury(found.branch, { nodeId, keptHours })) say(found, "absent");
    },
  };
}
