import {
  type Alerts,
  alertSecretReply,
  alertsReply,
  changeAlertsInput,
  idParams,
  limits,
  putAlertWebhookInput,
} from "@svc/proto";
import { type Egress, EgressBlocked } from "@svc/registry";
import { recordAudit } from "../../http/audit.ts";
import { ApiError } from "../../http/errors.ts";
import { takeAttempt } from "../../identity/limits/attempts.ts";
import { databaseClock } from "../../stores/db/clock.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Project } from "../../stores/db/tables.ts";
import { Refused } from "../../stores/refused.ts";
import type { TenantContext } from "../context.ts";
import { endpoint } from "../endpoint.ts";
import { getProject } from "../projects/store.ts";
import { insertWebhook, rotateSecret, storeSettings } from "./change.ts";
import { enqueueDelivery } from "./kinds.ts";
import { testBody } from "./messages.ts";
import { changeChoices, urlProblem, wantedEvents } from "./rules.ts";
import { notCalled } from "./send.ts";
import { newSecret } from "./sign.ts";
import { findSetting, findWebhook, listOpen, lockSetting } from "./store.ts";
import { webhookView } from "./view.ts";

/** Of all projects of an owner: each address that is set is called once, wherever it leads. */
const settingWebhooks = { capacity: 10, secondsPerToken: 60 };

const path = "/projects/:id/alerts";
const webhookPath = `${path}/webhook`;

async function alertsOf(db: Db, { mailer }: Pick<TenantContext, "mailer">, project: Project): Promise<Alerts> {
  const { enabled, choices } = await findSetting(db, project.id);
  const webhook = await findWebhook(db, project.id);
  const owner = await db
    .selectFrom("auth.user")
    .select(["email", "emailVerified"])
    .where("id", "=", project.owner_id)
    .executeTakeFirstOrThrow();
  const open = await listOpen(db, project.id, limits.alertsOpenShown);
  return {
    enabled,
    email: mailer !== null && owner.emailVerified ? owner.email : null,
    events: wantedEvents(choices),
    webhook: webhook && webhookView(webhook, await databaseClock(db)),
    open: open.map(({ event, subject, changedAt, toldSince, detail }) => ({
      ...{ event, subject, detail },
      since: (toldSince ?? changedAt).toISOString(),
    })),
  };
}

const show = endpoint({
  method: "GET",
  path,
  access: { scope: "alerts:read" },
  summary: "What the owner is told of, how, and what is wrong now.",
  params: idParams,
  reply: alertsReply,
  async handle(context, { caller, params }) {
    const project = await getProject(context.db, caller, params.id);
    return { alerts: await alertsOf(context.db, context, project) };
  },
});

const change = endpoint({
  method: "PATCH",
  path,
  access: { scope: "alerts:write" },
  summary: "Change what the owner is told of, and how.",
  params: idParams,
  body: changeAlertsInput,
  reply: alertsReply,
  errors: ["VALIDATION"],
  handle: (context, { caller, params, body, address }) =>
    context.db.transaction().execute(async (tx) => {
      const project = await getProject(tx, caller, params.id, { lock: true });
      const known = await lockSetting(tx, project.id);
      const choices = changeChoices(known.choices, body.events ?? {});
      await storeSettings(tx, project.id, { enabled: body.enabled ?? known.enabled, choices });
      await recordAudit(tx, { caller, address, action: "alerts.change", target: project.id, detail: { ...body } });
      return { alerts: await alertsOf(tx, context, project) };
    }),
});

/** Throws VALIDATION for an address that the platform would not call. Whether anybody is there, the first delivery shows. */
async function readUrl(egress: Egress, text: string): Promise<URL> {
  const problem = urlProblem(text);
  if (problem !== null) throw new Refused("VALIDATION", `url: ${problem}`);
  const url = new URL(text);
  try {
    await egress(new URL(url.origin));
  } catch (error) {
    if (error instanceof EgressBlocked) throw new Refused("VALIDATION", `url: ${notCalled(error)}`);
    // Nobody knows the name at this moment: it is judged again before it is called.
  }
  return url;
}

const put = endpoint({
  method: "PUT",
  path: webhookPath,
  access: { scope: "alerts:write" },
  summary: "Set the address of the webhook. The reply has its new secret, and nothing else ever does.",
  params: idParams,
  body: putAlertWebhookInput,
  reply: alertSecretReply,
  errors: ["VALIDATION", "RATE_LIMITED"],
  async handle({ db, secrets, webhookEgress }, { caller, params, body, address }) {
    await getProject(db, caller, params.id);
    const url = await readUrl(webhookEgress, body.url);
    return db.transaction().execute(async (tx) => {
      const project = await getProject(tx, caller, params.id, { lock: true });
      await lockSetting(tx, project.id);
      const wait = await takeAttempt(tx, { what: "alert-webhook", whose: project.owner_id }, settingWebhooks);
      if (wait !== null) {
        const message = "Webhooks of your projects were set often just now. Try again in a minute.";
        throw new ApiError("RATE_LIMITED", { message, retryAfterSeconds: wait });
      }
      const secret = newSecret();
      const webhook = await insertWebhook(tx, secrets, { projectId: project.id, url: url.href, secret });
      const now = await databaseClock(tx);
      await enqueueDelivery(tx, webhook.id, testBody({ id: project.id, slug: project.slug }, now));
      // The path may be a secret of the receiver's.
      const detail = { host: url.host };
      await recordAudit(tx, { caller, address, action: "alerts.webhook-set", target: project.id, detail });
      return { webhook: webhookView(webhook, now), secret };
    });
  },
});

const remove = endpoint({
  method: "DELETE",
  path: webhookPath,
  access: { scope: "alerts:write" },
  summary: "Delete the webhook, and what is on its way to it.",
  params: idParams,
  reply: alertsReply,
  handle: (context, { caller, params, address }) =>
    context.db.transaction().execute(async (tx) => {
      const project = await getProject(tx, caller, params.id, { lock: true });
      const webhook = await findWebhook(tx, project.id);
      if (webhook === null) throw new Refused("NOT_FOUND");
      await tx.deleteFrom("alert_webhook").where("id", "=", webhook.id).execute();
      const detail = { host: new URL(webhook.url).host };
      await recordAudit(tx, { caller, address, action: "alerts.webhook-delete", target: project.id, detail });
      return { alerts: await alertsOf(tx, context, project) };
    }),
});

const rotate = endpoint({
  method: "POST",
  path: `${webhookPath}/rotate`,
  access: { scope: "alerts:write" },
  summary: "Give the webhook another secret, which the reply has. The one before signs as well for a day.",
  params: idParams,
  reply: alertSecretReply,
  handle: ({ db, secrets }, { caller, params, address }) =>
    db.transaction().execute(async (tx) => {
      const project = await getProject(tx, caller, params.id, { lock: true });
      const webhook = await findWebhook(tx, project.id);
      if (webhook === null) throw new Refused("NOT_FOUND");
      const secret = newSecret();
      const now = await databaseClock(tx);
      const rotated = await rotateSecret(tx, secrets, webhook, { secret, now });
      const detail = { host: new URL(webhook.url).host };
      await recordAudit(tx, { caller, address, action: "alerts.webhook-rotate", target: project.id, detail });
      return { webhook: webhookView(rotated, now), secret };
    }),
});

export const alertEndpoints = [show, change, put, remove, rotate];
