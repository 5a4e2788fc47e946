import { openStatuses } from "@svc/proto";
import { canonicalJson } from "@svc/runtime/canonical-json";
import { sql } from "kysely";
import { planOfOwner } from "../../../identity/plans/of-user.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Secrets } from "../../../stores/secrets.ts";
import { branchOf } from "../../databases/ready.ts";
import { holdDeployment, insertEvent, lockDeployment } from "../deployment.ts";
import { openDeployment } from "../environment.ts";
import { listPriorBuilds } from "../prior-builds.ts";
import type { Owner, OwnerFacts } from "./owner.ts";

/** What stands for variables of builds is made for this place, so that equal ones of two projects do not show. */
const buildEnvAad = (projectId: string) => `project/${projectId}/build_env`;

/**
 * Deployments as nodes are told of them, each with the database that its channel has and the plan of its owner as they are today, by id and without those that
 * are gone. Rows of all are read at once; opening one throws `CannotOpen`.
 */
export async function loadDeployments(
  { db, secrets }: { db: Db; secrets: Secrets },
  ids: readonly string[],
): Promise<ReadonlyMap<string, () => ReturnType<typeof openDeployment>>> {
  const among = sql<string>`any(${ids}::uuid[])`;
  const [deployments, projects, branches] = await Promise.all([
    db.selectFrom("deployment").selectAll().where("id", "=", among).execute(),
    db
      .selectFrom("project")
      .leftJoin("account", "account.user_id", "project.owner_id")
      .innerJoin("plan", (join) => join.on("plan.id", "=", planOfOwner))
      .selectAll("project")
      .select("plan.max_sse_connections")
      .where("project.id", "in", (of) => of.selectFrom("deployment").select("project_id").where("id", "=", among))
      .execute(),
    db
      .selectFrom("database")
      .selectAll()
      .where("status", "=", "ready")
      .where("project_id", "in", (of) => of.selectFrom("deployment").select("project_id").where("id", "=", among))
      .execute(),
  ]);
  const projectOf = new Map(projects.map((project) => [project.id, project]));
  return new Map(
    deployments.flatMap((row) => {
      const project = projectOf.get(row.project_id);
      if (project === undefined) return [];
      const open = () =>
        openDeployment(
          secrets,
          { deployment: row, project },
          {
            branch: branchOf(branches, row),
            plan: project,
          },
        );
      return [[row.id, open]];
    }),
  );
}

/**
 * A deployment has builds, containers that serve, and release commands. It begins a build that it lost anew; a command
 * that it lost fails it, once somebody has declared the machine lost that may have run it.
 */
export const deployment: Owner<OwnerFacts["deployment"]> = {
  async loadFacts({ db, secrets }, work) {
    const [deployments, priorBuilds] = await Promise.all([
      loadDeployments({ db, secrets }, [...new Set(work.map(({ ownerId }) => ownerId))]),
      listPriorBuilds(
        db,
        work.map(({ id }) => id),
      ),
    ]);
    return new Map(
      [...deployments].map(([id, openOne]) => {
        const open = (): OwnerFacts["deployment"] => {
          const opened = openOne();
          const envDigest = () =>
            secrets.digest(Buffer.from(canonicalJson(opened.ownEnv)), buildEnvAad(opened.project.id));
          return { ...opened, envDigest, priorBuilds: priorBuilds.get(id) ?? [] };
        };
        return [id, open];
      }),
    );
  },

  async listWhose(db, ids) {
    const rows = await db
      .selectFrom("deployment")
      .innerJoin("project", "project.id", "deployment.project_id")
      .select(["deployment.id", "deployment.channel", "deployment.pr_number", "project.slug"])
      .where("deployment.id", "in", ids)
      .execute();
    return new Map(
      rows.map(({ id, slug, channel, pr_number }) => [id, { project: slug, channel, prNumber: pr_number }]),
    );
  },

  async findImageRepository(db, id) {
    const row = await db
      .selectFrom("deployment")
      .select("artifact_repository")
      .where("id", "=", id)
      .where("artifact_digest", "is not", null)
      .executeTakeFirst();
    return row?.artifact_repository ?? null;
  },

  async listWaiting(db, ids) {
    const rows = await db
      .selectFrom("deployment")
      .select("id")
      .where("id", "in", ids)
      .where("status", "in", [...openStatuses])
      .execute();
    return rows.map(({ id }) => id);
  },

  listOpenAttempts: (db) =>
    db
      .selectFrom("run")
      .innerJoin("deployment", "deployment.id", "run.owner_id")
      .distinctOn("run.owner_id")
      .select(["run.id as attemptId", "run.kind", "run.owner_kind as ownerKind", "run.owner_id as ownerId"])
      .select(["run.project_id as projectId", "run.node_id as nodeId"])
      .where("run.kind", "=", "release")
      .where("deployment.status", "in", [...openStatuses])
      .where("deployment.release_status", "in", ["pending", "running"])
      .orderBy("run.owner_id")
      .orderBy("run.number", "desc")
      .execute(),

  hold: holdDeployment,
  // What is not building any more has what it needs of its build, or needs none.
  lockForRedo: (tx, id) => lockDeployment(tx, id, "building"),

  async hasLine(db, id, phase) {
    const known = await db
      .selectFrom("deployment_event")
      .select("id")
      .where("deployment_id", "=", id)
      .where("phase", "=", phase)
      .limit(1)
      .executeTakeFirst();
    return known !== undefined;
  },
  isNewLine: async (tx, id, phase) =>
    (await lockDeployment(tx, id, "deploying")) && !(await deployment.hasLine(tx, id, phase)),
  addLine: (tx, id, line) => insertEvent(tx, { deploymentId: id, ...line }),
};
