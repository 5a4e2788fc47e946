import type { Branch } from "../../stores/db/tables.ts";
import { CannotOpen, type Secrets } from "../../stores/secrets.ts";

/** Where the sealed password of the administrator of a branch's server lives; see `Secrets`. */
export const adminSecretAad = (databaseId: string) => `database/${databaseId}/admin_secret`;

/** The same of the role that owns the database. */
export const tenantSecretAad = (databaseId: string) => `database/${databaseId}/secret`;

/** The same of the one that takes its place. */
export const pendingSecretAad = (databaseId: string) => `database/${databaseId}/pending_secret`;

/** The same of the user that keepers of copies log in as. */
export const keeperSecretAad = (databaseId: string) => `database/${databaseId}/keeper_secret`;

/** Throws `CannotOpen`. */
export const openAdminPassword = (
  secrets: Secrets,
  { id, admin_secret }: Pick<Branch, "id" | "admin_secret">,
): string => secrets.open(admin_secret, adminSecretAad(id)).toString("utf8");

/** Throws `CannotOpen`, also when it has none so far. */
export function openKeeperPassword(
  secrets: Secrets,
  { id, keeper_secret }: Pick<Branch, "id"> & { keeper_secret: Buffer | null },
): string {
  if (keeper_secret === null) throw new CannotOpen("nobody keeps copies of it");
  return secrets.open(keeper_secret, keeperSecretAad(id)).toString("utf8");
}

/**
 * The password of the tenant's role that whoever is told it now should have: from the moment that another is asked for, the
 * one before is as good as refused. Throws `CannotOpen`.
 */
export const openTenantPassword = (
  secrets: Secrets,
  { id, secret, pending_secret }: Pick<Branch, "id" | "secret" | "pending_secret">,
): string =>
  (pending_secret === null
    ? secrets.open(secret, tenantSecretAad(id))
    : secrets.open(pending_secret, pendingSecretAad(id))
  ).toString("utf8");
