import { randomBytes } from "node:crypto";
import { createSecrets, type Secrets } from "../../../../stores/secrets.ts";

/** Where the sealed key of what is off-site of a branch's copies lives; see `Secrets`. */
export const offsiteKeyAad = (databaseId: string) => `offsite_key/${databaseId}/secret`;

/** A new key, sealed. */
export const makeBranchKey = (secrets: Pick<Secrets, "seal">, databaseId: string): Buffer =>
  secrets.seal(randomBytes(32), offsiteKeyAad(databaseId));

/** Seals and opens what is off-site of a branch's copies. Throws `CannotOpen`. */
export const openBranchKey = (
  secrets: Secrets,
  databaseId: string,
  sealed: Uint8Array,
): Pick<Secrets, "seal" | "open"> => createSecrets([secrets.open(sealed, offsiteKeyAad(databaseId))]);
