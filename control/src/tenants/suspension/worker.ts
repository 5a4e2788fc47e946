import { failureMessage } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { type RawBuilder, sql } from "kysely";
import { clearAlert } from "../../fleet/alerts/raise.ts";
import type { Fleet } from "../../fleet/cluster/fleet.ts";
import { steppedWork } from "../../fleet/cluster/stepped-work.ts";
import { routeTopic } from "../../fleet/cluster/topics.ts";
import { fillSlots, holdToMake } from "../../fleet/replicas/make.ts";
import { removeTasks, stopTasks } from "../../fleet/tasks/change.ts";
import { findDeployment, insertEvent } from "../../fleet/tasks/deployment.ts";
import type { Log } from "../../log.ts";
import { databaseClock } from "../../stores/db/clock.ts";
import { notify } from "../../stores/db/notify.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Project } from "../../stores/db/tables.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { enqueue } from "../../stores/work/queue.ts";
import { recheckAfterMs } from "../../stores/work/recheck.ts";
import type { WorkHandler } from "../../stores/work/worker.ts";
import { moveDeployment } from "../deployments/store.ts";
import { settleJobs } from "../jobs/definitions/change.ts";
import { readSuspensionFacts } from "./facts.ts";
import { tellAll } from "./request.ts";
import { edgesWaitMs, nextSuspensionStep, type SuspensionFacts, type SuspensionStep } from "./steps.ts";
import { listOpen, lockProject } from "./store.ts";

export interface SuspensionDeps {
  /** Of waits; what is written and compared is the database's time. */
  clock: Clock;
  db: Db;
  etcd: Etcd;
  fleet: Fleet;
  /** How long requests that are under way may still take once no edge sends new ones. */
  drainMs: number;
  /** See `edgesWaitMs`, which it is unless given. */
  edgesWaitMs?: number;
  log: Log;
}

/** What one step rests on: the suspension or the resumption as it was read, by its number. */
interface At {
  projectId: string;
  number: number;
}

type Effects = {
  [K in Exclude<SuspensionStep["do"], "wait" | "end">]: (
    at: At,
    step: Extract<SuspensionStep, { do: K }>,
  ) => Promise<void>;
};

/**
 * Work of kind `suspension`: brings a project to where the last suspension or resumption wants it. Each round reads
 * everything and does one step, a transaction that checks under the project's lock that nobody has asked for anything
 * else since; so a round that is repeated, or is done by two workers, does no harm. What takes long is looked at now and
 * then, and leaves the room to others.
 */
export function suspensionWorker(deps: SuspensionDeps): WorkHandler {
  const { clock, db, etcd, fleet } = deps;
  const effects = suspensionEffects(deps);
  const waits = { drainMs: deps.drainMs, edgesWaitMs: deps.edgesWaitMs ?? edgesWaitMs };
  return steppedWork(
    { clock, fleet },
    {
      wakenBy: ["placements", "routes", "edges"],
      async read({ payload }) {
        const { projectId } = payload as { projectId: string };
        const found = await readSuspensionFacts({ db, fleet, etcd }, projectId, waits);
        return found && { ...found, projectId };
      },
      decide({ facts }, item) {
        const step = nextSuspensionStep(facts);
        if (step.do === "end") return { do: "end", error: null };
        if (step.do !== "wait") return step;
        return { do: "wait", recheckMs: step.isLong ? recheckAfterMs(waitedMs(facts, item.ageMs)) : null };
      },
      perform({ projectId, number }, step) {
        const effect = effects[step.do] as (at: At, step: SuspensionStep) => Promise<void>;
        return effect({ projectId, number }, step);
      },
    },
  );
}

/** Since it was asked for: the item may have waited for an edge that was away during an earlier suspension. */
function waitedMs({ now, suspension }: SuspensionFacts, itemAgeMs: number): number {
  if (suspension === null) return itemAgeMs;
  return now.getTime() - (suspension.resumingSince ?? suspension.since).getTime();
}

async function setUnrouted(tx: Db, projectId: string, at: RawBuilder<Date> | null): Promise<void> {
  await tx.updateTable("project").set({ unrouted_at: at }).where("id", "=", projectId).execute();
}

