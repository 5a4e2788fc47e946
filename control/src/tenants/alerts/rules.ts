// @pure
import { type AlertChannel, type AlertEvent, alertChannels, alertEvents } from "@svc/proto";

/** What is said of an event to people, and how much of it has to pass before it is told. */
interface EventRules {
  /** Which channels are told of it unless the owner says otherwise. */
  usual: Record<AlertChannel, boolean>;
  /** How long it has to last before it is told: what mends itself at once is nobody's alert. */
  afterSeconds: number;
  /** How long it has to be over before that is told. */
  calmSeconds: number;
}

const told: Record<AlertChannel, boolean> = { mail: true, webhook: true };
/** For what the platform writes about to the owner in any case, with more than an alert has room for. */
const hasItsOwnMail: Record<AlertChannel, boolean> = { mail: false, webhook: true };

export const eventRules: Readonly<Record<AlertEvent, EventRules>> = {
  deployFailed: { usual: told, afterSeconds: 0, calmSeconds: 0 },
  // A container that falls over once is started again within a second or two.
  siteDown: { usual: told, afterSeconds: 30, calmSeconds: 120 },
  domainFailing: { usual: hasItsOwnMail, afterSeconds: 0, calmSeconds: 0 },
  certificateFailing: { usual: told, afterSeconds: 0, calmSeconds: 0 },
  databaseFailing: { usual: told, afterSeconds: 60, calmSeconds: 60 },
  backupFailed: { usual: told, afterSeconds: 0, calmSeconds: 0 },
  jobFailed: { usual: told, afterSeconds: 0, calmSeconds: 0 },
  jobMissed: { usual: told, afterSeconds: 0, calmSeconds: 0 },
  quotaNear: { usual: hasItsOwnMail, afterSeconds: 0, calmSeconds: 0 },
  suspended: { usual: hasItsOwnMail, afterSeconds: 0, calmSeconds: 0 },
};

/** Whatever began so often within an hour is called over once it has been calm for much longer. */
export const flapping = { begins: 3, withinSeconds: 3600, calmSeconds: 1800 } as const;

/** By event and channel: what differs from what is usual. */
export type Choices = Partial<Record<AlertEvent, Partial<Record<AlertChannel, boolean>>>>;

/** What the owner is told of, and by which channel. */
export function wantedEvents(choices: Choices): Record<AlertEvent, Record<AlertChannel, boolean>> {
  const of = (event: AlertEvent) => ({ ...eventRules[event].usual, ...choices[event] });
  return Object.fromEntries(alertEvents.map((event) => [event, of(event)])) as ReturnType<typeof wantedEvents>;
}

/** The choices after a change of some of them. */
export function changeChoices(known: Choices, change: Choices): Choices {
  const events = alertEvents.filter((event) => known[event] !== undefined || change[event] !== undefined);
  return Object.fromEntries(events.map((event) => [event, { ...known[event], ...change[event] }]));
}

/** By which channels an event is told. */
export function channelsOf(event: AlertEvent, settings: { enabled: boolean; choices: Choices }): AlertChannel[] {
  if (!settings.enabled) return [];
  const wanted = wantedEvents(settings.choices)[event];
  return alertChannels.filter((channel) => wanted[channel]);
}

/** Why this is no address of a webhook; null: it may be one. Where it leads is judged besides, each time. */
export function urlProblem(text: string): string | null {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol))
    return "That is not an address of the web. Write it as https://hooks.example.test/path.";
  if (url.username !== "" || url.password !== "")
    return "Leave the user name and the password out: a receiver knows the platform by its signature.";
  if (url.hash !== "") return "Leave out what is behind the #: it is never sent.";
  return null;
}
