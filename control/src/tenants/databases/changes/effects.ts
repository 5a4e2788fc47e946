import { copySlot, type DatabaseEngine, databaseNames } from "@svc/proto";
import { sql } from "kysely";
import { enqueueCopies } from "../../../fleet/databases/checks.ts";
import { removeTasks } from "../../../fleet/tasks/change.ts";
import { listWantedTasks } from "../../../fleet/tasks/store.ts";
import { holdPlanOfUser } from "../../../identity/plans/of-user.ts";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Branch, Change, Plan } from "../../../stores/db/tables.ts";
import { ServerRefused } from "../admin-sql.ts";
import { beginCopy, endCopies, endCopy, keepCopies } from "../copies/store.ts";
import type { FoundBranch } from "../facts.ts";
import { startServer } from "../servers.ts";
import { doubted, hasNoServer, lockBranch, moveBranch, wakeBranch } from "../store.ts";
import { isSameTenant, tenantRows } from "../tenant-rows.ts";
import { type TenantWorkDeps, tenantWork } from "../tenant-work.ts";
import { findOwnVolume, keepVolumes } from "../volumes/store.ts";
import type { FoundChange } from "./facts.ts";
import { copyHours, volumeHours } from "./kept.ts";
import type { ChangeStep } from "./steps.ts";
import { endChange, lockChange, moveChange, setUndoing, takeVolume } from "./store.ts";

export interface ChangeDeps extends Omit<TenantWorkDeps, "rows"> {
  db: Db;
  /** What new servers run in. */
  images: Readonly<Record<DatabaseEngine, string>>;
  log: Log;
}

/** How long the server itself is asked whether the copy has the rest, before everything is looked at again. */
const copiedWaitMs = 2_000;

