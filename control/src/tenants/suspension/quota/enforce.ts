import { raiseAlert } from "../../../fleet/alerts/raise.ts";
import { recordAudit } from "../../../http/audit.ts";
import { lockAccess } from "../../../identity/auth/put-out.ts";
import type { Log } from "../../../log.ts";
import type { DatabaseClock } from "../../../stores/db/clock.ts";
import { databaseClock } from "../../../stores/db/clock.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { enqueue } from "../../../stores/work/queue.ts";
import { requestResume, suspendProject } from "../request.ts";
import { lockProjects } from "../store.ts";
import { decide, monthOf } from "./rules.ts";
import { findOwner, listOwners, type Owner, setTold } from "./store.ts";
import type { QuotaNotice } from "./worker.ts";

const nobody = "00000000-0000-0000-0000-000000000000";

export interface QuotaRound {
  /** Owners that are read at once. */
  batch?: number;
  /** Projects that are resumed in one round: a new month must not start everything in one moment. */
  resumesMax?: number;
  /** The database's unless given. Asked again for each user, once nobody else can decide about them. */
  clock?: DatabaseClock;
}

/**
 * One look at what users have used of the month's quota: suspends the projects of those who have used it up, and begins
 * to resume what was suspended for it and may run again. Safe to repeat, to break off, and to run in two places: each
 * user is decided about again under lock. One that fails keeps none of the others from its turn.
 */
export async function enforceQuotas(
  { db, log }: { db: Db; log: Log },
  { batch = 500, resumesMax = 50, clock = databaseClock }: QuotaRound = {},
): Promise<void> {
  let resumesLeft = resumesMax;
  let after = nobody;
  for (;;) {
    const owners = await listOwners(db, await clock(db), { after, limit: batch });
    for (const owner of owners.filter((each) => hasNews(each))) {
      try {
        resumesLeft -= await enforce({ db, log, clock }, owner.userId, resumesLeft);
      } catch (error) {
        log.warn({ err: error, userId: owner.userId }, "a user's quota could not be enforced");
      }
    }
    const last = owners.at(-1);
    if (last === undefined || owners.length < batch) return;
    after = last.userId;
  }
}

/** A month is a thing of its own: nobody is told that it is over. */
const nearAlert = (projectId: string, month: string) => ({
  ...({ projectId, event: "quotaNear", subject: month.slice(0, 7) } as const),
  detail: "More than 80 % of what the plan of its owner allows in a month is used.",
});

function hasNews(owner: Owner): boolean {
  const { suspend, resume, tell } = decide(owner);
  return suspend.length > 0 || resume.length > 0 || tell !== null;
}

/** Returns how many projects it began to resume; at most `resumesMax`, the next rounds go on. */
function enforce(
  { db, log, clock }: { db: Db; log: Log; clock: DatabaseClock },
  userId: string,
  resumesMax: number,
): Promise<number> {
  return db.transaction().execute(async (tx) => {
    if ((await lockAccess(tx, userId)) === null) return 0;
    const projects = await lockProjects(tx, userId);
    // A round takes long and locks are waited for: another month may have begun.
    const now = await clock(tx);
    const owner = await findOwner(tx, now, userId);
    if (owner === null) return 0;
    const { suspend, resume, tell } = decide(owner);
    const detail = { reason: "quota", used: owner.use, allowed: owner.allowance };
    for (const project of projects.filter(({ id }) => suspend.includes(id))) {
      await suspendProject(tx, project, "quota");
      await recordAudit(tx, { caller: null, address: "", action: "project.suspend", target: project.id, detail });
      log.info({ userId, projectId: project.id, ...owner.use }, "project suspended: its owner's quota is used up");
    }
    const resumed = projects.filter(({ id }) => resume.includes(id)).slice(0, Math.max(resumesMax, 0));
    for (const project of resumed) {
      await requestResume(tx, project);
      await recordAudit(tx, { caller: null, address: "", action: "project.resume", target: project.id, detail });
      log.info({ userId, projectId: project.id, ...owner.use }, "project resumed: its owner has quota again");
    }
    if (tell !== null) {
      await setTold(tx, userId, now, tell);
      const payload: QuotaNotice = { userId, month: monthOf(now), level: tell };
      if (tell === "near") for (const { id } of projects) await raiseAlert(tx, nearAlert(id, monthOf(now)));
      await enqueue(tx, { kind: "quota-notice", key: `quota-notice/${userId}`, payload });
    }
    return resumed.length;
  });
}
