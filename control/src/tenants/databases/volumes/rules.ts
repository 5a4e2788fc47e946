// @pure
import type { KnownVolume } from "../../../fleet/database-volumes/rules.ts";
import type { Refusal } from "../rules.ts";

/** A volume of which an operator says what is to become of it. */
export interface AskedVolume extends KnownVolume {
  /** The time for which it is kept is over, and whoever wants it comes too late. */
  isPast: boolean;
}

const conflict = (message: string): Refusal => ({ code: "CONFLICT", message });
const absent: Refusal = { code: "NOT_FOUND" };

function inUse({ of, isCurrent, isOver }: KnownVolume): Refusal | null {
  if (isOver && !isCurrent) return null;
  return of === "copy"
    ? conflict("It is a copy that goes on, and stays as long as it does.")
    : conflict("A database has its data in it, and it stays as long as that does.");
}

/** What is told of a volume that is none of those that databases had. */
export const unknownRefusal = (isReported: boolean): Refusal =>
  isReported
    ? conflict("Nobody knows what it is, so the platform leaves it alone. Whoever does removes it on its machine.")
    : absent;

/** Why a volume is not kept until somebody says otherwise; null: it is. */
export function keepRefusal(volume: AskedVolume): Refusal | null {
  if (volume.isGone) return absent;
  const used = inUse(volume);
  if (used !== null) return used;
  return volume.isPast ? conflict("Its time is over, and its machine is removing it.") : null;
}

/** Why a volume is not removed at once; null: it is. */
export function deleteRefusal(volume: AskedVolume, { confirmed }: { confirmed: boolean }): Refusal | null {
  if (volume.isGone) return absent;
  const used = inUse(volume);
  if (used !== null) return used;
  if (volume.isChanging) return conflict("A change of its database is under way that may need it.");
  if (volume.isUsed) return conflict("A server, or somebody who keeps or proves a copy, uses it.");
  return confirmed
    ? null
    : {
        code: "DESTRUCTIVE_CONFIRMATION_REQUIRED",
        message: "What is in it is lost. Repeat the call with confirm: true.",
      };
}
