import type { Db } from "../../stores/db/pool.ts";
import { enqueue } from "../../stores/work/queue.ts";
import type { Message } from "./steps.ts";
import { insertDelivery } from "./store.ts";

/** Work of these kinds looks again when something is due, sends a mail, and calls a webhook. */
export const alertLookWork = "alert-look";
export const alertMailWork = "alert-mail";
export const alertWebhookWork = "alert-webhook";

export interface AlertMail {
  projectId: string;
  message: Message | { kind: "disabled"; host: string; since: string };
}

export interface AlertDelivery {
  deliveryId: string;
}

export async function enqueueMail(tx: Db, payload: AlertMail): Promise<void> {
  await enqueue(tx, { kind: alertMailWork, key: `${alertMailWork}/${payload.projectId}`, payload });
}

/** Each delivery by itself: one that is not taken holds up none of the others. */
export async function enqueueDelivery(tx: Db, webhookId: string, body: string): Promise<void> {
  const payload: AlertDelivery = { deliveryId: await insertDelivery(tx, webhookId, body) };
  await enqueue(tx, { kind: alertWebhookWork, key: `${alertWebhookWork}/${payload.deliveryId}`, payload });
}
