import { failureMessage, isFailureCode, isOciManifest } from "@svc/proto";
import { RegistryError } from "@svc/registry";
import { type Clock, every } from "@svc/runtime/clock";
import { createWake } from "@svc/runtime/wake";
import { channelSubject, clearAlerts, raiseAlert } from "../../fleet/alerts/raise.ts";
import { repositories } from "../../fleet/artifacts/repositories.ts";
import { storageProblem } from "../../fleet/artifacts/storage-limit.ts";
import { endPush } from "../../fleet/artifacts/store.ts";
import { findChannelState } from "../../fleet/routes/store.ts";
import { endDrains, removeTasks } from "../../fleet/tasks/change.ts";
import { insertEvent, lockDeployment } from "../../fleet/tasks/deployment.ts";
import { buildTask } from "../../fleet/tasks/kinds/build.ts";
import { emptySlots, serveTask } from "../../fleet/tasks/kinds/serve.ts";
import { type RunOutcome, setRunOutcome } from "../../fleet/tasks/run-rows.ts";
import { insertTask, listWantedTasks } from "../../fleet/tasks/store.ts";
import { holdPlanOfUser, planOfUser } from "../../identity/plans/of-user.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment } from "../../stores/db/tables.ts";
import { inTransaction } from "../../stores/db/transaction.ts";
import type { WorkHandler } from "../../stores/work/worker.ts";
import { warnOfBuild } from "./build-warnings.ts";
import { pointChannel } from "./channel.ts";
import type { DeployWorkerDeps, Effects, ReleaseOutcome } from "./effects.ts";
import { type DeploymentFacts, readDeployFacts } from "./facts.ts";
import { ociFailure } from "./oci/oci.ts";
import { releaseEffects } from "./release.ts";
import { retire } from "./retire/request.ts";
import { type DeployFacts, type DeployStep, nextDeployStep } from "./steps.ts";
import { canceledError, isEndAskedFor, listServing, lockServing, moveDeployment } from "./store.ts";

/** An effect for which there is no room at the moment: the deployment makes room itself, and comes again. */
class NotYet extends Error {
  override readonly name = "NotYet";
}
const notYetMs = 1_000;

/** Errors are for people: bounded. They may end with the last lines of a program, which `view.ts` shows to some only. */
const errorLengthMax = 4096;

/**
 * Work of kind `deploy`: carries a deployment from `queued` to its end. It holds its work item all the
 * while; a killed worker's item is taken over by another one, which reads the facts and goes on.
 */
export function deployWorker(deps: DeployWorkerDeps): WorkHandler {
  const effects = deployEffects(deps);
  const { clock, db, fleet } = deps;
  const carryOn: WorkHandler = async (item, signal) => {
    const { deploymentId } = item.payload as { deploymentId: string };
    const wake = createWake(clock);
    // Many deployments are under way at once, and each look is several queries: only what leads further wakes one.
    let own = nothing;
    type Changes = readonly { key: string }[] | undefined;
    const concerns = (changes: Changes, isOwn: (id: string) => boolean) =>
      changes === undefined || changes.some(({ key }) => isOwn(key.slice(key.lastIndexOf("/") + 1)));
    const wakeIfFurther = () => {
      if (own.isFurther()) wake.signal();
    };
    using _placements = fleet.onChange("placements", (changes) => {
      if (concerns(changes, (taskId) => own.taskIds.has(taskId))) wakeIfFurther();
    });
    using _runs = fleet.onChange("runs", (changes) => {
      if (concerns(changes, (attemptId) => attemptId === own.attemptId)) wake.signal();
    });
    const wakeIfRouted = () => {
      if (own.hasRoute) wakeIfFurther();
    };
    using _routes = fleet.onChange("routes", wakeIfRouted);
    using _edges = fleet.onChange("edges", wakeIfRouted);
    // What was read within the last second, with what the fleet says since: every effect looks again at what it changes.
    let known: DeploymentFacts | null = null;
    while (!signal.aborted) {
      const at: DeploymentFacts | null = known ?? (await readDeployFacts(deps, deploymentId, deps.fleet.now()));
      if (at === null) return { state: "done" };
      const isFresh = known === null;
      known = null;
      const step = nextDeployStep(at.facts);
      // Whatever else is to be done, a look follows it.
      own = step.do === "wait" ? ownOf(at) : { ...ownOf(at), isFurther: () => false };
      if (step.do === "end") return { state: "done" };
      if (step.do === "wait") {
        const timeoutMs = Math.max(step.deadline.getTime() - at.facts.now.getTime(), 0);
        // The fleet may have gone on while Postgres was read; its rows change without a signal: a placement refused, a
        // project deleted.
        if (own.isFurther() || (await wake.wait(Math.min(timeoutMs, 1_000), signal)))
          if (isFresh && own.isFurther()) known = { ...at, facts: at.factsNow() };
        continue;
      }
      const effect = effects[step.do] as (step: DeployStep, at: DeploymentFacts, signal: AbortSignal) => Promise<void>;
      await whileWanted({ clock, db }, deploymentId, signal, (wanted) => effect(step, at, wanted));
    }
    return { retryAfterMs: 0, refund: true };
  };
  return async (item, signal) => {
    try {
      return await carryOn(item, signal);
    } catch (error) {
      if (error instanceof NotYet) return { retryAfterMs: notYetMs, refund: true };
      if (signal.aborted || item.attempt < item.maxAttempts) throw error;
      // Nobody will try again, so whoever waits for the deployment has to hear of it.
      const { deploymentId } = item.payload as { deploymentId: string };
      const at = await readDeployFacts(deps, deploymentId, deps.fleet.now());
      if (at !== null) await effects.fail({ do: "fail", code: "DEPLOY_FAILED", message: "" }, at, signal);
      throw error;
    }
  };
}

