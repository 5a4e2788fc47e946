import type { AlertChannel } from "@svc/proto";
import { type AlertWork, alertWork } from "../../fleet/alerts/raise.ts";
import type { Mailer } from "../../identity/mail/mailer.ts";
import { instanceName } from "../../settings/instance-name.ts";
import type { Config } from "../../settings/settings.ts";
import { type DatabaseClock, databaseClock } from "../../stores/db/clock.ts";
import type { Db } from "../../stores/db/pool.ts";
import { enqueue } from "../../stores/work/queue.ts";
import type { WorkHandler } from "../../stores/work/worker.ts";
import { type AlertMail, alertLookWork, alertMailWork, enqueueDelivery, enqueueMail } from "./kinds.ts";
import { bodyOf, disabledMail, mailOf, partFor } from "./messages.ts";
import { hear, look, type Message } from "./steps.ts";
import {
  findAlert,
  findWebhook,
  forgetAlert,
  listUntold,
  lockSetting,
  paceOf,
  putAlert,
  type Setting,
  storePace,
  type Webhook,
} from "./store.ts";

export interface AlertDeps {
  db: Db;
  /** Null: the installation sends no mail. */
  mailer: Mailer | null;
  apiUrl: Config["apiUrl"];
  /** The database's unless given. */
  clock?: DatabaseClock;
}

interface Project {
  id: string;
  slug: string;
}

/** Handlers of what is said of projects, of what is due, and of mails about it. */
export function alertWorkers(deps: AlertDeps): Record<string, WorkHandler> {
  return { [alertWork]: hearWorker(deps), [alertLookWork]: hearWorker(deps), [alertMailWork]: mailWorker(deps) };
}

/** Notes what was said, and makes messages of all that is due. One transaction: whatever is told, is told once. */
function hearWorker({ db, mailer, clock = databaseClock }: AlertDeps): WorkHandler {
  return async (item) => {
    const { projectId, says } = item.payload as AlertWork;
    await db.transaction().execute(async (tx) => {
      const project = await findProject(tx, projectId);
      if (project === null) return;
      const setting = await lockSetting(tx, projectId);
      const now = await clock(tx);
      if (says?.isGone) await forgetAlert(tx, projectId, says, item.id);
      else if (says !== undefined) {
        const known = await findAlert(tx, projectId, says.event, says.subject);
        const heard = hear(known, { ...says, at: await saidAt(tx, item.id, now), id: item.id });
        if (heard !== null) await putAlert(tx, projectId, heard);
      }
      const webhook = await findWebhook(tx, projectId);
      const reachable: AlertChannel[] = [
        ...(mailer === null ? [] : (["mail"] as const)),
        ...(webhook === null || webhook.disabled_at !== null ? [] : (["webhook"] as const)),
      ];
      const facts = { now, settings: setting, reachable, pace: paceOf(setting) };
      const { alerts, pace, messages, lookAt } = look({ ...facts, alerts: await listUntold(tx, projectId) });
      for (const alert of alerts) await putAlert(tx, projectId, alert);
      for (const message of messages) await send(tx, project, webhook, message, now);
      await storePace(tx, projectId, pace, await lookLater(tx, setting, lookAt, now));
    });
    return { state: "done" };
  };
}

async function findProject(db: Db, id: string): Promise<Project | null> {
  const row = await db
    .selectFrom("project")
    .select(["id", "slug"])
    .where("id", "=", id)
    .where("deleting_at", "is", null)
    .executeTakeFirst();
  return row ?? null;
}

/** When the transaction began in which it was said. */
async function saidAt(tx: Db, itemId: number, now: Date): Promise<Date> {
  const row = await tx.selectFrom("work_item").select("created_at").where("id", "=", itemId).executeTakeFirst();
  return row?.created_at ?? now;
}

async function send(tx: Db, project: Project, webhook: Webhook | null, message: Message, now: Date): Promise<void> {
  const [mail, called] = [partFor(message, "mail"), partFor(message, "webhook")];
  if (mail !== null) await enqueueMail(tx, { projectId: project.id, message: mail });
  if (called !== null && webhook !== null) await enqueueDelivery(tx, webhook.id, bodyOf(called, { project }, now));
}

/** One item at a time waits for what is due next; a later one is found again then. Returns when somebody looks. */
async function lookLater(tx: Db, setting: Setting, lookAt: Date | null, now: Date): Promise<Date | null> {
  const { project_id: projectId, look_at: planned } = setting;
  const stillComes = planned !== null && planned > now ? planned : null;
  if (lookAt === null || (stillComes !== null && stillComes <= lookAt)) return stillComes;
  const payload: AlertWork = { projectId };
  const key = `${alertLookWork}/${projectId}/${lookAt.getTime()}`;
  await enqueue(tx, { kind: alertLookWork, key, payload, runAt: lookAt });
  return lookAt;
}

/** A server that took a mail on no day of these will not take it tomorrow, and whoever got it then would read old news. */
const mailMaxAgeMs = 3 * 86_400_000;

function mailWorker({ db, mailer, apiUrl }: AlertDeps): WorkHandler {
  return async (item) => {
    const { projectId, message } = item.payload as AlertMail;
    if (item.ageMs > mailMaxAgeMs) return { state: "done" };
    const row = await db
      .selectFrom("project")
      .innerJoin("auth.user", "auth.user.id", "project.owner_id")
      .select(["project.id", "project.slug", "email", "emailVerified"])
      .where("project.id", "=", projectId)
      .where("project.deleting_at", "is", null)
      .executeTakeFirst();
    if (mailer === null || row === undefined || !row.emailVerified) return { state: "done" };
    const facts = { project: { id: row.id, slug: row.slug }, instance: instanceName(apiUrl) };
    const mail =
      message.kind === "disabled"
        ? disabledMail(facts, { host: message.host, since: new Date(message.since) })
        : mailOf(message, facts);
    await mailer.send(row.email, mail);
    return { state: "done" };
  };
}
