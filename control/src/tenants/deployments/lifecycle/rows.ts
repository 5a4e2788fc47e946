import { storedManifestSchema } from "@svc/proto";
import { holdActive } from "../../../fleet/replicas/hold.ts";
import { fillSlots, holdToMake } from "../../../fleet/replicas/make.ts";
import { edgesInRotation } from "../../../fleet/routes/progress.ts";
import { findChannelState } from "../../../fleet/routes/store.ts";
import { endDrains, removeTasks } from "../../../fleet/tasks/change.ts";
import {
  findDeployment,
  findTimedDeployment,
  insertEvent,
  listHosts,
  lockDeployment,
} from "../../../fleet/tasks/deployment.ts";
import type { TaskRow } from "../../../fleet/tasks/deployment-status.ts";
import { replicasOf } from "../../../fleet/tasks/kinds/serve.ts";
import { listTasks, listWantedTasks } from "../../../fleet/tasks/store.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Deployment } from "../../../stores/db/tables.ts";
import type { ClaimedWork } from "../../../stores/work/queue.ts";
import { pointChannel } from "../channel.ts";
import { isRetiring, retire } from "../retire/request.ts";
import { moveDeployment } from "../store.ts";
import type { LifecycleStep, StopFacts } from "./steps.ts";

/** What an item of kind `lifecycle` says. */
export interface LifecyclePayload {
  projectId: string;
  action: "stop" | "start";
  /** What production led to when somebody asked. */
  deploymentId: string;
}

/** What a stop or a start is about, as far as Postgres knows. */
export interface LifecycleRow extends Pick<StopFacts, "now" | "askedAt" | "status" | "projectGone" | "channel"> {
  projectId: string;
  deploymentId: string;
  /** Hosts that serve production, and the edges that visitors may reach. */
  hosts: readonly string[];
  edges: readonly string[];
  /** It is what was asked for, or what a stop of that covers. */
  isCovered: boolean;
  suspended: boolean;
  /** Why the start did not bring it up; null: nobody said so. */
  error: string | null;
  /** Containers of before are on their way out. */
  retiring: boolean;
  /** Null: it serves from no containers. */
  app: { replicas: number; healthTimeoutSeconds: number; tasks: readonly TaskRow[] } | null;
}

/** What production led to, and whose. */
export type LifecycleOf = Pick<LifecycleRow, "projectId" | "deploymentId">;

type Make = Pick<Extract<LifecycleStep, { do: "make" }>, "slots" | "abandoned">;

/**
 * What stops and starts ask of Postgres. Each change is one transaction that looks again at what it rests on: a change that
 * rests on nothing any more does nothing, and each may be repeated.
 */
export interface LifecycleRows {
  /** A stop is about what has production now, a start about what was asked for; null: there is nothing that it could be about. */
  find(item: Pick<ClaimedWork, "id" | "payload">): Promise<LifecycleRow | null>;
  /** Of what runs, visitors are to get the page. */
  close(of: LifecycleOf): Promise<void>;
  /** What runs is stopped from now on, its containers go, and so do those that it has replaced; false: it does not run any more. */
  stopped(of: LifecycleOf): Promise<boolean>;
  /** What is stopped gets containers for these slots, as far as they are empty without what is abandoned. */
  make(of: LifecycleOf, what: Make): Promise<void>;
  /** Of what is stopped, visitors are to get the site, unless its project is suspended. */
  open(of: LifecycleOf): Promise<void>;
  /** What is stopped runs from now on; false: it is not stopped any more. */
  started(of: LifecycleOf, detail: string | null): Promise<boolean>;
  /** What is stopped stays so, and says why: visitors get the page, and its containers go. */
  fail(of: LifecycleOf, message: string): Promise<void>;
}

const production = (projectId: string) => ({ project_id: projectId, channel: "production", pr_number: null }) as const;