function suspensionEffects({ db, log }: SuspensionDeps): Effects {
  /** Runs `act` with the project's row held, if nobody has suspended or resumed it since the facts were read. */
  const locked = ({ projectId, number }: At, act: (tx: Db, project: Project) => Promise<void>): Promise<void> =>
    db.transaction().execute(async (tx) => {
      const project = await lockProject(tx, projectId);
      if (project?.suspension_number === number) await act(tx, project);
    });

  return {
    endQueued: (at) =>
      locked(at, async (tx) => {
        const message = failureMessage("PROJECT_SUSPENDED");
        for (const { id, status } of await listOpen(tx, at.projectId)) {
          if (status !== "queued") continue;
          const move = {
            from: status,
            to: "failed" as const,
            phase: "failed",
            detail: `PROJECT_SUSPENDED: ${message}`,
          };
          const change = { error: message, error_code: "PROJECT_SUSPENDED", finished_at: await databaseClock(tx) };
          if (!(await moveDeployment(tx, id, move, change))) continue;
          await tx
            .updateTable("deployment")
            .set({ release_status: "skipped", release_skipped_reason: "the project was suspended before it" })
            .where("id", "=", id)
            .where("release_status", "=", "pending")
            .execute();
          log.info({ deploymentId: id, from: status, to: "failed", why: "PROJECT_SUSPENDED" }, "deployment");
        }
      }),

    takeUp: (at, { deploymentIds }) =>
      locked(at, async (tx) => {
        const left = (await listOpen(tx, at.projectId)).filter(
          ({ id, hasWork }) => !hasWork && deploymentIds.includes(id),
        );
        for (const { id } of left)
          await enqueue(tx, { kind: "deploy", key: at.projectId, payload: { deploymentId: id } });
      }),

    noteUnrouted: (at) =>
      locked(at, async (tx, project) => {
        if (project.unrouted_at === null) await setUnrouted(tx, project.id, sql<Date>`now()`);
      }),

    forgetUnrouted: (at) => locked(at, (tx, project) => setUnrouted(tx, project.id, null)),

    stop: (at, { taskIds, desired }) =>
      locked(at, async (tx) => {
        await (desired === "removed" ? removeTasks(tx, taskIds) : stopTasks(tx, taskIds));
        log.info({ projectId: at.projectId, containers: taskIds.length, to: desired }, "project suspended");
      }),

    start: (at, { deploymentId, slots, abandoned }) =>
      db.transaction().execute(async (tx) => {
        const found = await findDeployment(tx, deploymentId);
        if (found === null) return;
        const isCurrent = async (tx: Db, projectId: string) =>
          (await lockProject(tx, projectId))?.suspension_number === at.number;
        // Its owner may have stopped it since.
        const wanted = { status: "running", channel: "it", holdProject: isCurrent } as const;
        const held = await holdToMake(tx, found, wanted);
        if (held !== null) await fillSlots(tx, held, { slots, abandoned });
      }),

    resume: (at, { failures }) =>
      locked(at, async (tx, project) => {
        await tx
          .updateTable("project")
          .set({
            suspended_at: null,
            suspend_reason: null,
            resuming_at: null,
            unrouted_at: null,
            updated_at: sql<Date>`now()`,
          })
          .where("id", "=", project.id)
          .execute();
        await settleJobs(tx, project.id);
        await tellAll(tx, project.id, "resumed", null);
        await clearAlert(tx, { projectId: project.id, event: "suspended", subject: "" });
        for (const { deploymentId, message, isOver } of failures) {
          await insertEvent(tx, { deploymentId, phase: isOver ? "resume-failed" : "resume-late", detail: message });
          // What is late comes up by itself, and nobody would take the error back then.
          if (isOver)
            await tx.updateTable("deployment").set({ error: message }).where("id", "=", deploymentId).execute();
        }
        await notify(tx, routeTopic, project.id);
        log.info({ projectId: project.id, failures: failures.length }, "project resumed");
      }),
  };
}