/** What of the cluster a deployment on its way waits for. */
interface Own {
  taskIds: ReadonlySet<string>;
  /** The newest attempt at its release command. */
  attemptId: string | null;
  /** Its channel leads to it, so routes and what edges have of them concern it. */
  hasRoute: boolean;
  /** By what the fleet says now there is something to do. */
  isFurther: () => boolean;
}

const nothing: Own = { taskIds: new Set(), attemptId: null, hasRoute: false, isFurther: () => false };

const ownOf = ({ facts: { build, serve, active }, attempt, factsNow }: DeploymentFacts): Own => ({
  taskIds: new Set([...(build ? [build.id] : []), ...serve.map(({ id }) => id)]),
  attemptId: attempt?.id ?? null,
  hasRoute: active,
  isFurther: () => nextDeployStep(factsNow()).do !== "wait",
});

/** Runs an effect; its signal is aborted as soon as somebody asks for the end of the deployment. */
async function whileWanted(
  { clock, db }: { clock: Clock; db: Db },
  deploymentId: string,
  signal: AbortSignal,
  effect: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const unwanted = new AbortController();
  const look = () =>
    isEndAskedFor(db, deploymentId).then(
      (asked) => asked && unwanted.abort(new Error("the deployment is not wanted any more")),
      () => {},
    );
  using _looking = every(clock, 1_000, () => void look());
  try {
    await effect(AbortSignal.any([signal, unwanted.signal]));
  } catch (error) {
    // What is read next says that it is to end, and why.
    if (!unwanted.signal.aborted) throw error;
  }
}

const artifactReady = { from: "building", to: "deploying", phase: "artifact-ready" } as const;

