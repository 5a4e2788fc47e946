import { type AlertEvent, limits, stripControl } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Channel } from "../../stores/db/tables.ts";
import { enqueue } from "../../stores/work/queue.ts";

/**
 * Whoever learns that something is wrong with a project, or over, says so here, in the transaction in which that becomes so.
 * It is a work item and takes no lock, so it may be said with any lock held; what becomes of it is decided in
 * `tenants/alerts`. Saying the same again changes nothing.
 */
export const alertWork = "alert";

/** What an alert is about. */
export interface AlertPlace {
  projectId: string;
  event: AlertEvent;
  /** A channel, a domain, a job; empty: the project itself. Whatever is over has the subject that it began with. */
  subject: string;
}

/** What a work item of kind `alert` carries. Without `says`: it is time to look again. */
export interface AlertWork {
  projectId: string;
  says?: Omit<AlertPlace, "projectId"> & {
    isOn: boolean;
    detail: string;
    /** What it is about is gone; to a control of before that was said, it is over. */
    isGone?: boolean;
  };
}

/** Items of a project are dealt with in the order in which they were said. */
export const alertKey = (projectId: string): string => `alert/${projectId}`;

/** Something is wrong. `detail` is one sentence for people, and nothing that is secret. */
export async function raiseAlert(tx: Db, alert: AlertPlace & { detail: string }): Promise<void> {
  const { projectId, event, subject, detail } = alert;
  const says = { event, subject, isOn: true, detail: sentenceOf(detail) };
  await say(tx, { projectId, says });
}

/** It is over, or not wrong: said freely, since nothing is queued where nothing was wrong. */
export const clearAlert = (tx: Db, place: AlertPlace): Promise<void> => clearAlerts(tx, place, [place.event]);

/** The same of several events of one subject, by one look when nothing was wrong. */
export async function clearAlerts(
  tx: Db,
  { projectId, subject }: Pick<AlertPlace, "projectId" | "subject">,
  events: readonly AlertEvent[],
): Promise<void> {
  for (const event of await mayBeOn(tx, { projectId, subject }, events))
    await say(tx, { projectId, says: { event, subject, isOn: false, detail: "" } });
}

/**
 * What it is about is gone, so that it can be neither wrong nor well: nobody is told anything. What was said of it before and
 * nobody has heard yet goes with it; what somebody hears at this moment is followed by a word that it is gone.
 */
export async function dropAlert(tx: Db, place: AlertPlace): Promise<void> {
  const { projectId, event, subject } = place;
  await tx
    .deleteFrom("alert")
    .where("project_id", "=", projectId)
    .where("event", "=", event)
    .where("subject", "=", subject)
    .execute();
  await tx.deleteFrom("work_item").where(saysOf(place)).where("state", "in", ["queued", "failed"]).execute();
  const heard = await tx
    .selectFrom("work_item")
    .select("id")
    .where(saysOf(place))
    .where("state", "in", ["queued", "running", "failed"])
    .limit(1)
    .executeTakeFirst();
  if (heard !== undefined)
    await say(tx, { projectId, says: { event, subject, isOn: false, detail: "", isGone: true } });
}

const saysOf = ({ projectId, event, subject }: AlertPlace) =>
  sql<boolean>`key = ${alertKey(projectId)} and kind = ${alertWork}
    and payload #>> '{says,event}' = ${event} and payload #>> '{says,subject}' = ${subject}`;

/** How alerts and people name a channel, or the preview of one pull request. */
export const channelSubject = (channel: Channel, prNumber: number | null): string =>
  prNumber === null || prNumber === 0 ? channel : `${channel}/${prNumber}`;

async function say(tx: Db, payload: AlertWork): Promise<void> {
  await enqueue(tx, { kind: alertWork, key: alertKey(payload.projectId), payload });
}

/** Those of `events` that are on; all of them when something is queued of this project that may say so. */
async function mayBeOn(
  tx: Db,
  { projectId, subject }: Pick<AlertPlace, "projectId" | "subject">,
  events: readonly AlertEvent[],
): Promise<readonly AlertEvent[]> {
  const { rows } = await sql<{ event: AlertEvent }>`
    select event from unnest(${[...events]}::text[]) as asked (event)
    where exists (select from alert where project_id = ${projectId} and alert.event = asked.event and subject = ${subject} and is_on)
      or exists (select from work_item
        where key = ${alertKey(projectId)} and kind = ${alertWork} and state in ('queued', 'running', 'failed'))`.execute(
    tx,
  );
  const found = new Set(rows.map(({ event }) => event));
  return events.filter((event) => found.has(event));
}

/**
 * Its first line, as far as there is room. Part of it is what a tenant's program said, and half a character is no text to
 * Postgres: whoever notices could not note anything.
 */
function sentenceOf(detail: string): string {
  const [line = ""] = stripControl(detail).split("\n", 1);
  return line.slice(0, limits.alertDetailLengthMax).toWellFormed();
}
