import type { AlertEvent } from "@svc/proto";
import type { Selectable } from "kysely";
import type { AlertSettingTable, AlertTable, AlertWebhookTable } from "../../stores/db/gen/tables.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Secrets } from "../../stores/secrets.ts";
import type { Alert, News, Pace } from "./steps.ts";

export type Setting = Selectable<AlertSettingTable>;
export type Webhook = Selectable<AlertWebhookTable>;

/** What is usual, of a project that said nothing yet. */
const usual = (projectId: string): Setting => ({
  ...{ project_id: projectId, enabled: true, choices: {}, hour_at: null, hour_messages: 0 },
  ...{ waiting: [], waiting_more: 0, look_at: null },
});

export async function findSetting(db: Db, projectId: string): Promise<Setting> {
  const row = await db.selectFrom("alert_setting").selectAll().where("project_id", "=", projectId).executeTakeFirst();
  return row ?? usual(projectId);
}

/** Who has it locked decides alone what a project is told. */
export async function lockSetting(tx: Db, projectId: string): Promise<Setting> {
  await tx
    .insertInto("alert_setting")
    .values({ project_id: projectId })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  return tx
    .selectFrom("alert_setting")
    .selectAll()
    .where("project_id", "=", projectId)
    .forUpdate()
    .executeTakeFirstOrThrow();
}

export const paceOf = ({ hour_at, hour_messages, waiting, waiting_more }: Setting): Pace => ({
  hourAt: hour_at,
  messages: hour_messages,
  waiting: waiting as News[],
  more: waiting_more,
});

export async function storePace(tx: Db, projectId: string, pace: Pace, lookAt: Date | null): Promise<void> {
  await tx
    .updateTable("alert_setting")
    .set({
      ...{ hour_at: pace.hourAt, hour_messages: pace.messages, look_at: lookAt },
      ...{ waiting: JSON.stringify(pace.waiting), waiting_more: pace.more },
    })
    .where("project_id", "=", projectId)
    .execute();
}

const alertOf = (row: Selectable<AlertTable>): Alert => ({
  ...{ event: row.event as AlertEvent, subject: row.subject, isOn: row.is_on, changedAt: row.changed_at },
  ...{ detail: row.detail, wordId: row.word_id, toldSince: row.told_since },
  ...{ begins: row.begins, beginsSince: row.begins_since },
});

export async function findAlert(db: Db, projectId: string, event: AlertEvent, subject: string): Promise<Alert | null> {
  const row = await db
    .selectFrom("alert")
    .selectAll()
    .where("project_id", "=", projectId)
    .where("event", "=", event)
    .where("subject", "=", subject)
    .executeTakeFirst();
  return row === undefined ? null : alertOf(row);
}

/** What it is about is gone. What a later word than this said of it stays: there is something of that name again. */
export async function forgetAlert(
  tx: Db,
  projectId: string,
  { event, subject }: Pick<Alert, "event" | "subject">,
  wordId: number,
): Promise<void> {
  await tx
    .deleteFrom("alert")
    .where("project_id", "=", projectId)
    .where("event", "=", event)
    .where("subject", "=", subject)
    .where("word_id", "<", wordId)
    .execute();
}

/** Those of which the owner may not know all. */
export async function listUntold(db: Db, projectId: string): Promise<Alert[]> {
  const rows = await db
    .selectFrom("alert")
    .selectAll()
    .where("project_id", "=", projectId)
    .where(({ and, eb, or }) =>
      or([
        and([eb("is_on", "=", true), eb("told_since", "is", null)]),
        and([eb("is_on", "=", false), eb("told_since", "is not", null)]),
      ]),
    )
    .execute();
  return rows.map(alertOf);
}

/** What is wrong now, the newest first. */
export async function listOpen(db: Db, projectId: string, limit: number): Promise<Alert[]> {
  const rows = await db
    .selectFrom("alert")
    .selectAll()
    .where("project_id", "=", projectId)
    .where("is_on", "=", true)
    .orderBy("changed_at", "desc")
    .orderBy("event")
    .orderBy("subject")
    .limit(limit)
    .execute();
  return rows.map(alertOf);
}

export async function putAlert(tx: Db, projectId: string, alert: Alert): Promise<void> {
  const { event, subject } = alert;
  const values = {
    ...{ is_on: alert.isOn, changed_at: alert.changedAt, detail: alert.detail, word_id: alert.wordId },
    ...{ told_since: alert.toldSince, begins: alert.begins, begins_since: alert.beginsSince },
  };
  await tx
    .insertInto("alert")
    .values({ project_id: projectId, event, subject, ...values })
    .onConflict((conflict) => conflict.columns(["project_id", "event", "subject"]).doUpdateSet(values))
    .execute();
}

export const findWebhook = async (db: Db, projectId: string): Promise<Webhook | null> =>
  (await db.selectFrom("alert_webhook").selectAll().where("project_id", "=", projectId).executeTakeFirst()) ?? null;

/** Where the sealed secrets of a webhook live; see `Secrets`. */
export const webhookSecretAad = (id: string) => `alert_webhook/${id}/secret`;
export const previousWebhookSecretAad = (id: string) => `alert_webhook/${id}/previous_secret`;

/** Those that sign now, the newest first. Throws `CannotOpen`. */
export function openSecrets(secrets: Secrets, webhook: Webhook, now: Date): string[] {
  const { id, secret, previous_secret: previous, previous_until: until } = webhook;
  const newest = secrets.open(secret, webhookSecretAad(id)).toString("utf8");
  if (previous === null || until === null || until <= now) return [newest];
  return [newest, secrets.open(previous, previousWebhookSecretAad(id)).toString("utf8")];
}

/** A message for the webhook is on its way; its id is what the receiver knows it by. */
export async function insertDelivery(tx: Db, webhookId: string, body: string): Promise<string> {
  const { id } = await tx
    .insertInto("alert_delivery")
    .values({ webhook_id: webhookId, body })
    .returning("id")
    .executeTakeFirstOrThrow();
  return id;
}
