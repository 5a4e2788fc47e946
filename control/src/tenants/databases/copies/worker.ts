import { randomBytes } from "node:crypto";
import { copySlot, type DatabaseEngine } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { createWake } from "@svc/runtime/wake";
import { sql } from "kysely";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { keeperSecretAad, openAdminPassword, openKeeperPassword } from "../../../fleet/databases/secrets.ts";
import { verifierOf } from "../../../fleet/databases/verifier.ts";
import { removeTasks } from "../../../fleet/tasks/change.ts";
import { keeperTask } from "../../../fleet/tasks/kinds/keeper.ts";
import { insertTask } from "../../../fleet/tasks/store.ts";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Branch, Copy } from "../../../stores/db/tables.ts";
import type { Secrets } from "../../../stores/secrets.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import { type AdminTarget, type DatabaseAdmin, type OpenLine, ServerRefused, ServerUnreachable } from "../admin-sql.ts";
import { releasedMax } from "../sql/requests.ts";
import { lockBranch } from "../store.ts";
import { type CopiesFleet, type FoundCopies, isLeft, readCopiesFacts } from "./facts.ts";
import { isFollowing } from "./fresh.ts";
import { keeperWork } from "./keepers.ts";
import { type CopiesStep, nextCopiesStep, retentionHours } from "./steps.ts";
import { beginCopy, endCopy } from "./store.ts";

export interface CopiesWorkerDeps {
  clock: Clock;
  db: Db;
  fleet: CopiesFleet & Pick<Fleet, "onChange">;
  secrets: Secrets;
  openLine: OpenLine;
  admin: Pick<DatabaseAdmin, "bringKeeper" | "releaseSlots">;
  /** What keepers run in: what servers do. */
  images: Readonly<Record<DatabaseEngine, string>>;
  /** Whether this installation keeps copies. */
  isWanted: boolean;
  log: Log;
}

/** What is asked for is there within seconds; the leader's rounds look again at everything else. */
const holdMs = 3_000;
const lookMs = 500;
const adminMs = 15_000;

type Effects = {
  [K in Exclude<CopiesStep["do"], "wait" | "rest">]: (
    found: FoundCopies,
    step: Extract<CopiesStep, { do: K }>,
    signal: AbortSignal,
  ) => Promise<void>;
};

/**
 * Work of kind `copies`: sees to it that the copies of a branch are there that should be, and no others. Each round reads everything
 * and does one step. What a step does in the server may be repeated; what it writes down is a transaction that looks again at what it
 * rests on. So a round that is repeated, cut off, or done by two workers does no harm.
 */
export function copiesWorker(deps: CopiesWorkerDeps): WorkHandler {
  const { clock, fleet, log } = deps;
  const effects = copyEffects(deps);
  return async (item, signal) => {
    const { databaseId } = item.payload as { databaseId: string };
    const wake = createWake(clock);
    using _placements = fleet.onChange("placements", wake.signal);
    const endMs = clock.steadyMs() + holdMs;
    while (!signal.aborted) {
      const found = await readCopiesFacts(deps, databaseId);
      if (found === null) return { state: "done" };
      const step = nextCopiesStep(found.copies);
      if (step.do === "rest" || (step.do === "wait" && clock.steadyMs() >= endMs)) return { state: "done" };
      if (step.do === "wait") {
        await wake.wait(lookMs, signal);
        continue;
      }
      try {
        const effect = effects[step.do] as (found: FoundCopies, step: CopiesStep, signal: AbortSignal) => Promise<void>;
        await effect(found, step, signal);
      } catch (error) {
        if (!(error instanceof ServerUnreachable || error instanceof ServerRefused)) throw error;
        log.warn({ err: error, databaseId, step: step.do }, "a database server did not do what its copies need");
        return { state: "done" };
      }
    }
    return { retryAfterMs: 0, refund: true };
  };
}

/** Of characters that no file or variable has to escape. */
const newPassword = (): Buffer => Buffer.from(randomBytes(32).toString("base64url"));