function deployEffects(deps: DeployWorkerDeps): Effects {
  const { clock, db, registry, log } = deps;

  /** The one place where a deployment ends badly: status, reason, and everything it started goes. */
  async function fail(
    { deployment, project, facts, attempt }: DeploymentFacts,
    code: string,
    message: string,
    release: ReleaseOutcome = releaseCutShort(facts.release, "the deployment failed"),
    outcome?: RunOutcome,
  ): Promise<void> {
    const ours = project.type === "ociimage" ? ociFailure(code) : code;
    const text = (message === "" ? failureMessage(ours) : message).slice(0, errorLengthMax);
    await inTransaction(db, async (tx) => {
      const moved = await moveDeployment(
        tx,
        deployment.id,
        { from: deployment.status, to: "failed", phase: "failed", detail: `${ours}: ${text}`.slice(0, errorLengthMax) },
        { error: text, error_code: isFailureCode(ours) ? ours : "DEPLOY_FAILED", finished_at: clock.now() },
      );
      if (!moved) return;
      await tx.updateTable("deployment").set(release).where("id", "=", deployment.id).execute();
      if (attempt !== null && outcome !== undefined) await setRunOutcome(tx, attempt.id, outcome);
      await raiseAlert(tx, { ...alertOf(deployment, "deployFailed"), detail: `${ours}: ${text}` });
      await giveChannelBack(tx, deployment);
      await retire(tx, deployment.id);
    });
    log.info({ deploymentId: deployment.id, from: deployment.status, to: "failed", why: ours }, "deployment");
  }

  /** What an earlier build made is not there any more: nobody uses it again, and this one is built. */
  async function buildAnew(
    { deployment }: DeploymentFacts,
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
    ...releaseEffects(deps, fail),
    end: async () => {},
    wait: async () => {},

    async cancel({ detail }, { deployment, facts }) {
      await inTransaction(db, async (tx) => {
        const move = { from: deployment.status, to: "canceled" as const, phase: "canceled", detail };
        if (
          !(await moveDeployment(tx, deployment.id, move, { finished_at: clock.now(), error: canceledError(detail) }))
        )
          return;
        await tx
          .updateTable("deployment")
          .set(releaseCutShort(facts.release, "the deployment was canceled"))
          .where("id", "=", deployment.id)
          .execute();
        await giveChannelBack(tx, deployment);
        await retire(tx, deployment.id);
      });
      log.info({ deploymentId: deployment.id, from: deployment.status, to: "canceled", why: detail }, "deployment");
    },

    async claim(_, { deployment, facts }) {
      const move = { from: "queued" as const, to: "building" as const, phase: "claimed" };
      await inTransaction(db, async (tx) => {
        const moved = await moveDeployment(tx, deployment.id, move, { started_at: clock.now() });
        // Of what takes over an artifact nothing is built: one look and one commit less.
        if (moved && facts.artifact !== null) await moveDeployment(tx, deployment.id, artifactReady);
      });
    },

    async resolveImage(_, at, signal) {
      const { deployment, project } = at;
      const plan = await planOfUser(db, project.owner_id);
      const image = await deps.resolveImage({
        deploymentId: deployment.id,
        projectId: project.id,
        ownerId: project.owner_id,
        reference: deployment.requested_reference ?? "",
        maxImageMb: plan.max_image_mb,
        signal,
      });
      if ("later" in image) throw new NotYet();
      if ("code" in image) return fail(at, image.code, image.message);
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

    async createBuild(_, { deployment, project, manifest }) {
      const plan = await planOfUser(db, project.owner_id);
      await inTransaction(db, async (tx) => {
        if (!(await lockDeployment(tx, deployment.id, "building"))) return;
        if ((await listWantedTasks(tx, deployment.id, "build")).length > 0) return;
        await insertTask(tx, deployment, buildTask(deployment, project, plan, manifest), { replica: 0 });
        await insertEvent(tx, { deploymentId: deployment.id, phase: "build-queued" });
      });
    },

    async abandonTask({ taskId, detail }, { deployment }) {
      await inTransaction(db, async (tx) => {
        // A late worker must not take away what another one has let serve since.
        if (!(await lockDeployment(tx, deployment.id, deployment.status))) return;
        if ((await findChannelState(tx, deployment))?.deployment_id === deployment.id) return;
        await removeTasks(tx, [taskId]);
        await insertEvent(tx, { deploymentId: deployment.id, phase: "task-abandoned", detail });
      });
    },

    async acceptBuild({ taskId, build }, at) {
      const { deployment, project, manifest } = at;
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

    async beginDeploying(_, { deployment }) {
      await moveDeployment(db, deployment.id, artifactReady);
    },

    async createServe(_, { deployment, project, manifest, facts }) {
      const registryHost = isOciManifest(manifest) ? deployment.image_registry : null;
      await inTransaction(db, async (tx) => {
        const plan = await holdPlanOfUser(tx, project.owner_id);
        if (!(await lockDeployment(tx, deployment.id, "deploying"))) return;
        const wanted = await listWantedTasks(tx, deployment.id, "serve");
        for (const replica of emptySlots(wanted, facts.replicas)) {
          await insertTask(tx, deployment, serveTask(deployment, plan, manifest, registryHost), { replica });
        }
        await insertEvent(tx, { deploymentId: deployment.id, phase: "starting" });
      });
    },

    async endDrains(_, { deployment }) {
      await endDrains(db, { projectIds: [deployment.project_id] });
    },

    async hold(_, { deployment }) {
      await inTransaction(db, async (tx) => {
        if (!(await lockForChannel(tx, deployment, { held: true }))) return;
        // What a worker of before has let serve since is stopped as any other.
        if ((await findChannelState(tx, deployment))?.deployment_id === deployment.id) return;
        const move = { from: "deploying" as const, to: "stopped" as const, phase: "held", detail: heldDetail };
        if (!(await moveDeployment(tx, deployment.id, move, { finished_at: clock.now() }))) return;
        await pointChannel(tx, deployment, { deploymentId: deployment.id, stopped: true });
        await supersedeOthers(tx, deployment);
        // With what it has started before the stop was asked for.
        await retire(tx, deployment.id);
        // The stop may find nothing left to do, and so nothing to end.
        await endDrains(tx, { projectIds: [deployment.project_id], channel: deployment });
      });
      log.info({ deploymentId: deployment.id, from: "deploying", to: "stopped" }, "deployment");
    },

    async activate(_, { deployment }) {
      await inTransaction(db, async (tx) => {
        if (!(await lockForChannel(tx, deployment, { held: false }))) return;
        await pointChannel(tx, deployment, { deploymentId: deployment.id, stopped: false });
        await insertEvent(tx, { deploymentId: deployment.id, phase: "routing" });
      });
    },

    async revert({ message }, at) {
      await fail(at, "ROUTE_DIVERGED", message);
    },

    async finish({ detail }, { deployment, attempt }) {
      await inTransaction(db, async (tx) => {
        // Whoever asked for the end before this moment gets it; whoever asks later is told that it runs.
        if (!(await lockDeployment(tx, deployment.id, "deploying"))) return;
        if (await isEndAskedFor(tx, deployment.id)) return;
        const move = { from: "deploying" as const, to: "running" as const, phase: "running", detail };
        if (!(await moveDeployment(tx, deployment.id, move, { finished_at: clock.now() }))) return;
        await supersedeOthers(tx, deployment);
        // What fell over before has another in its place.
        await clearAlerts(tx, alertOf(deployment, "deployFailed"), ["deployFailed", "siteDown"]);
        if (attempt !== null) await retire(tx, deployment.id);
      });
      log.info({ deploymentId: deployment.id, from: "deploying", to: "running" }, "deployment");
    },

    async fail({ code, message }, at) {
      await fail(at, code, message);
    },
  };
}

const alertOf = (deployment: Deployment, event: "deployFailed") => ({
  projectId: deployment.project_id,
  event,
  subject: channelSubject(deployment.channel, deployment.pr_number),
});

/** Of one that the end of its deployment kept from starting, or from being waited for. */
function releaseCutShort({ status, run }: DeployFacts["release"], why: string): ReleaseOutcome {
  const mayHaveRun = run !== null && !["offered", "accepted", "refused", "not_started"].includes(run.state);
  if (status === "running" || (status === "pending" && mayHaveRun))
    return { release_status: "failed", release_error: `${why} while it ran` };
  if (status === "pending") return { release_status: "skipped", release_skipped_reason: `${why} before it` };
  return { release_status: status };
}

const heldDetail = "production was stopped while it was on its way; it serves after a start";

/**
 * Locks what orders a change of the channel with a stop, a start, a suspension or a deletion of the project. False when
 * the deployment is not to have the channel in this way any more.
 */
async function lockForChannel(tx: Db, deployment: Deployment, { held }: { held: boolean }): Promise<boolean> {
  const project = await tx
    .selectFrom("project")
    .select(["deleting_at", "suspended_at"])
    .where("id", "=", deployment.project_id)
    .forUpdate()
    .executeTakeFirst();
  if (project === undefined || project.deleting_at !== null || project.suspended_at !== null) return false;
  const asked = await tx
    .selectFrom("deployment")
    .select(["held_at", "cancel_requested_at"])
    .where("id", "=", deployment.id)
    .where("status", "=", "deploying")
    .forUpdate()
    .executeTakeFirst();
  return asked !== undefined && asked.cancel_requested_at === null && (asked.held_at !== null) === held;
}

/** Ends what the channel served before, or would have after a start. */
async function supersedeOthers(tx: Db, deployment: Deployment): Promise<void> {
  for (const previous of await listServing(tx, deployment)) {
    await moveDeployment(tx, previous.id, {
      from: previous.status,
      to: "superseded",
      phase: "superseded",
      detail: `by ${deployment.id}`,
    });
    await retire(tx, previous.id);
  }
}

/** A deployment that ends badly must not keep the channel: what served before it serves again, or nothing. */
async function giveChannelBack(tx: Db, deployment: Deployment): Promise<void> {
  const state = await findChannelState(tx, deployment);
  if (state?.deployment_id !== deployment.id) return;
  const [previous] = await lockServing(tx, deployment);
  await pointChannel(tx, deployment, {
    deploymentId: previous?.id ?? null,
    stopped: previous?.status === "stopped",
  });
}
