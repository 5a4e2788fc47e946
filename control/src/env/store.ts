import type { Db } from "../db/pool.ts";
import type { Secrets } from "../secrets.ts";

/** Where the sealed value of a variable lives; see `Secrets`. */
const aad = (projectId: string, key: string) => `env_var/${projectId}/${key}`;

/** The environment of a project, opened, sorted by name. Throws `CannotOpen`. */
export async function readEnv(db: Db, secrets: Secrets, projectId: string): Promise<Record<string, string>> {
  const rows = await db
    .selectFrom("env_var")
    .select(["key", "value"])
    .where("project_id", "=", projectId)
    .orderBy("key")
    .execute();
  return Object.fromEntries(
    rows.map(({ key, value }) => [key, secrets.open(value, aad(projectId, key)).toString("utf8")]),
  );
}

/** Makes `vars` the whole environment. Needs the project locked, or two writers may mix. */
export async function replaceEnv(
  tx: Db,
  secrets: Secrets,
  projectId: string,
  vars: Readonly<Record<string, string>>,
): Promise<void> {
  await tx.deleteFrom("env_var").where("project_id", "=", projectId).execute();
  const rows = Object.entries(vars).map(([key, value]) => ({
    project_id: projectId,
    key,
    value: secrets.seal(Buffer.from(value), aad(projectId, key)),
  }));
  if (rows.length > 0) await tx.insertInto("env_var").values(rows).execute();
}
