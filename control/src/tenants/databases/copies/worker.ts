import { randomBytes } from "node:crypto";
import { copySlot } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { createWake } from "@svc/runtime/wake";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { keeperSecretAad, openAdminPassword, openKeeperPassword } from "../../../fleet/databases/secrets.ts";
import { verifierOf } from "../../../fleet/databases/verifier.ts";
import type { Log } from "../../../log.ts";
import type { Secrets } from "../../../stores/secrets.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import { type AdminTarget, type DatabaseAdmin, type OpenLine, ServerRefused, ServerUnreachable } from "../admin-sql.ts";
import { type CopiesFleet, type FoundCopies, readCopiesFacts } from "./facts.ts";
import type { CopyRows } from "./rows.ts";
import { type CopiesStep, nextCopiesStep } from "./steps.ts";

export interface CopiesWorkerDeps {
  clock: Clock;
  rows: CopyRows;
  fleet: CopiesFleet & Pick<Fleet, "onChange">;
  secrets: Secrets;
  openLine: OpenLine;
  admin: Pick<DatabaseAdmin, "bringKeeper" | "releaseSlots">;
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

function copyEffects({ clock, rows, secrets, openLine, admin, log }: CopiesWorkerDeps): Effects {
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

  return {
    async begin(found, step) {
      if (await rows.begin(found.branch, step)) say(found, step);
    },
    place: ({ branch }, step) => rows.place(branch, step),
    async promote(found, step) {
      if (await rows.promote(found.branch, step)) say(found, step);
    },
    async end(found, step) {
      if (await rows.end(found.branch, step)) say(found, step);
    },
    makePassword: ({ branch }) => rows.setPassword(branch, secrets.seal(newPassword(), keeperSecretAad(branch.id))),

    async letIn(found, _step, signal) {
      const { branch } = found;
      const verifier = verifierOf(branch.engine, branch.id, openKeeperPassword(secrets, branch));
      // As of before it was asked: a copy that is begun meanwhile has it told again.
      const now = await rows.now();
      await onServer(found, signal, (target, bounded) => admin.bringKeeper(target, { verifier }, bounded));
      await rows.letIn(branch, now);
    },

    startKeeper: ({ branch, plan }, step) => rows.startKeeper(branch, step, plan),
    removeKeepers: (_found, { taskIds }) => rows.removeKeepers(taskIds),

    async releaseLog(found, _step, signal) {
      const ids = await rows.listReleasable(found.branch);
      if (ids.length === 0) return;
      const slots = ids.map(copySlot);
      await onServer(found, signal, (target, bounded) => admin.releaseSlots(target, { slots }, bounded));
      await rows.released(ids);
    },
  };
}
