import { sql } from "kysely";
import { type Owner, type OwnerFacts, withoutAttempts, withoutTimeline } from "./owner.ts";

/** A screenshot has captures, one after another, each of which takes the place of what there was. It asks for them by itself. */
export const screenshot: Owner<OwnerFacts["screenshot"]> = {
  async loadFacts({ db }, work) {
    const rows = await db
      .selectFrom("screenshot")
      .innerJoin("deployment", "deployment.id", "screenshot.deployment_id")
      .innerJoin("project", "project.id", "screenshot.project_id")
      .select(["screenshot.id", "screenshot.project_id", "deployment.channel", "project.password_hash"])
      .where("screenshot.id", "=", sql<string>`any(${work.map(({ ownerId }) => ownerId)}::uuid[])`)
      .execute();
    return new Map(
      rows.map(({ id, project_id: projectId, channel, password_hash: passwordHash }) => {
        const facts = { gate: passwordHash === null ? null : { projectId, passwordHash, channel } };
        return [id, () => facts];
      }),
    );
  },

  async listWhose(db, ids) {
    const rows = await db
      .selectFrom("screenshot")
      .innerJoin("deployment", "deployment.id", "screenshot.deployment_id")
      .innerJoin("project", "project.id", "screenshot.project_id")
      .select(["screenshot.id", "deployment.channel", "deployment.pr_number", "project.slug"])
      .where("screenshot.id", "in", ids)
      .execute();
    return new Map(
      rows.map(({ id, slug, channel, pr_number }) => [id, { project: slug, channel, prNumber: pr_number }]),
    );
  },

  async hold(tx, id) {
    const row = await tx.selectFrom("screenshot").select("id").where("id", "=", id).forKeyShare().executeTakeFirst();
    return row !== undefined;
  },

  async lockForRedo(tx, id) {
    const row = await tx
      .selectFrom("screenshot")
      .select("id")
      .where("id", "=", id)
      .where("pending", "=", true)
      .forNoKeyUpdate()
      .executeTakeFirst();
    return row !== undefined;
  },

  ...withoutAttempts,
  ...withoutTimeline,
};