/** Does one step. What it writes is written only while the change is where it was, under the lock of its branch. */
export function changeEffects(deps: ChangeDeps) {
  const { db, admin, images, log } = deps;
  const { onServer, bringTenant, isLetIn } = tenantWork({ ...deps, rows: tenantRows(db) });

  const say = ({ change }: FoundChange, to: string, why?: string) =>
    log.info(
      { changeId: change.id, databaseId: change.database_id, kind: change.kind, from: change.state, to, why },
      "database change",
    );

  /**
   * Runs `act` with branch and change held, if the change is still where it was; false: it is not. The state alone does not say
   * so: a change comes to it again with each try. The branch is null once it is no more.
   */
  const held = (
    { change: { id, database_id, state, freezes } }: FoundChange,
    act: (tx: Db, change: Change, branch: Branch | null) => Promise<void>,
  ): Promise<boolean> =>
    db.transaction().execute(async (tx) => {
      const branch = await lockBranch(tx, database_id);
      const change = await lockChange(tx, id, state);
      if (change?.freezes !== freezes) return false;
      await act(tx, change, branch);
      return true;
    });

  /** The same with the plan of its owner, which comes before the branch in the order of locks; not without a branch. */
  const heldWithPlan = (
    { change: { id, database_id, state } }: FoundChange,
    projectId: string,
    act: (tx: Db, change: Change, branch: Branch, plan: Plan) => Promise<void>,
  ): Promise<void> =>
    db.transaction().execute(async (tx) => {
      const project = await tx
        .selectFrom("project")
        .select("owner_id")
        .where("id", "=", projectId)
        .executeTakeFirstOrThrow();
      const plan = await holdPlanOfUser(tx, project.owner_id);
      const branch = await lockBranch(tx, database_id);
      const change = branch && (await lockChange(tx, id, state));
      if (branch && change) await act(tx, change, branch, plan);
    });

  const setDoubted = (tx: Db, id: string) => tx.updateTable("database").set(doubted).where("id", "=", id).execute();

  const removeServers = async (tx: Db, databaseId: string) => {
    const servers = await listWantedTasks(tx, databaseId, "database");
    await removeTasks(
      tx,
      servers.map(({ id }) => id),
    );
  };

  /** The end without success: the branch goes on by itself, and a copy that was made for this is of no more use. */
  async function giveUp(tx: Db, { id, copy_id, database_id }: Change, reason: string) {
    await endChange(tx, id, reason);
    if (copy_id !== null) {
      const copy = await tx.selectFrom("database_copy").select("purpose").where("id", "=", copy_id).executeTakeFirst();
      if (copy?.purpose === "move") await endCopy(tx, copy_id, { keptHours: copyHours });
    }
    await wakeBranch(tx, database_id);
  }

  async function beginMove(tx: Db, change: Change, branch: Branch) {
    const copy_id = await beginCopy(tx, branch, {
      purpose: "move",
      ...(change.to_node !== null && { nodeId: change.to_node }),
    });
    await tx.updateTable("database_change").set({ copy_id }).where("id", "=", change.id).execute();
    await enqueueCopies(tx, [branch.id]);
  }

  async function freeze(found: FoundChange, branch: FoundBranch, signal: AbortSignal) {
    const { change } = found;
    const { role } = databaseNames(branch.branch.id);
    const slot = branch.branch.engine === "postgres" && change.copy_id !== null ? copySlot(change.copy_id) : null;
    let frozen: { position: string; isCopied: boolean } | null = null;
    try {
      frozen = await onServer(branch, signal, (target, bounded) =>
        admin.freeze(target, { role, slot, waitMs: copiedWaitMs }, bounded),
      );
    } finally {
      await noteFrozen(found, frozen);
    }
  }

  /** Notes where the log was. The tenant may be kept out by what came too late, and is then to be let in again. */
  async function noteFrozen(found: FoundChange, frozen: { position: string; isCopied: boolean } | null) {
    let to: "stopping" | "draining" | null = null;
    const isSame = await held(found, async (tx, { id, undoing }, branch) => {
      if (undoing !== null && branch !== null) await setDoubted(tx, branch.id);
      if (undoing !== null || frozen === null) return;
      to = frozen.isCopied ? "stopping" : "draining";
      await moveChange(tx, id, to, { frozen_position: frozen.position });
      if (to === "stopping") await removeServers(tx, found.change.database_id);
    });
    if (to !== null && to !== found.change.state) say(found, to);
    if (isSame) return;
    await db.transaction().execute(async (tx) => {
      const now = await lockBranch(tx, found.change.database_id);
      if (now === null) return;
      await setDoubted(tx, now.id);
      await wakeBranch(tx, now.id);
    });
  }

  async function stop(found: FoundChange) {
    const isDone = await held(found, async (tx, { id, undoing, database_id }) => {
      // Whoever lets the tenant in again has noted it before.
      if (undoing !== null) return;
      await moveChange(tx, id, "stopping");
      await removeServers(tx, database_id);
    });
    if (isDone) say(found, "stopping");
  }

  const settle = (found: FoundChange, { to, reason }: { to: "copying" | "failed"; reason: string }, isOpen: boolean) =>
    held(found, async (tx, change, branch) => {
      if (branch !== null && !isOpen) await setDoubted(tx, branch.id);
      if (to === "failed") await giveUp(tx, change, reason);
      else {
        await moveChange(tx, change.id, "copying", { undoing: null, frozen_position: null, frozen_at: null });
        await wakeBranch(tx, change.database_id);
      }
      say(found, to, reason);
    });

  /** What the new volume begins with. */
  const restoreOf = ({ copy_id, until, kind }: Change) =>
    kind === "upgrade" || copy_id === null ? null : { copyId: copy_id, until: until?.toISOString() ?? null };

  const imagesOf = ({ image }: Change, { engine }: Branch) =>
    image === null ? images : { ...images, [engine]: image };

  /** Where the branch has its data next, and until when nothing of that is lost; null: there it cannot be any more. */
  async function nextVolume(tx: Db, { kind, database_id, copy_id, until, volume_generation: generation }: Change) {
    if (generation !== null) {
      const volume = await findOwnVolume(tx, { databaseId: database_id, generation });
      return volume && { nodeId: volume.nodeId, generation, covered_at: null };
    }
    const copy = await tx
      .selectFrom("database_copy")
      .selectAll()
      .where("id", "=", copy_id ?? "")
      .forUpdate()
      .executeTakeFirst();
    if (copy?.node_id == null) return null;
    const covered_at = kind === "move" ? sql<Date>`clock_timestamp()` : (until ?? copy.covered_at);
    return { nodeId: copy.node_id, covered_at };
  }

  async function switchOver(tx: Db, change: Change, before: Branch, plan: Plan) {
    // One that was dropped meanwhile is buried with the volume that it has.
    if (change.cancelled || before.status === "dropping" || before.generation !== change.from_generation) return null;
    if (!(await hasNoServer(tx, before))) return null;
    if (change.kind === "upgrade") {
      await startServer(tx, before, plan, imagesOf(change, before));
      await moveChange(tx, change.id, "restoring");
      return before.generation;
    }
    const next = await nextVolume(tx, change);
    if (next === null) return null;
    const { covered_at, ...place } = next;
    const branch = await takeVolume(tx, before, { ...place, keptHours: volumeHours[change.kind] });
    // Their keepers would go on with the log of another volume.
    await endCopies(tx, branch.id, { keptHours: copyHours });
    await startServer(tx, branch, plan, images, { restore: restoreOf(change) });
    await moveBranch(tx, branch.id, { from: "error", to: "provisioning" });
    await moveChange(tx, change.id, "restoring", { covered_at, to_node: place.nodeId });
    return branch.generation;
  }

  async function proveLogin(found: FoundChange, branch: FoundBranch, signal: AbortSignal) {
    const proven = await isLetIn(branch, signal);
    await held(found, async (tx, { id }, now) => {
      if (now === null) return;
      if (!proven) return void (await setDoubted(tx, now.id));
      if (!isSameTenant(branch.branch, now)) return;
      for (const from of ["provisioning", "error"] as const) await moveBranch(tx, now.id, { from, to: "ready" });
      await endChange(tx, id, null);
      await wakeBranch(tx, now.id);
      say(found, "done");
    });
    if (!proven) throw new ServerRefused("the tenant's own password is refused");
  }

  const fail = (found: FoundChange, reason: string) =>
    held(found, async (tx, change, branch) => {
      if (branch !== null && change.state !== "copying") await setDoubted(tx, branch.id);
      if (branch !== null && change.state === "restoring" && change.kind !== "upgrade") {
        // What it was to come out of, and the volume of before, are all that there is of it now.
        await keepVolumes(tx, branch.id, { keptHours: volumeHours.restore });
        await keepCopies(tx, branch.id, { keptHours: copyHours });
        for (const from of ["provisioning", "ready"] as const)
          await moveBranch(tx, branch.id, { from, to: "error", reason: `It could not be restored. ${reason}` });
      }
      await giveUp(tx, change, reason);
      say(found, "failed", reason);
    });

  return async (
    found: FoundChange,
    step: Exclude<ChangeStep, { do: "wait" | "end" }>,
    signal: AbortSignal,
  ): Promise<void> => {
    const branch = found.found;
    switch (step.do) {
      case "undo":
        return void (await held(found, (tx, { id }) => setUndoing(tx, id, step.reason)));
      case "leave":
        return void (await settle(found, step, false));
      case "fail":
        return void (await fail(found, step.reason));
      default:
    }
    if (branch === null) return;
    const { project_id } = branch.branch;
    switch (step.do) {
      case "beginCopy":
        return void (await held(found, async (tx, change, now) => {
          if (now !== null) await beginMove(tx, change, now);
        }));
      case "beginFreeze":
        return void (await held(found, async (tx, { id, cancelled }, now) => {
          if (now?.status !== "ready" || now.tenant_at === null || now.pending_secret !== null || cancelled) return;
          if (now.read_only && now.engine === "postgres") return;
          const freezes = sql<number>`freezes + 1`;
          await moveChange(tx, id, "freezing", { freezes, frozen_at: sql<Date>`clock_timestamp()` });
          say(found, "freezing");
        }));
      case "freeze":
        return freeze(found, branch, signal);
      case "stop":
        return stop(found);
      case "thaw":
        await bringTenant(branch, signal);
        return void (await settle(found, step, true));
      case "removeServers":
        return void (await held(found, (tx) => removeTasks(tx, step.taskIds)));
      case "switch":
        return heldWithPlan(found, project_id, async (tx, change, before, plan) => {
          const generation = await switchOver(tx, change, before, plan);
          if (generation !== null) say(found, "restoring", `generation ${generation}`);
        });
      case "startServer":
        return heldWithPlan(found, project_id, async (tx, change, now, plan) => {
          if (now.status !== "dropping" && (await hasNoServer(tx, now)))
            await startServer(tx, now, plan, imagesOf(change, now), { restore: restoreOf(change) });
        });
      case "bringTenant":
        return bringTenant(branch, signal);
      case "proveLogin":
        return proveLogin(found, branch, signal);
    }
  };
}
