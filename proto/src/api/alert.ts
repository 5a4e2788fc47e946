import { z } from "zod";
import { limits } from "../limits.ts";
import { id, nothingSent, replyObject, success, timestamp } from "./envelope.ts";

/** What an owner can be told of. Each begins and is over, but for those of `alertMoments`, which only happen. */
export const alertEvents = [
  "deployFailed",
  "siteDown",
  "domainFailing",
  "certificateFailing",
  "databaseFailing",
  "backupFailed",
  "jobFailed",
  "jobMissed",
  "quotaNear",
  "suspended",
] as const;
export type AlertEvent = (typeof alertEvents)[number];

/** mail: to the address of the project's owner. webhook: to an address of their choice. */
export const alertChannels = ["mail", "webhook"] as const;
export type AlertChannel = (typeof alertChannels)[number];

const perEvent = <Value extends z.ZodType>(value: Value) =>
  Object.fromEntries(alertEvents.map((event) => [event, value])) as Record<AlertEvent, Value>;

const alertWebhook = replyObject({
  id,
  url: z.string(),
  /** That there is a secret; it is shown when it is made and never again. */
  configured: z.literal(true),
  createdAt: timestamp,
  rotatedAt: timestamp.nullable(),
  /** Until when the secret before the last rotation signs as well. */
  previousSecretUntil: timestamp.nullable(),
  /** The last try of any delivery; without a status there was no answer. */
  lastDelivery: replyObject({
    at: timestamp,
    status: z.int().nullable(),
    ok: z.boolean(),
    /** Null: it was taken. */
    problem: z.string().nullable(),
  }).nullable(),
  /** Since when no try has succeeded. */
  failingSince: timestamp.nullable(),
  /** Since when nothing is sent there any more. A new address, or the same one again, begins anew. */
  disabledAt: timestamp.nullable(),
});
export type AlertWebhook = z.output<typeof alertWebhook>;

const alerts = replyObject({
  enabled: z.boolean(),
  /** Where mails go; null: nowhere, because the owner has not confirmed the address or the installation sends none. */
  email: z.string().nullable(),
  events: replyObject(perEvent(replyObject({ mail: z.boolean(), webhook: z.boolean() }))),
  webhook: alertWebhook.nullable(),
  /** What is wrong at this moment, the newest first, whether anybody is told of it or not. */
  open: z.array(replyObject({ event: z.enum(alertEvents), subject: z.string(), since: timestamp, detail: z.string() })),
});
export type Alerts = z.output<typeof alerts>;

export const alertsReply = success({ alerts });

const wanted = z
  .strictObject({ mail: z.boolean().exactOptional(), webhook: z.boolean().exactOptional() })
  .refine((channels) => Object.keys(channels).length > 0, nothingSent);
const optionalPerEvent = Object.fromEntries(alertEvents.map((event) => [event, wanted.exactOptional()])) as Record<
  AlertEvent,
  z.ZodExactOptional<typeof wanted>
>;

export const changeAlertsInput = z
  .strictObject({
    /** False: nobody is told of anything, whatever the events say. */
    enabled: z.boolean().exactOptional(),
    events: z.strictObject(optionalPerEvent).exactOptional(),
  })
  .refine((body) => Object.keys(body).length > 0, nothingSent);
export type ChangeAlertsInput = z.output<typeof changeAlertsInput>;

/** Whether the platform would call it, the server says. */
export const putAlertWebhookInput = z.strictObject({ url: z.string().min(1).max(limits.webhookUrlLengthMax) });

/** The secret is in this reply and nowhere else. */
export const alertSecretReply = success({ webhook: alertWebhook, secret: z.string() });
