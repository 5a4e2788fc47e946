import type { Channel } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Secrets } from "../../stores/secrets.ts";
import type { EnvNames } from "./rules.ts";

/** Where the sealed value of a variable of the project lives; see `Secrets`. */
export const envVarAad = (projectId: string, key: string) => `env_var/${projectId}/${key}`;

/** The same for one that only a channel has. */
export const envOverlayAad = (projectId: string, channel: Channel, key: string) =>
  `env_overlay/${projectId}/${channel}/${key}`;

const aad = (projectId: string, channel: Channel | null, key: string) =>
  channel === null ? envVarAad(projectId, key) : envOverlayAad(projectId, channel, key);

const rowsOf = (db: Db, projectId: string, channel: Channel | null) =>
  channel === null
    ? db.selectFrom("env_var").select(["key", "value"]).where("project_id", "=", projectId).orderBy("key").execute()
    : db
        .selectFrom("env_overlay")
        .select(["key", "value"])
        .where("project_id", "=", projectId)
        .where("channel", "=", channel)
        .orderBy("key")
        .execute();

/**
 * One layer of a project's environment, opened, sorted by name: the overlay of `channel`, or the base for null.
 * Throws `CannotOpen`.
 */
export async function readEnv(
  db: Db,
  secrets: Secrets,
  projectId: string,
  channel: Channel | null,
): Promise<Record<string, string>> {
  const rows = await rowsOf(db, projectId, channel);
  return Object.fromEntries(
    rows.map(({ key, value }) => [key, secrets.open(value, aad(projectId, channel, key)).toString("utf8")]),
  );
}

/** Base and overlay of `channel` at one moment, by one statement. Throws `CannotOpen`. */
export async function readLayers(
  db: Db,
  secrets: Secrets,
  projectId: string,
  channel: Channel,
): Promise<{ base: Record<string, string>; overlay: Record<string, string> }> {
  const rows = await db
    .selectFrom("env_var")
    .select(["key", "value", sql<boolean>`false`.as("isOver")])
    .where("project_id", "=", projectId)
    .unionAll(
      db
        .selectFrom("env_overlay")
        .select(["key", "value", sql<boolean>`true`.as("isOver")])
        .where("project_id", "=", projectId)
        .where("channel", "=", channel),
    )
    .orderBy("key")
    .execute();
  const layer = (of: Channel | null) =>
    Object.fromEntries(
      rows
        .filter(({ isOver }) => isOver === (of !== null))
        .map(({ key, value }) => [key, secrets.open(value, aad(projectId, of, key)).toString("utf8")]),
    );
  return { base: layer(null), overlay: layer(channel) };
}

/** Names of all layers. Exact while the project is locked. */
export async function listEnvNames(db: Db, projectId: string): Promise<EnvNames> {
  const base = await db.selectFrom("env_var").select("key").where("project_id", "=", projectId).execute();
  const over = await db
    .selectFrom("env_overlay")
    .select(["channel", "key"])
    .where("project_id", "=", projectId)
    .execute();
  const of = (channel: Channel) => over.filter((row) => row.channel === channel).map(({ key }) => key);
  return {
    base: base.map(({ key }) => key),
    overlays: { production: of("production"), preview: of("preview"), dev: of("dev") },
  };
}

/** Makes `vars` the whole of one layer. Needs the project locked, or two writers may mix. */
export async function replaceEnv(
  tx: Db,
  secrets: Secrets,
  projectId: string,
  channel: Channel | null,
  vars: Readonly<Record<string, string>>,
): Promise<void> {
  const rows = Object.entries(vars).map(([key, value]) => ({
    project_id: projectId,
    key,
    value: secrets.seal(Buffer.from(value), aad(projectId, channel, key)),
  }));
  if (channel === null) {
    await tx.deleteFrom("env_var").where("project_id", "=", projectId).execute();
    if (rows.length > 0) await tx.insertInto("env_var").values(rows).execute();
    return;
  }
  await tx.deleteFrom("env_overlay").where("project_id", "=", projectId).where("channel", "=", channel).execute();
  const over = rows.map((row) => ({ ...row, channel }));
  if (over.length > 0) await tx.insertInto("env_overlay").values(over).execute();
}
