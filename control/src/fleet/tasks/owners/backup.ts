import { sql } from "kysely";
import { openTenantPassword } from "../../databases/secrets.ts";
import { type Owner, type OwnerFacts, withoutAttempts, withoutTimeline } from "./owner.ts";

/** A backup has one task, and fails with it: nothing is lost by asking for another backup. */
export const backup: Owner<OwnerFacts["backup"]> = {
  async loadFacts({ db, secrets }, work) {
    const rows = await db
      .selectFrom("database_backup")
      .innerJoin("database", "database.id", "database_backup.database_id")
      .select(["database_backup.id as backup_id", "database.id", "database.secret", "database.pending_secret"])
      .where("database_backup.id", "=", sql<string>`any(${work.map(({ ownerId }) => ownerId)}::uuid[])`)
      .execute();
    return new Map(
      rows.map(({ backup_id, ...branch }) => {
        const facts = { password: () => openTenantPassword(secrets, branch) };
        return [backup_id, () => facts];
      }),
    );
  },

  async listWhose(db, ids) {
    const rows = await db
      .selectFrom("database_backup")
      .innerJoin("project", "project.id", "database_backup.project_id")
      .select(["database_backup.id", "database_backup.channel", "project.slug"])
      .where("database_backup.id", "in", ids)
      .execute();
    return new Map(rows.map(({ id, slug, channel }) => [id, { project: slug, channel, prNumber: null }]));
  },

  async hold(tx, id) {
    const row = await tx
      .selectFrom("database_backup")
      .select("id")
      .where("id", "=", id)
      .forKeyShare()
      .executeTakeFirst();
    return row !== undefined;
  },

  async lockForRedo(tx, id) {
    const row = await tx
      .selectFrom("database_backup")
      .select("id")
      .where("id", "=", id)
      .where("status", "in", ["pending", "running"])
      .forNoKeyUpdate()
      .executeTakeFirst();
    return row !== undefined;
  },

  ...withoutAttempts,
  ...withoutTimeline,
};
