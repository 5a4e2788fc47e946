import { channelSubject, clearAlerts } from "../../fleet/alerts/raise.ts";
import { fillSlots, holdToMake } from "../../fleet/replicas/make.ts";
import { findChannelState } from "../../fleet/routes/store.ts";
import { endDrains } from "../../fleet/tasks/change.ts";
import { insertEvent, lockDeployment } from "../../fleet/tasks/deployment.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment } from "../../stores/db/tables.ts";
import { inTransaction } from "../../stores/db/transaction.ts";
import { pointChannel } from "./channel.ts";
import type { DeployWorkerDeps, Effects } from "./effects.ts";
import { retire } from "./retire/request.ts";
import { isEndAskedFor, listServing, lockServing, moveDeployment } from "./store.ts";

type ServeSteps = "createServe" | "endDrains" | "hold" | "activate" | "finish";

/** The steps from an artifact to visitors: its containers, then the channel, then the end of what that led to before. */
export function serveEffects({ clock, db, log }: DeployWorkerDeps): Effects<ServeSteps> {
  return {
    async createServe({ slots, abandoned }, { deployment, project }) {
      await inTransaction(db, async (tx) => {
        // A late worker must not take away what another one has let serve since.
        const wanted = { status: "deploying", channel: "another" } as const;
        const held = await holdToMake(tx, { deployment, project }, wanted);
        if (held === null) return;
        const filled = await fillSlots(tx, held, { slots, abandoned });
        if (filled.length > 0) await insertEvent(tx, { deploymentId: deployment.id, phase: "starting" });
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
  };
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
export async function giveChannelBack(tx: Db, deployment: Deployment): Promise<void> {
  const state = await findChannelState(tx, deployment);
  if (state?.deployment_id !== deployment.id) return;
  const [previous] = await lockServing(tx, deployment);
  await pointChannel(tx, deployment, {
    deploymentId: previous?.id ?? null,
    stopped: previous?.status === "stopped",
  });
}

/** What is wrong with the channel of a deployment. */
export const alertOf = <Event extends "deployFailed" | "siteDown">(deployment: Deployment, event: Event) => ({
  projectId: deployment.project_id,
  event,
  subject: channelSubject(deployment.channel, deployment.pr_number),
});
