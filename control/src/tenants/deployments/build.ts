import { type Registry, RegistryError } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { repositories } from "../../fleet/artifacts/repositories.ts";
import { storageProblem } from "../../fleet/artifacts/storage-limit.ts";
import { endPush } from "../../fleet/artifacts/store.ts";
import { holdActive } from "../../fleet/replicas/hold.ts";
import { removeTasks } from "../../fleet/tasks/change.ts";
import { insertEvent, lockDeployment } from "../../fleet/tasks/deployment.ts";
import { buildTask } from "../../fleet/tasks/kinds/build.ts";
import { insertTask, listWantedTasks } from "../../fleet/tasks/store.ts";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Db } from "../../stores/db/pool.ts";
import { inTransaction } from "../../stores/db/transaction.ts";
import { warnOfBuild } from "./build-warnings.ts";
import type { BuildSteps, Effects, Fail } from "./effects.ts";
import type { DeploymentFacts } from "./facts.ts";
import type { ResolveImage } from "./oci/oci.ts";
import type { StoredDeploy } from "./rows.ts";

export interface BuildDeps {
  clock: Clock;
  db: Db;
  registry: Pick<Registry, "getManifest">;
  resolveImage: ResolveImage;
}

/** An effect for which there is no room at the moment: the deployment makes room itself, and comes again. */
export class NotYet extends Error {
  override readonly name = "NotYet";
}

/** The steps to an artifact: an image of another registry is copied, a source is built on a node. */
export function buildEffects(
  { clock, db, registry, resolveImage }: BuildDeps,
  fail: Fail<StoredDeploy>,
): Effects<BuildSteps, StoredDeploy> {
  /** What an earlier build made is not there any more: nobody uses it again, and this one is built. */
  async function buildAnew(
    { of: { deployment } }: DeploymentFacts<StoredDeploy>,
    taskId: string,
    { repository, digest }: { repository: string; digest: string },
  ): Promise<void> {
    await inTransaction(db, async (tx) => {
      if (!(await lockDeployment(tx, deployment.id, "building"))) return;
      await tx
        .updateTable("deployment")
        .set({ build_key: null })
        .where("project_id", "=", deployment.project_id)
        .where("artifact_repository", "=", repository)
        .where("artifact_digest", "=", digest)
        .execute();
      await removeTasks(tx, [taskId]);
      const detail = "the build that was to be used is not in the registry";
      await insertEvent(tx, { deploymentId: deployment.id, phase: "task-abandoned", detail });
    });
  }

  return {
    async resolveImage(_, at, signal) {
      const { deployment, project } = at.of;
      const { max_image_mb: maxImageMb } = await planOfUser(db, project.owner_id);
      const image = await resolveImage({
        deploymentId: deployment.id,
        projectId: project.id,
        ownerId: project.owner_id,
        reference: deployment.requested_reference ?? "",
        maxImageMb,
        signal,
      });
      if ("later" in image) throw new NotYet();
      if ("code" in image) return fail(at, image.code, image.message);
      // Of now: to copy it may have taken long.
      const plan = await planOfUser(db, project.owner_id);
      const problem = await storageProblem({ clock, db }, project.id, plan, image);
      if (problem !== null) return fail(at, "OCI_IMAGE_TOO_LARGE", problem);
      await db
        .updateTable("deployment")
        .set({
          artifact_kind: "image",
          artifact_repository: image.repository,
          artifact_digest: image.digest,
          artifact_size: image.sizeBytes,
          artifact_os: image.os,
          artifact_architecture: image.architecture,
          image_registry: null,
        })
        .where("id", "=", deployment.id)
        .where("status", "=", "building")
        .execute();
    },

    async createBuild(_, { of: { deployment, project, manifest } }) {
      const plan = await planOfUser(db, project.owner_id);
      await inTransaction(db, async (tx) => {
        if (!(await holdActive(tx, project.id)) || !(await lockDeployment(tx, deployment.id, "building"))) return;
        if ((await listWantedTasks(tx, deployment.id, "build")).length > 0) return;
        await insertTask(tx, deployment, buildTask(deployment, project, plan, manifest), { replica: 0 });
        await insertEvent(tx, { deploymentId: deployment.id, phase: "build-queued" });
      });
    },

    async abandonTask({ taskId, detail }, { of: { deployment } }) {
      await inTransaction(db, async (tx) => {
        if (!(await lockDeployment(tx, deployment.id, "building"))) return;
        await removeTasks(tx, [taskId]);
        await insertEvent(tx, { deploymentId: deployment.id, phase: "task-abandoned", detail });
      });
    },

    async acceptBuild({ taskId, build }, at) {
      const { deployment, project, manifest } = at.of;
      const isBundle = project.type === "static";
      const repository = isBundle ? repositories.bundle(project.id) : repositories.image(project.id);
      // The node's word is checked: what edges and nodes will pull has to be there, under this digest.
      try {
        await registry.getManifest(repository, build.digest);
      } catch (error) {
        if (!(error instanceof RegistryError) || error.code === "ARTIFACT_REGISTRY_UNAVAILABLE") throw error;
        const isEarlier = build.reusedFrom !== undefined;
        return isEarlier ? buildAnew(at, taskId, { repository, ...build }) : fail(at, error.code, "");
      }
      const plan = await planOfUser(db, project.owner_id);
      const problem = await storageProblem({ clock, db }, project.id, plan, { repository, ...build });
      if (problem !== null) return fail(at, "ARTIFACT_TOO_LARGE", problem);
      await inTransaction(db, async (tx) => {
        if (!(await lockDeployment(tx, deployment.id, "building"))) return;
        await tx
          .updateTable("deployment")
          .set({
            artifact_kind: isBundle ? "bundle" : "image",
            artifact_repository: repository,
            artifact_digest: build.digest,
            artifact_size: build.sizeBytes,
            artifact_os: build.os,
            artifact_architecture: build.architecture,
            build_key: build.key ?? null,
          })
          .where("id", "=", deployment.id)
          .execute();
        const kind = isBundle ? ("bundle" as const) : ("image" as const);
        await endPush(tx, { id: taskId, projectId: project.id, repository, kind }, build);
        const detail = build.reusedFrom === undefined ? build.digest : `the build of ${build.reusedFrom} is used`;
        await insertEvent(tx, { deploymentId: deployment.id, phase: "built", detail });
        await warnOfBuild(tx, { deployment, manifest }, build);
        await removeTasks(tx, [taskId]);
      });
    },
  };
}
