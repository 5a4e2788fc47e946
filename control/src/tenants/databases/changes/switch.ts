// @pure
import type { DatabaseEngine } from "@svc/proto";
import type { DatabaseTaskSpec } from "../../../fleet/tasks/kinds/database.ts";
import type { Branch, Change } from "../../../stores/db/tables.ts";

/** Where a change decides about the branch's servers and its tenant, and nobody else does. */
export const holding = ["freezing", "draining", "stopping", "restoring"] as const satisfies readonly Change["state"][];

/** Whether the tenant can be kept out from now on. */
export const mayFreeze = (
  { cancelled }: Pick<Change, "cancelled">,
  { status, tenant_at, pending_secret, read_only, engine }: Branch,
): boolean =>
  status === "ready" &&
  tenant_at !== null &&
  pending_secret === null &&
  !cancelled &&
  !(read_only && engine === "postgres");

/** Whether the branch, which has no server any more, may come to where it goes. One that was dropped is buried with the volume that it has. */
export const maySwitch = (
  { cancelled, from_generation }: Pick<Change, "cancelled" | "from_generation">,
  { status, generation }: Pick<Branch, "status" | "generation">,
): boolean => !cancelled && status !== "dropping" && generation === from_generation;

/** What the new volume begins with. */
export const restoreOf = ({
  copy_id,
  until,
  kind,
}: Pick<Change, "copy_id" | "until" | "kind">): DatabaseTaskSpec["restore"] =>
  kind === "upgrade" || copy_id === null ? null : { copyId: copy_id, until: until?.toISOString() ?? null };

/** What the server runs in. */
export const imagesOf = (
  images: Readonly<Record<DatabaseEngine, string>>,
  { image }: Pick<Change, "image">,
  { engine }: Pick<Branch, "engine">,
): Readonly<Record<DatabaseEngine, string>> => (image === null ? images : { ...images, [engine]: image });

/** Whether what there is of the branch is in doubt once its change fails: only where it was to come out of something. */
export const losesVolume = ({ state, kind }: Pick<Change, "state" | "kind">): boolean =>
  state === "restoring" && kind !== "upgrade";
