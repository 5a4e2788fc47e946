import type { Clock } from "@svc/runtime/clock";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { steppedWork } from "../../../fleet/cluster/stepped-work.ts";
import { holdActive } from "../../../fleet/replicas/hold.ts";
import { fillSlots, holdToMake } from "../../../fleet/replicas/make.ts";
import { findChannelState } from "../../../fleet/routes/store.ts";
import { endDrains, removeTasks } from "../../../fleet/tasks/change.ts";
import { type DeploymentAndProject, insertEvent, lockDeployment } from "../../../fleet/tasks/deployment.ts";
import { listWantedTasks } from "../../../fleet/tasks/store.ts";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Deployment } from "../../../stores/db/tables.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import { pointChannel } from "../channel.ts";
import { retire } from "../retire/request.ts";
import { moveDeployment } from "../store.ts";
import { readLifecycleFacts } from "./facts.ts";
import { type LifecycleStep, nextLifecycleStep } from "./steps.ts";

export interface LifecycleDeps {
  clock: Clock;
  db: Db;
  fleet: Fleet;
  log: Log;
}

/** One effect per step, each a transaction that looks again at what it rests on, and may be repeated. */
type Effects = {
  [K in Exclude<LifecycleStep["do"], "wait" | "end">]: (
    at: DeploymentAndProject,
    step: Extract<LifecycleStep, { do: K }>,
  ) => Promise<void>;
};

/**
 * Work of kind `lifecycle`: stops or starts what production serves. A stopped site keeps its hosts and
 * answers with the platform's page; starting it uses the artifact that it had, without a build.
 */
export function lifecycleWorker(deps: LifecycleDeps): WorkHandler {
  const effects = lifecycleEffects(deps);
  return steppedWork(deps, {
    wakenBy: ["placements", "routes", "edges"],
    read: (item) => readLifecycleFacts(deps, item),
    decide: ({ facts }) => nextLifecycleStep(facts),
    perform(found, step) {
      const effect = effects[step.do] as (at: DeploymentAndProject, step: LifecycleStep) => Promise<void>;
      return effect(found, step);
    },
  });
}

function lifecycleEffects({ db, log }: LifecycleDeps): Effects {
  return {
    close: ({ deployment }) =>
      db.transaction().execute(async (tx) => {
        if (!(await lockDeployment(tx, deployment.id, "running"))) return;
        await switchChannel(tx, deployment, { stopped: true });
      }),

    async stopped({ deployment }) {
      const isStopped = await db.transaction().execute(async (tx) => {
        const move = { from: "running", to: "stopped", phase: "stopped" } as const;
        if (!(await moveDeployment(tx, deployment.id, move))) return false;
        // It keeps the containers until every edge shows the page, however long one of them takes.
        await retire(tx, deployment.id);
        // Nor does anything go on that it has replaced.
        await endDrains(tx, { projectIds: [deployment.project_id], channel: deployment });
        return true;
      });
      if (isStopped) log.info({ deploymentId: deployment.id, from: "running", to: "stopped" }, "deployment");
    },

    make: (found, { slots, abandoned }) =>
      db.transaction().execute(async (tx) => {
        const held = await holdToMake(tx, found, { status: "stopped", channel: "it or its page" });
        if (held !== null) await fillSlots(tx, held, { slots, abandoned });
      }),

    open: ({ deployment }) =>
      db.transaction().execute(async (tx) => {
        // What is suspended at this moment is not started: whoever resumes it starts only what was running.
        if (!(await holdActive(tx, deployment.project_id))) return;
        if (!(await lockDeployment(tx, deployment.id, "stopped"))) return;
        await switchChannel(tx, deployment, { stopped: false });
      }),

    async started({ deployment }, { detail }) {
      const move = { from: "stopped", to: "running", phase: "started", detail } as const;
      if (!(await moveDeployment(db, deployment.id, move, { error: null }))) return;
      log.info({ deploymentId: deployment.id, from: "stopped", to: "running" }, "deployment");
    },

    /** The site stays stopped, which is what visitors already see; the reason is where whoever waits will look. */
    fail: ({ deployment }, { message }) =>
      db.transaction().execute(async (tx) => {
        // Another one has taken its channel over.
        if (!(await lockDeployment(tx, deployment.id, "stopped"))) return;
        await tx.updateTable("deployment").set({ error: message }).where("id", "=", deployment.id).execute();
        await insertEvent(tx, { deploymentId: deployment.id, phase: "start-failed", detail: message });
        await switchChannel(tx, deployment, { stopped: true });
        const wanted = await listWantedTasks(tx, deployment.id, "serve");
        await removeTasks(
          tx,
          wanted.map(({ id }) => id),
        );
      }),
  };
}

/** Changes what the channel shows, if it still leads to the deployment, whose row is held. */
async function switchChannel(tx: Db, deployment: Deployment, { stopped }: { stopped: boolean }): Promise<void> {
  const state = await findChannelState(tx, deployment, { lock: true });
  if (state?.deployment_id !== deployment.id || state.stopped === stopped) return;
  await pointChannel(tx, deployment, { deploymentId: deployment.id, stopped });
}
