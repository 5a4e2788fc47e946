// @pure
import type { AlertWebhook } from "@svc/proto";
import type { Webhook } from "./store.ts";

const stamp = (at: Date | null): string | null => at?.toISOString() ?? null;

/** Never has a secret. */
export function webhookView(webhook: Webhook, now: Date): AlertWebhook {
  const { last_at: at, previous_until: until } = webhook;
  return {
    id: webhook.id,
    url: webhook.url,
    configured: true,
    createdAt: webhook.created_at.toISOString(),
    rotatedAt: stamp(webhook.rotated_at),
    previousSecretUntil: until !== null && until > now ? until.toISOString() : null,
    lastDelivery:
      at === null
        ? null
        : {
            at: at.toISOString(),
            status: webhook.last_status,
            ok: webhook.last_ok ?? false,
            problem: webhook.last_problem,
          },
    failingSince: stamp(webhook.failing_since),
    disabledAt: stamp(webhook.disabled_at),
  };
}