function copyEffects({ clock, db, secrets, openLine, admin, images, log }: CopiesWorkerDeps): Effects {
  /** Runs `act` with the branch held, if it is of the generation and in the status that the facts were of. */
  const locked = ({ branch }: FoundCopies, act: (tx: Db, branch: Branch) => Promise<void>) =>
    db.transaction().execute(async (tx) => {
      const now = await lockBranch(tx, branch.id);
      if (now?.status === branch.status && now.generation === branch.generation) await act(tx, now);
    });

  async function onServer<T>(
    { branch, address }: FoundCopies,
    signal: AbortSignal,
    act: (target: AdminTarget, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    if (address === null) throw new ServerUnreachable("it is on no node");
    const bounded = AbortSignal.any([signal, clock.abortAfter(adminMs)]);
    const connect = (each: AbortSignal) => openLine(address, AbortSignal.any([bounded, each]));
    const password = openAdminPassword(secrets, branch);
    return act({ engine: branch.engine, connect, password, turn: branch.project_id }, bounded);
  }

  const say = ({ branch }: FoundCopies, step: CopiesStep) =>
    log.info({ databaseId: branch.id, projectId: branch.project_id, ...step }, "copies of a database");

  /** The copy, held, if it has not ended. */
  const lockCopy = async (tx: Db, id: string): Promise<Copy | null> =>
    (await tx
      .selectFrom("database_copy")
      .selectAll()
      .where("id", "=", id)
      .where("state", "!=", "ended")
      .forUpdate()
      .executeTakeFirst()) ?? null;

  return {
    begin: (found, step) =>
      locked(found, async (tx, branch) => {
        await beginCopy(tx, branch, step);
        say(found, step);
      }),

    place: (found, { copyId, nodeId }) =>
      locked(found, async (tx) => {
        await tx
          .updateTable("database_copy")
          .set({ node_id: nodeId })
          .where("id", "=", copyId)
          .where("node_id", "is", null)
          .execute();
      }),

    promote: (found, step) =>
      locked(found, async (tx) => {
        const { copyId, insteadOf } = step;
        if ((await lockCopy(tx, copyId)) === null) return;
        const keeper = await tx
          .selectFrom("database_copy")
          .select("id")
          .where("database_id", "=", found.branch.id)
          .where("purpose", "=", "keeper")
          .where("state", "!=", "ended")
          .executeTakeFirst();
        if ((keeper?.id ?? null) !== insteadOf) return;
        if (insteadOf !== null) {
          const follows = await tx
            .selectFrom("database_copy")
            .select("id")
            .where("id", "=", copyId)
            .where(isFollowing)
            .executeTakeFirst();
          if (follows === undefined) return;
          await endCopy(tx, insteadOf, { keptHours: retentionHours });
        }
        await tx.updateTable("database_copy").set({ purpose: "keeper" }).where("id", "=", copyId).execute();
        say(found, step);
      }),

    end: (found, step) =>
      locked(found, async (tx) => {
        const copy = await lockCopy(tx, step.copyId);
        if (copy?.purpose !== step.purpose) return;
        // Since it was decided on, it may have become what alone can be restored from.
        await endCopy(tx, step.copyId, { keptHours: copy.bases.length > 0 ? retentionHours : 0 });
        say(found, step);
      }),

    makePassword: (found) =>
      locked(found, async (tx, { id, keeper_secret }) => {
        if (keeper_secret !== null) return;
        const sealed = secrets.seal(newPassword(), keeperSecretAad(id));
        await tx.updateTable("database").set({ keeper_secret: sealed, keeper_at: null }).where("id", "=", id).execute();
      }),

    async letIn(found, _step, signal) {
      const { branch } = found;
      const verifier = verifierOf(branch.engine, branch.id, openKeeperPassword(secrets, branch));
      // As of before it was asked: a copy that is begun meanwhile has it told again.
      const { now } = await db.selectNoFrom(sql<Date>`clock_timestamp()`.as("now")).executeTakeFirstOrThrow();
      await onServer(found, signal, (target, bounded) => admin.bringKeeper(target, { verifier }, bounded));
      await locked(found, async (tx, { id }) => {
        await tx.updateTable("database").set({ keeper_at: now }).where("id", "=", id).execute();
      });
    },

    startKeeper: (found, { copyId }) =>
      locked(found, async (tx) => {
        const copy = await lockCopy(tx, copyId);
        if (copy === null || copy.node_id === null) return;
        const before = await tx
          .selectFrom("task")
          .select("id")
          .where("owner_id", "=", copyId)
          .where("kind", "=", "keeper")
          .where("reaped_at", "is", null)
          .limit(1)
          .executeTakeFirst();
        // Two must never be at one volume.
        if (before !== undefined) return;
        const work = { ...keeperWork(found.plan), databaseId: copy.database_id, engine: copy.engine };
        const task = keeperTask({ ...work, image: images[copy.engine] }, copy.node_id);
        await insertTask(tx, { ...copy, pr_number: null }, task, { replica: 0 });
      }),

    removeKeepers: (_found, { taskIds }) => removeTasks(db, taskIds),

    async releaseLog(found, _step, signal) {
      const { branch } = found;
      const ended = await db
        .selectFrom("database_copy")
        .select("id")
        .where("database_id", "=", branch.id)
        // Those of another volume are in the log of its server.
        .where("generation", "=", branch.generation)
        .where("state", "=", "ended")
        .where("released_at", "is", null)
        .where(isLeft)
        .limit(releasedMax)
        .execute();
      const ids = ended.map(({ id }) => id);
      if (ids.length === 0) return;
      const slots = ids.map(copySlot);
      await onServer(found, signal, (target, bounded) => admin.releaseSlots(target, { slots }, bounded));
      await db
        .updateTable("database_copy")
        .set({ released_at: sql<Date>`clock_timestamp()` })
        .where("id", "in", ids)
        .execute();
    },
  };
}
