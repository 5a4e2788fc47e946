import { type AlertEvent, type Alerts, alertEvents } from "@svc/proto";
import type { Screen } from "../command.ts";
import { CliError, fromServerError, type ServerError } from "../errors.ts";
import { listing } from "../listing.ts";

export const alertsPath = (projectId: string): string => `/projects/${projectId}/alerts`;

/** The way to set a webhook, as it is typed. */
export const setExample = "svc alerts webhook set https://hooks.example.test/svc --file webhook.secret";

/** The error to tell for an answer about the webhook of a project that was found a moment ago. */
export const webhookFailure =
  (slug: string) =>
  (error: ServerError): CliError =>
    error.status === 404
      ? new CliError("CLOUD_NOT_FOUND", `${slug} has no webhook`, {
          server: error,
          hint: `Set one with \`${setExample}\``,
        })
      : fromServerError(error);

/** How an event is told: by one of these words on the command line. */
export const ways = {
  mail: { mail: true, webhook: false },
  webhook: { mail: false, webhook: true },
  both: { mail: true, webhook: true },
  none: { mail: false, webhook: false },
} as const;
export type Way = keyof typeof ways;

const wayOf = (alerts: Alerts, event: AlertEvent): string => {
  const { mail, webhook } = alerts.events[event];
  return mail && webhook ? "mail and webhook" : mail ? "mail" : webhook ? "webhook" : "nothing";
};

/** Settings for a person, and what is wrong now. */
export function alertLines(alerts: Alerts, screen: Screen): string[] {
  const { paint } = screen;
  const rows = alertEvents.map((event) => [event, wayOf(alerts, event)]);
  return [
    ...(alerts.enabled
      ? []
      : [`${paint("yellow", "!")} Alerts are off: nothing is told, whatever is written here`, ""]),
    listing(["EVENT", "TOLD BY"], rows, screen),
    "",
    `Mails go to ${alerts.email ?? "nobody: your address is not confirmed, or this installation sends no mail"}`,
    ...webhookLines(alerts, screen),
    ...alerts.open.map(
      ({ event, subject, since, detail }) =>
        `${paint("red", "✗")} ${event}${subject === "" ? "" : ` (${subject})`} since ${since}: ${detail}`,
    ),
  ];
}

function webhookLines({ webhook }: Alerts, { paint }: Screen): string[] {
  if (webhook === null) return ["There is no webhook. Set one with `svc alerts webhook set <url> --file <new-path>`"];
  const { url, lastDelivery, failingSince, disabledAt } = webhook;
  const told =
    lastDelivery === null
      ? "nothing was sent yet"
      : lastDelivery.ok
        ? `last taken at ${lastDelivery.at}`
        : `failing since ${failingSince ?? lastDelivery.at}: ${lastDelivery.problem ?? ""}`;
  return [
    `The webhook is ${url}, ${told}`,
    ...(disabledAt === null
      ? []
      : [`${paint("red", "✗")} Nothing is sent there since ${disabledAt}. Set it again to begin anew`]),
  ];
}
