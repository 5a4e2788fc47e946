import { type Registry, RegistryError } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import type { Db } from "../../stores/db/pool.ts";
import { recheckAfterMs } from "../../stores/work/recheck.ts";
import type { WorkHandler } from "../../stores/work/worker.ts";
import type { Fleet } from "../cluster/fleet.ts";
import { steppedWork } from "../cluster/stepped-work.ts";
import { insertTask } from "./store.ts";

/** What is known of an owner whose work is one task that ends by itself. */
interface Found<Step> {
  step: Step | { do: "wait" } | { do: "end" };
  /** Since it was asked for. */
  ageMs: number;
  /** Whether nothing is to come within seconds, so that no worker stays for it. */
  isFar: boolean;
}

/** What such tasks do takes seconds where there is little: for so long a worker stays with one. */
const holdMs = 15_000;

/**
 * Work that brings what is made by one task to its end. Each round reads everything and does one step, which looks again at what
 * it rests on; one that is repeated or cut off does no harm. What takes longer is looked at now and then. `read`: null when what
 * the work is about is no more.
 */
export function oneShotWork<Of extends Found<Step>, Step extends { do: string }>(
  { clock, fleet }: { clock: Clock; fleet: Pick<Fleet, "onChange"> },
  { read, perform }: { read(payload: unknown): Promise<Of | null>; perform(found: Of, step: Step): Promise<unknown> },
): WorkHandler {
  return steppedWork<Of, Step>(
    { clock, fleet },
    {
      wakenBy: ["placements"],
      read: ({ payload }) => read(payload),
      decide(found, item) {
        const { step, isFar, ageMs } = found;
        if (step.do === "end") return { do: "end", error: null };
        if (step.do !== "wait") return step as Step;
        const isLong = isFar || item.ageMs >= holdMs || ageMs >= holdMs;
        return { do: "wait", recheckMs: isLong ? recheckAfterMs(ageMs) : null };
      },
      perform,
    },
  );
}

type Task = Parameters<typeof insertTask>[2];
type OwnerOfTask = Parameters<typeof insertTask>[1];

/**
 * Makes the task of an owner, in one transaction with the look whether there is one already: two workers ask for one task. `lock`:
 * the owner, held; null when it does not wait for a task any more. `mayFollow`: another may be made once the one before was asked
 * to go.
 */
export const beginOneShot = <Locked>(
  db: Db,
  { id, project_id: projectId }: { id: string; project_id: string },
  {
    lock,
    mayFollow,
    make,
  }: {
    lock(tx: Db): Promise<Locked | null>;
    mayFollow: boolean;
    make(
      tx: Db,
      locked: Locked,
      project: { owner_id: string },
    ): Promise<{ task: Task; of: Pick<OwnerOfTask, "channel" | "pr_number"> }>;
  },
): Promise<void> =>
  db.transaction().execute(async (tx) => {
    // The project comes before what it has in the order of locks.
    const project = await tx
      .selectFrom("project")
      .select("owner_id")
      .where("id", "=", projectId)
      .where("deleting_at", "is", null)
      .forShare()
      .executeTakeFirst();
    if (project === undefined) return;
    const locked = await lock(tx);
    if (locked === null) return;
    const known = await tx
      .selectFrom("task")
      .select("id")
      .where("owner_id", "=", id)
      .$if(mayFollow, (of) => of.where("desired", "=", "running"))
      .limit(1)
      .executeTakeFirst();
    if (known !== undefined) return;
    const { task, of } = await make(tx, locked, project);
    await insertTask(tx, { id, project_id: projectId, ...of }, task, { replica: 0 });
  });

/**
 * Whether what a node says that it stored is there, as long as it says, and under this digest. Throws while the registry does
 * not answer.
 */
export async function isStored(
  registry: Pick<Registry, "getManifest" | "sizeOfBlob">,
  repository: string,
  { digest, sizeBytes }: { digest: string; sizeBytes: number },
): Promise<boolean> {
  try {
    const { manifest } = await registry.getManifest(repository, digest);
    const [layer] = manifest.layers ?? [];
    return layer?.size === sizeBytes && (await registry.sizeOfBlob(repository, layer.digest)) === sizeBytes;
  } catch (error) {
    if (error instanceof RegistryError && error.code !== "ARTIFACT_REGISTRY_UNAVAILABLE") return false;
    throw error;
  }
}
