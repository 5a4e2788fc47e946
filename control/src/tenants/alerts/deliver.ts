import type { Log } from "../../log.ts";
import { type DatabaseClock, databaseClock } from "../../stores/db/clock.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Secrets } from "../../stores/secrets.ts";
import type { WorkOutcome } from "../../stores/work/queue.ts";
import type { WorkHandler } from "../../stores/work/worker.ts";
import { type AlertDelivery, enqueueMail } from "./kinds.ts";
import { type Answer, post, type SendDeps } from "./send.ts";
import { signedHeaders } from "./sign.ts";
import { afterTry } from "./steps.ts";
import { openSecrets, type Webhook } from "./store.ts";

export interface DeliverDeps extends SendDeps {
  db: Db;
  secrets: Secrets;
  log: Log;
  /** The database's unless given. */
  databaseClock?: DatabaseClock;
}

/** Of one owner's, in this process: receivers that never answer hold up nobody else's deliveries. */
const underWayMax = 4;
/** Until those in front of it have had their time to be answered. */
const turnMs = 5_000;

interface Delivery {
  id: string;
  body: string;
  tries: number;
  webhook: Webhook;
}

/**
 * Work of kind `alert-webhook`: tries one delivery once, and leaves the next try to the queue. A try is counted before it is
 * made, and its delivery keeps its id: whoever is killed in between has it made again, and the receiver knows it.
 */
export function deliverWorker(deps: DeliverDeps): WorkHandler {
  const { db, secrets, log } = deps;
  const clock = deps.databaseClock ?? databaseClock;
  const underWay = new Map<string, number>();
  return async (item, signal) => {
    const { deliveryId } = item.payload as AlertDelivery;
    const ownerId = await findOwner(db, deliveryId);
    if (ownerId === null) return { state: "done" };
    const others = underWay.get(ownerId) ?? 0;
    if (others >= underWayMax) return { retryAfterMs: turnMs, refund: true };
    underWay.set(ownerId, others + 1);
    try {
      return await deliver(deliveryId, signal);
    } finally {
      const left = (underWay.get(ownerId) ?? 1) - 1;
      if (left === 0) underWay.delete(ownerId);
      else underWay.set(ownerId, left);
    }
  };

  async function deliver(deliveryId: string, signal: AbortSignal): Promise<WorkOutcome> {
    const delivery = await beginTry(db, deliveryId);
    if (delivery === null) return { state: "done" };
    const { webhook, body } = delivery;
    const at = await clock(db);
    const headers = signedHeaders(openSecrets(secrets, webhook, at), { id: deliveryId, at, body });
    const answer = await post(deps, { url: new URL(webhook.url), headers, body }, signal);
    const againAfterMs = await endTry(db, delivery, answer, await clock(db));
    const { host } = new URL(webhook.url);
    log.info({ projectId: webhook.project_id, deliveryId, host, ...answer, tries: delivery.tries }, "webhook");
    return againAfterMs === null ? { state: "done" } : { retryAfterMs: againAfterMs, refund: true };
  }
}

/** Whose project a delivery is of; null: it is no more. */
async function findOwner(db: Db, deliveryId: string): Promise<string | null> {
  const row = await db
    .selectFrom("alert_delivery")
    .innerJoin("alert_webhook", "alert_webhook.id", "alert_delivery.webhook_id")
    .innerJoin("project", "project.id", "alert_webhook.project_id")
    .select("project.owner_id")
    .where("alert_delivery.id", "=", deliveryId)
    .executeTakeFirst();
  return row?.owner_id ?? null;
}

/** Null: it has ended, nothing is sent there any more, or its project is going. */
async function beginTry(db: Db, id: string): Promise<Delivery | null> {
  const row = await db
    .updateTable("alert_delivery")
    .set(({ eb }) => ({ tries: eb("tries", "+", 1) }))
    .where("id", "=", id)
    .where("ended_at", "is", null)
    .returning(["id", "webhook_id", "body", "tries"])
    .executeTakeFirst();
  if (row === undefined) return null;
  const webhook = await db
    .selectFrom("alert_webhook")
    .innerJoin("project", "project.id", "alert_webhook.project_id")
    .selectAll("alert_webhook")
    .where("alert_webhook.id", "=", row.webhook_id)
    .where("alert_webhook.disabled_at", "is", null)
    .where("project.deleting_at", "is", null)
    .executeTakeFirst();
  return webhook === undefined ? null : { ...row, webhook };
}

/** Notes how it went. Returns after which time it is tried again; null: never. */
function endTry(db: Db, delivery: Delivery, { status, problem }: Answer, now: Date): Promise<number | null> {
  return db.transaction().execute(async (tx) => {
    const webhook = await tx
      .selectFrom("alert_webhook")
      .selectAll()
      .where("id", "=", delivery.webhook.id)
      .forUpdate()
      .executeTakeFirst();
    if (webhook === undefined) return null;
    const tried = { now, tries: delivery.tries, status, failingSince: webhook.failing_since };
    const { ok, againAfterMs, failingSince, disables } = afterTry(tried);
    const isNew = disables && webhook.disabled_at === null;
    await tx
      .updateTable("alert_webhook")
      .set({
        ...{ last_at: now, last_ok: ok, last_status: status, last_problem: problem, failing_since: failingSince },
        ...(isNew && { disabled_at: now }),
      })
      .where("id", "=", webhook.id)
      .execute();
    if (againAfterMs === null)
      await tx.updateTable("alert_delivery").set({ ended_at: now, ok }).where("id", "=", delivery.id).execute();
    if (isNew) {
      const since = (failingSince ?? now).toISOString();
      const message = { kind: "disabled", host: new URL(webhook.url).host, since } as const;
      await enqueueMail(tx, { projectId: webhook.project_id, message });
    }
    return againAfterMs;
  });
}
