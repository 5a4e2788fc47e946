import { sql } from "kysely";
import { openKeeperPassword } from "../../databases/secrets.ts";
import { type Owner, type OwnerFacts, withoutAttempts, withoutTimeline } from "./owner.ts";

/** A copy has keepers, one after another, and proofs that it can be restored. It asks for them by itself. */
export const copy: Owner<OwnerFacts["copy"]> = {
  async loadFacts({ db, secrets }, work) {
    const rows = await db
      .selectFrom("database_copy")
      .leftJoin("database", "database.id", "database_copy.database_id")
      .select(["database_copy.id as copy_id", "database_copy.database_id", "database.keeper_secret"])
      .where("database_copy.id", "=", sql<string>`any(${work.map(({ ownerId }) => ownerId)}::uuid[])`)
      .execute();
    return new Map(
      rows.map(({ copy_id: id, database_id, keeper_secret }) => {
        const facts = { id, password: () => openKeeperPassword(secrets, { id: database_id, keeper_secret }) };
        return [id, () => facts];
      }),
    );
  },

  async listWhose(db, ids) {
    const rows = await db
      .selectFrom("database_copy")
      .innerJoin("project", "project.id", "database_copy.project_id")
      .select(["database_copy.id", "database_copy.channel", "project.slug"])
      .where("database_copy.id", "in", ids)
      .execute();
    return new Map(rows.map(({ id, slug, channel }) => [id, { project: slug, channel, prNumber: null }]));
  },

  async hold(tx, id) {
    const row = await tx.selectFrom("database_copy").select("id").where("id", "=", id).forKeyShare().executeTakeFirst();
    return row !== undefined;
  },

  async lockForRedo(tx, id) {
    const row = await tx
      .selectFrom("database_copy")
      .select("id")
      .where("id", "=", id)
      .forNoKeyUpdate()
      .executeTakeFirst();
    return row !== undefined;
  },

  ...withoutAttempts,
  ...withoutTimeline,
};
