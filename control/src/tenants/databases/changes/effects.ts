import { copySlot, databaseNames } from "@svc/proto";
import type { Log } from "../../../log.ts";
import { ServerRefused } from "../admin-sql.ts";
import type { FoundBranch, ServerPlan } from "../facts.ts";
import { type TenantWorkDeps, tenantWork } from "../tenant-work.ts";
import type { FoundChange } from "./facts.ts";
import type { ChangeRows, Frozen } from "./rows.ts";
import type { ChangeStep } from "./steps.ts";

export interface ChangeDeps extends TenantWorkDeps {
  rows: ChangeRows;
  log: Log;
}

/** How long the server itself is asked whether the copy has the rest, before everything is looked at again. */
const copiedWaitMs = 2_000;

/** Does one step. */
export function changeEffects(deps: ChangeDeps) {
  const { rows, admin, log } = deps;
  const { onServer, bringTenant, isLetIn } = tenantWork(deps);

  const say = ({ change }: FoundChange, to: string, why?: string) =>
    log.info(
      { changeId: change.id, databaseId: change.database_id, kind: change.kind, from: change.state, to, why },
      "database change",
    );

  async function freeze(found: FoundChange, branch: FoundBranch<ServerPlan>, signal: AbortSignal) {
    const { change } = found;
    const { role } = databaseNames(branch.branch.id);
    const slot = branch.branch.engine === "postgres" && change.copy_id !== null ? copySlot(change.copy_id) : null;
    let frozen: Frozen | null = null;
    try {
      frozen = await onServer(branch, signal, (target, bounded) =>
        admin.freeze(target, { role, slot, waitMs: copiedWaitMs }, bounded),
      );
    } finally {
      const to = await rows.frozen(change, frozen);
      if (to !== null && to !== change.state) say(found, to);
    }
  }

  async function settle(found: FoundChange, how: { to: "copying" | "failed"; reason: string }, isOpen: boolean) {
    if (await rows.settle(found.change, how, isOpen)) say(found, how.to, how.reason);
  }

  async function proveLogin(found: FoundChange, branch: FoundBranch<ServerPlan>, signal: AbortSignal) {
    if (await isLetIn(branch, signal)) {
      if (await rows.proven(found.change, branch.branch)) say(found, "done");
      return;
    }
    await rows.refused(found.change);
    throw new ServerRefused("the tenant's own password is refused");
  }

  return async (
    found: FoundChange,
    step: Exclude<ChangeStep, { do: "wait" | "end" }>,
    signal: AbortSignal,
  ): Promise<void> => {
    const { change, found: branch } = found;
    switch (step.do) {
      case "undo":
        return rows.undo(change, step.reason);
      case "leave":
        return settle(found, step, false);
      case "fail":
        if (await rows.fail(change, step.reason)) say(found, "failed", step.reason);
        return;
      default:
    }
    if (branch === null) return;
    switch (step.do) {
      case "beginCopy":
        return rows.beginCopy(change);
      case "beginFreeze":
        if (await rows.beginFreeze(change)) say(found, "freezing");
        return;
      case "freeze":
        return freeze(found, branch, signal);
      case "stop":
        if (await rows.stop(change)) say(found, "stopping");
        return;
      case "thaw":
        await bringTenant(branch, signal);
        return settle(found, step, true);
      case "removeServers":
        return rows.removeServers(change, step.taskIds);
      case "switch": {
        const generation = await rows.switchOver(change);
        if (generation !== null) say(found, "restoring", `generation ${generation}`);
        return;
      }
      case "startServer":
        return rows.startServer(change);
      case "bringTenant":
        return bringTenant(branch, signal);
      case "proveLogin":
        return proveLogin(found, branch, signal);
    }
  };
}
