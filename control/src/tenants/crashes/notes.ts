import { channelSubject, clearAlert, raiseAlert } from "../../fleet/alerts/raise.ts";
import type { Fleet } from "../../fleet/cluster/fleet.ts";
import type { ObservationValue } from "../../fleet/cluster/keys.ts";
import { holdDeployment, insertEvent } from "../../fleet/tasks/deployment.ts";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import { isNoteworthy, type Note, type Noted, nextNote } from "./rules.ts";

const tasksPerQuery = 500;
/** A crash, that it is over, and what is to be remembered: more there is not in one report. */
const notesPerReport = 4;
/** One that cannot be noted holds up no other; after so many in a row it is the store that fails. */
const failuresMax = 10;

interface ServingTask extends Noted {
  id: string;
  deploymentId: string;
  projectId: string;
  /** As alerts name the channel. */
  subject: string;
}

/**
 * Returns the round that tells the timelines of running deployments which of their containers crashed, came back, or
 * ended for good. What was told is kept with the task and written together with the line, so a round may be repeated,
 * broken off, or run by two leaders for a moment.
 */
export function createCrashNotes({
  db,
  fleet,
  log,
}: {
  db: Db;
  fleet: Pick<Fleet, "placements" | "observation">;
  log: Log;
}): () => Promise<void> {
  /** Notes all that one report says; false when that is to be tried again. */
  async function tell(task: ServingTask, observation: ObservationValue): Promise<boolean> {
    let known = task;
    for (let notes = 0; notes < notesPerReport; notes += 1) {
      const note = nextNote(observation, known);
      if (note === null) return true;
      if (!(await write(db, known, note))) return false;
      known = { ...known, ...note.noted };
      if (note.event) log.info({ deploymentId: task.deploymentId, taskId: task.id, to: note.event.phase }, "container");
    }
    return false;
  }

  /** The report of each placement that was dealt with last. */
  let done = new Map<string, number>();
  return async () => {
    const reports = new Map(
      fleet.placements().flatMap(({ nodeId, placement: { placementId, kind, desired } }) => {
        const observation = kind === "serve" && desired === "running" ? fleet.observation(nodeId, placementId) : null;
        return observation !== null && isNoteworthy(observation) ? [[placementId, observation] as const] : [];
      }),
    );
    done = new Map([...done].filter(([id]) => reports.has(id)));
    const news = [...reports.values()].filter(({ placementId, statusSeq }) => done.get(placementId) !== statusSeq);
    let inARow = 0;
    for (let at = 0; at < news.length; at += tasksPerQuery) {
      const batch = news.slice(at, at + tasksPerQuery);
      const tasks = await findServing(
        db,
        batch.map(({ placementId }) => placementId),
      );
      for (const observation of batch) {
        const task = tasks.get(observation.placementId);
        // Of a deployment that is still on its way, or over, its own end tells enough.
        if (task === undefined) continue;
        try {
          if (await tell(task, observation)) done.set(task.id, observation.statusSeq);
          inARow = 0;
        } catch (error) {
          inARow += 1;
          if (inARow >= failuresMax) throw error;
          log.warn({ err: error, taskId: task.id }, "a crash could not be noted this time");
        }
      }
    }
  };
}

async function findServing(db: Db, ids: readonly string[]): Promise<Map<string, ServingTask>> {
  const rows = await db
    .selectFrom("task")
    .innerJoin("deployment", "deployment.id", "task.owner_id")
    .select(["deployment.project_id", "deployment.channel", "deployment.pr_number"])
    .select(["task.id", "task.owner_id", "task.trouble", "task.noted_restarts", "task.notes", "task.crashing"])
    .where("task.id", "in", [...ids])
    .where("task.desired", "=", "running")
    .where("deployment.status", "=", "running")
    .execute();
  return new Map(
    rows.map(({ id, owner_id: deploymentId, project_id: projectId, channel, pr_number, ...row }) => {
      const { trouble, noted_restarts: restarts, notes, crashing } = row;
      const subject = channelSubject(channel, pr_number);
      return [id, { id, deploymentId, projectId, subject, trouble, restarts, notes, crashing }];
    }),
  );
}

/** False when somebody else noted something meanwhile. */
function write(db: Db, task: ServingTask, { event, noted }: Note): Promise<boolean> {
  return db.transaction().execute(async (tx) => {
    if (event !== null && !(await holdDeployment(tx, task.deploymentId))) return false;
    const { numUpdatedRows } = await tx
      .updateTable("task")
      .set({
        trouble: noted.trouble,
        noted_restarts: noted.restarts,
        notes: noted.notes,
        crashing: noted.crashing && JSON.stringify(noted.crashing),
      })
      .where("id", "=", task.id)
      .where("trouble", "is not distinct from", task.trouble)
      .where("noted_restarts", "=", task.restarts)
      .where("notes", "=", task.notes)
      .executeTakeFirst();
    if (numUpdatedRows !== 1n) return false;
    if (event !== null) await insertEvent(tx, { deploymentId: task.deploymentId, ...event });
    if (noted.trouble !== task.trouble) await tellOwner(tx, task, noted, event?.detail ?? "");
    return true;
  });
}

/** A site is down as long as any of its containers is in trouble. */
async function tellOwner(tx: Db, task: ServingTask, { trouble }: Noted, detail: string): Promise<void> {
  const alert = { projectId: task.projectId, event: "siteDown", subject: task.subject } as const;
  if (trouble !== null) return raiseAlert(tx, { ...alert, detail });
  const other = await tx
    .selectFrom("task")
    .select("id")
    .where("owner_id", "=", task.deploymentId)
    .where("id", "!=", task.id)
    .where("desired", "=", "running")
    .where("trouble", "is not", null)
    .limit(1)
    .executeTakeFirst();
  if (other === undefined) await clearAlert(tx, alert);
}
