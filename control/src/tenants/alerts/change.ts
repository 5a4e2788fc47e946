import { limits } from "@svc/proto";
import type { Db } from "../../stores/db/pool.ts";
import type { Secrets } from "../../stores/secrets.ts";
import type { Choices } from "./rules.ts";
import { openSecrets, previousWebhookSecretAad, type Webhook, webhookSecretAad } from "./store.ts";

const hourMs = 3_600_000;

/** Of a project whose settings are locked. */
export async function storeSettings(
  tx: Db,
  projectId: string,
  { enabled, choices }: { enabled: boolean; choices: Choices },
): Promise<void> {
  await tx
    .updateTable("alert_setting")
    .set({ enabled, choices: JSON.stringify(choices) })
    .where("project_id", "=", projectId)
    .execute();
}

/** In the place of the one before, and of all that was on its way there. */
export async function insertWebhook(
  tx: Db,
  secrets: Secrets,
  { projectId, url, secret }: { projectId: string; url: string; secret: string },
): Promise<Webhook> {
  await tx.deleteFrom("alert_webhook").where("project_id", "=", projectId).execute();
  const { id } = await tx
    .insertInto("alert_webhook")
    // What is sealed is bound to the id, which the database gives.
    .values({ project_id: projectId, url, secret: Buffer.alloc(0) })
    .returning("id")
    .executeTakeFirstOrThrow();
  return tx
    .updateTable("alert_webhook")
    .set({ secret: secrets.seal(Buffer.from(secret), webhookSecretAad(id)) })
    .where("id", "=", id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** The secret before signs as well for a while; one from before that does not any more. */
export function rotateSecret(
  tx: Db,
  secrets: Secrets,
  webhook: Webhook,
  { secret, now }: { secret: string; now: Date },
): Promise<Webhook> {
  const { id } = webhook;
  const [before = ""] = openSecrets(secrets, webhook, now);
  return tx
    .updateTable("alert_webhook")
    .set({
      secret: secrets.seal(Buffer.from(secret), webhookSecretAad(id)),
      previous_secret: secrets.seal(Buffer.from(before), previousWebhookSecretAad(id)),
      previous_until: new Date(now.getTime() + limits.webhookSecretOverlapHours * hourMs),
      rotated_at: now,
    })
    .where("id", "=", id)
    .returningAll()
    .executeTakeFirstOrThrow();
}
