import { type DatabaseEngine, databaseNames } from "@svc/proto";
import { createWake } from "@svc/runtime/wake";
import type { UpdateObject } from "kysely";
import { dropAlert } from "../../fleet/alerts/raise.ts";
import type { Fleet } from "../../fleet/cluster/fleet.ts";
import { taskTopic } from "../../fleet/cluster/topics.ts";
import { pendingSecretAad, tenantSecretAad } from "../../fleet/databases/secrets.ts";
import { verifierOf } from "../../fleet/databases/verifier.ts";
import { lockTasks, removeTasks } from "../../fleet/tasks/change.ts";
import { holdPlanOfUser } from "../../identity/plans/of-user.ts";
import type { Log } from "../../log.ts";
import type { Database } from "../../stores/db/gen/tables.ts";
import { notify } from "../../stores/db/notify.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Branch } from "../../stores/db/tables.ts";
import { recheckAfterMs } from "../../stores/work/recheck.ts";
import type { WorkHandler } from "../../stores/work/worker.ts";
import { ServerRefused, ServerUnreachable } from "./admin-sql.ts";
import { holdsBranch } from "./changes/store.ts";
import { type FoundBranch, readBranchFacts } from "./facts.ts";
import { serverResources } from "./limits.ts";
import { startServer } from "./servers.ts";
import { type BranchStep, nextBranchStep } from "./steps.ts";
import { buryBranch, doubted, dropBranches, lockBranch, mayStartServer, moveBranch } from "./store.ts";
import { isSameTenant, type TenantWorkDeps, tenantWork } from "./tenant-work.ts";
import { placeVolume } from "./volumes/store.ts";

export interface DatabaseWorkerDeps extends TenantWorkDeps {
  fleet: Pick<Fleet, "observation" | "onChange">;
  /** What new servers run in. */
  images: Readonly<Record<DatabaseEngine, string>>;
  log: Log;
}

/** Ready branches take seconds: for so long a worker stays with one. */
const holdMs = 15_000;
const lookMs = 500;
/** How long the volume of a branch that was dropped is kept: somebody may have meant another one. */
const keptHours = 72;

type Effects = {
  [K in Exclude<BranchStep["do"], "wait" | "end">]: (
    found: FoundBranch,
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
  const { clock, fleet, log } = deps;
  const effects = branchEffects(deps);
  return async (item, signal) => {
    const { databaseId } = item.payload as { databaseId: string };
    const wake = createWake(clock);
    using _placements = fleet.onChange("placements", wake.signal);
    while (!signal.aborted) {
      const found = await readBranchFacts(deps, databaseId);
      if (found === null) return { state: "done" };
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
              found: FoundBranch,
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
  const { db, secrets, admin, images, log } = deps;
  /** Runs `act` with the branch held, if it has the status that the facts had. */
  const locked = ({ branch: { id, status } }: FoundBranch, act: (tx: Db, branch: Branch) => Promise<void>) =>
    db.transaction().execute(async (tx) => {
      const branch = await lockBranch(tx, id);
      if (branch?.status === status) await act(tx, branch);
    });

  const columns = (tx: Db, id: string, change: UpdateObject<Database, "database">) =>
    tx.updateTable("database").set(change).where("id", "=", id).execute();

  const { bring, bringTenant, lookAgain, isLetIn } = tenantWork(deps);

  const say = ({ branch }: FoundBranch, to: string, why?: string) =>
    log.info({ databaseId: branch.id, projectId: branch.project_id, from: branch.status, to, why }, "database");

  return {
    pin: (found, { nodeId }) =>
      locked(found, async (tx, { id, generation }) => {
        await columns(tx, id, { node_id: nodeId });
        await placeVolume(tx, { databaseId: id, generation, nodeId });
      }),

    startServer: ({ branch: { id, status, project_id } }) =>
      db.transaction().execute(async (tx) => {
        const { owner_id } = await tx
          .selectFrom("project")
          .select("owner_id")
          .where("id", "=", project_id)
          .executeTakeFirstOrThrow();
        // The user comes before the branch in the order of locks.
        const plan = await holdPlanOfUser(tx, owner_id);
        const branch = await lockBranch(tx, id);
        if (branch?.status === status && (await mayStartServer(tx, branch)))
          await startServer(tx, branch, plan, images);
      }),

    removeServers: (found, { taskIds }) => locked(found, (tx) => removeTasks(tx, taskIds)),

    bringTenant: (found, _step, signal) => bringTenant(found, signal),

    async proveLogin(found, _step, signal) {
      const proven = await isLetIn(found, signal);
      await locked(found, async (tx, now) => {
        // Whatever was made there is made again.
        if (!proven) return void (await columns(tx, now.id, doubted));
        if (!isSameTenant(found.branch, now)) return;
        if (await moveBranch(tx, now.id, { from: now.status, to: "ready" })) say(found, "ready");
      });
      if (!proven) throw new ServerRefused("the tenant's own password is refused");
    },

    async rotate(found, _step, signal) {
      const { branch } = found;
      const { pending_secret: pending } = branch;
      if (pending === null) return;
      const password = secrets.open(pending, pendingSecretAad(branch.id));
      const verifier = verifierOf(branch.engine, branch.id, password.toString("utf8"));
      const { role } = databaseNames(branch.id);
      await bring(found, signal, (target, bounded) => admin.rotate(target, { role, verifier }, bounded));
      const secret = secrets.seal(password, tenantSecretAad(branch.id));
      await lookAgain(found, (isSame) => (isSame ? { secret, pending_secret: null } : doubted));
      say(found, branch.status, "its password was replaced");
    },

    resizeServer: ({ branch, plan }, { taskId }) =>
      db.transaction().execute(async (tx) => {
        const { memoryMb, cpuMillicores, pidsLimit, reservedMemoryMb, reservedCpuMillicores } = serverResources(
          branch.engine,
          plan,
        );
        await lockTasks(tx, [taskId]);
        await tx
          .updateTable("task")
          .set({
            ...{ memory_mb: memoryMb, cpu_millicores: cpuMillicores, pids_limit: pidsLimit },
            ...{ reserved_memory_mb: reservedMemoryMb, reserved_cpu_millicores: reservedCpuMillicores },
          })
          .where("id", "=", taskId)
          .where("desired", "=", "running")
          .execute();
        await notify(tx, taskTopic);
      }),

    fail: (found, { reason }) =>
      locked(found, async (tx, { id, status }) => {
        // What a restore or a move does with it is theirs to tell.
        if (await holdsBranch(tx, id)) return;
        if (await moveBranch(tx, id, { from: status, to: "error", reason })) say(found, "error", reason);
      }),

    beginDrop: ({ branch: { project_id } }) =>
      db.transaction().execute(async (tx) => void (await dropBranches(tx, [project_id]))),

    bury: (found, { nodeId }) =>
      locked(found, async (tx, branch) => {
        await buryBranch(tx, branch, { nodeId, keptHours });
        for (const event of ["databaseFailing", "backupFailed"] as const)
          await dropAlert(tx, { projectId: branch.project_id, event, subject: branch.channel });
        say(found, "absent");
      }),
  };
}
