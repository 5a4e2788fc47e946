import { z } from "zod";
import type { Credential } from "../../fleet/images/client.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { RegistryCredential } from "../../stores/db/tables.ts";
import type { Secrets } from "../../stores/secrets.ts";

const sealedCredential = z.object({ username: z.string(), secret: z.string() });

/** Where the sealed login of a registry lives; see `Secrets`. */
export const credentialAad = (projectId: string, host: string) => `registry_credential/${projectId}/${host}`;

/** What may be shown of a login. */
export type StoredCredential = Omit<RegistryCredential, "project_id" | "sealed">;

/** Sorted by host. Opens nothing. */
export const listCredentials = (db: Db, projectId: string): Promise<StoredCredential[]> =>
  db
    .selectFrom("registry_credential")
    .select(["host", "created_at", "updated_at"])
    .where("project_id", "=", projectId)
    .orderBy("host")
    .execute();

/** The project's login for exactly this normalised host; null when it has none. Throws `CannotOpen`. */
export async function findCredential(
  db: Db,
  secrets: Secrets,
  projectId: string,
  host: string,
): Promise<Credential | null> {
  const row = await db
    .selectFrom("registry_credential")
    .select("sealed")
    .where("project_id", "=", projectId)
    .where("host", "=", host)
    .executeTakeFirst();
  if (row === undefined) return null;
  return sealedCredential.parse(JSON.parse(secrets.open(row.sealed, credentialAad(projectId, host)).toString("utf8")));
}

/** Sets the login of a host, in the place of the one before. */
export function putCredential(
  db: Db,
  secrets: Secrets,
  at: { projectId: string; host: string; now: Date },
  { username, secret }: Credential,
): Promise<StoredCredential> {
  const { projectId, host, now } = at;
  const sealed = secrets.seal(Buffer.from(JSON.stringify({ username, secret })), credentialAad(projectId, host));
  return db
    .insertInto("registry_credential")
    .values({ project_id: projectId, host, sealed, created_at: now, updated_at: now })
    .onConflict((conflict) => conflict.columns(["project_id", "host"]).doUpdateSet({ sealed, updated_at: now }))
    .returning(["host", "created_at", "updated_at"])
    .executeTakeFirstOrThrow();
}

/** Whether there was one to delete. */
export async function deleteCredential(db: Db, projectId: string, host: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom("registry_credential")
    .where("project_id", "=", projectId)
    .where("host", "=", host)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}
