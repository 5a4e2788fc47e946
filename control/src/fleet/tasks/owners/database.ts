import { sql } from "kysely";
import { openAdminPassword } from "../../databases/secrets.ts";
import { verifierOf } from "../../databases/verifier.ts";
import { type Owner, type OwnerFacts, withoutAttempts, withoutTimeline } from "./owner.ts";

/** A branch has servers, one after another, and runs nothing. It asks for another server by itself. */
export const database: Owner<OwnerFacts["database"]> = {
  async loadFacts({ db, secrets }, work) {
    const branches = await db
      .selectFrom("database")
      .selectAll()
      .where("id", "=", sql<string>`any(${work.map(({ ownerId }) => ownerId)}::uuid[])`)
      .execute();
    return new Map(
      branches.map((branch) => {
        const adminVerifier = () => verifierOf(branch.engine, branch.id, openAdminPassword(secrets, branch));
        return [branch.id, () => ({ branch, adminVerifier })];
      }),
    );
  },

  async listWhose(db, ids) {
    const rows = await db
      .selectFrom("database")
      .innerJoin("project", "project.id", "database.project_id")
      .select(["database.id", "database.channel", "project.slug"])
      .where("database.id", "in", ids)
      .execute();
    return new Map(rows.map(({ id, slug, channel }) => [id, { project: slug, channel, prNumber: null }]));
  },

  async hold(tx, id) {
    const row = await tx.selectFrom("database").select("id").where("id", "=", id).forKeyShare().executeTakeFirst();
    return row !== undefined;
  },

  lockForRedo: async () => false,
  ...withoutAttempts,
  ...withoutTimeline,
};
