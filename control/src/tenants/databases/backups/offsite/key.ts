import { randomBytes } from "node:crypto";
import { createSecrets, type Secrets } from "../../../../stores/secrets.ts";

/** Where the sealed key of a backup's file outside of this site lives; see `Secrets`. */
export const offsiteSecretAad = (backupId: string) => `database_backup/${backupId}/offsite_secret`;

/** A new key, sealed. */
export const makeFileKey = (secrets: Pick<Secrets, "seal">, backupId: string): Buffer =>
  secrets.seal(randomBytes(32), offsiteSecretAad(backupId));

/** Seals and opens what is off-site of one backup. Throws `CannotOpen`. */
export const openFileKey = (secrets: Secrets, backupId: string, sealed: Uint8Array): Pick<Secrets, "seal" | "open"> =>
  createSecrets([secrets.open(sealed, offsiteSecretAad(backupId))]);