export const lifecycleRows = (db: Db): LifecycleRows => ({
  find: (item) => find(db, item),

  close: ({ projectId, deploymentId }) =>
    db.transaction().execute(async (tx) => {
      if (!(await lockDeployment(tx, deploymentId, "running"))) return;
      await switchChannel(tx, { projectId, deploymentId }, { stopped: true });
    }),

  stopped: ({ projectId, deploymentId }) =>
    db.transaction().execute(async (tx) => {
      const move = { from: "running", to: "stopped", phase: "stopped" } as const;
      if (!(await moveDeployment(tx, deploymentId, move))) return false;
      // It keeps the containers until every edge shows the page, however long one of them takes.
      await retire(tx, deploymentId);
      // Nor does anything go on that it has replaced.
      await endDrains(tx, { projectIds: [projectId], channel: production(projectId) });
      return true;
    }),

  make: ({ deploymentId }, { slots, abandoned }) =>
    db.transaction().execute(async (tx) => {
      const found = await findDeployment(tx, deploymentId);
      if (found === null) return;
      const held = await holdToMake(tx, found, { status: "stopped", channel: "it or its page" });
      if (held !== null) await fillSlots(tx, held, { slots, abandoned });
    }),

  open: ({ projectId, deploymentId }) =>
    db.transaction().execute(async (tx) => {
      // What is suspended at this moment is not started: whoever resumes it starts only what was running.
      if (!(await holdActive(tx, projectId))) return;
      if (!(await lockDeployment(tx, deploymentId, "stopped"))) return;
      await switchChannel(tx, { projectId, deploymentId }, { stopped: false });
    }),

  started: ({ deploymentId }, detail) =>
    moveDeployment(db, deploymentId, { from: "stopped", to: "running", phase: "started", detail }, { error: null }),

  /** The site stays stopped, which is what visitors already see; the reason is where whoever waits will look. */
  fail: ({ projectId, deploymentId }, message) =>
    db.transaction().execute(async (tx) => {
      // Another one has taken its channel over.
      if (!(await lockDeployment(tx, deploymentId, "stopped"))) return;
      await tx.updateTable("deployment").set({ error: message }).where("id", "=", deploymentId).execute();
      await insertEvent(tx, { deploymentId, phase: "start-failed", detail: message });
      // Visitors may have been sent to them already.
      const wasOpen = await switchChannel(tx, { projectId, deploymentId }, { stopped: true });
      if (wasOpen) return void (await retire(tx, deploymentId));
      const wanted = await listWantedTasks(tx, deploymentId, "serve");
      await removeTasks(
        tx,
        wanted.map(({ id }) => id),
      );
    }),
});

async function find(db: Db, item: Pick<ClaimedWork, "id" | "payload">): Promise<LifecycleRow | null> {
  const { projectId, action, deploymentId: askedId } = item.payload as LifecyclePayload;
  const channel = await findChannelState(db, production(projectId));
  const aboutId = action === "stop" ? channel?.deployment_id : askedId;
  const found = aboutId == null ? null : await findTimedDeployment(db, aboutId);
  if (found === null) return null;
  const { deployment, project, now } = found;
  const ours = channel?.deployment_id === deployment.id ? channel : null;
  const [hosts, edges] = await Promise.all([listHosts(db, deployment), edgesInRotation(db)]);
  return {
    ...{ projectId, deploymentId: deployment.id, status: deployment.status, error: deployment.error },
    ...{ now, askedAt: await askedFor(db, item.id, now) },
    projectGone: project.deleting_at !== null,
    suspended: project.suspended_at !== null,
    channel: ours && { stopped: ours.stopped, since: ours.changed_at },
    hosts: hosts.map(({ host }) => host),
    edges,
    isCovered: action === "stop" && (await isCovered(db, deployment, askedId)),
    retiring: action === "start" && (await isRetiring(db, deployment.id)),
    app: action === "start" && deployment.artifact_kind === "image" ? await readApp(db, deployment) : null,
  };
}

async function askedFor(db: Db, itemId: number, now: Date): Promise<Date> {
  const row = await db.selectFrom("work_item").select("created_at").where("id", "=", itemId).executeTakeFirst();
  return row?.created_at ?? now;
}

/**
 * Whether a stop that was asked for while `askedId` had the traffic covers what has it now. What was accepted since takes
 * production over, also from a stop that comes late; what served before has it again when the other one did not get there.
 */
async function isCovered(db: Db, serving: Deployment, askedId: string): Promise<boolean> {
  if (serving.id === askedId || serving.held_at !== null) return true;
  const asked = await findDeployment(db, askedId);
  return asked !== null && serving.number < asked.deployment.number;
}

async function readApp(db: Db, deployment: Deployment): Promise<LifecycleRow["app"]> {
  const manifest = storedManifestSchema.parse(deployment.manifest);
  return {
    replicas: replicasOf(manifest),
    healthTimeoutSeconds: manifest.health.timeoutSeconds,
    tasks: (await listTasks(db, deployment.id)).filter(({ kind }) => kind === "serve"),
  };
}

/** Changes what the channel shows, if it still leads to the deployment, whose row is held; whether it showed something else. */
async function switchChannel(
  tx: Db,
  { projectId, deploymentId }: LifecycleOf,
  { stopped }: { stopped: boolean },
): Promise<boolean> {
  const state = await findChannelState(tx, production(projectId), { lock: true });
  if (state?.deployment_id !== deploymentId || state.stopped === stopped) return false;
  await pointChannel(tx, production(projectId), { deploymentId, stopped });
  return true;
}
