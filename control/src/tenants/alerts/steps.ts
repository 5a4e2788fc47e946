// @pure
import { type AlertChannel, type AlertEvent, limits } from "@svc/proto";
import { type Choices, channelsOf, eventRules, flapping } from "./rules.ts";

/** Whether something is wrong, and what its owner knows of it. */
export interface Alert {
  event: AlertEvent;
  subject: string;
  isOn: boolean;
  /** When it last began, or was over. */
  changedAt: Date;
  detail: string;
  /** Since when it has been on, as far as was told; null: nobody was told that it is. */
  toldSince: Date | null;
  /** Of the word that said so last. */
  wordId: number;
  /** How often it was told that it begins, since `beginsSince`. */
  begins: number;
  beginsSince: Date | null;
}

/** What somebody said of it. */
export interface Word {
  event: AlertEvent;
  subject: string;
  isOn: boolean;
  detail: string;
  at: Date;
  /** Rises from one word to the next. */
  id: number;
}

/** One piece of news: that something began, or is over. */
export interface News {
  what: "began" | "over";
  event: AlertEvent;
  subject: string;
  /** When it began. */
  since: string;
  /** When it was over; null: it is not. */
  until: string | null;
  detail: string;
  channels: AlertChannel[];
}

/** What the owner gets in one piece. */
export type Message = { kind: "alert"; news: News } | { kind: "digest"; news: News[]; more: number };

/** How much a project has told within the hour, and what waits for the next digest. */
export interface Pace {
  hourAt: Date | null;
  messages: number;
  waiting: News[];
  /** News that the digest has no room for. */
  more: number;
}

export interface Facts {
  now: Date;
  settings: { enabled: boolean; choices: Choices };
  /** Channels that lead somewhere. */
  reachable: readonly AlertChannel[];
  pace: Pace;
  alerts: readonly Alert[];
}

export interface Look {
  /** Those that are different now. */
  alerts: Alert[];
  pace: Pace;
  messages: Message[];
  /** When the next thing is due if nobody says anything until then; null: nothing is. */
  lookAt: Date | null;
}

const hourMs = 3_600_000;
const after = (at: Date, seconds: number): Date => new Date(at.getTime() + seconds * 1000);
const earliest = (one: Date | null, other: Date): Date => (one === null || other < one ? other : one);

/** What is known after `word`; null: nothing new. One from before the last is an old story. */
export function hear(known: Alert | null, { event, subject, isOn, detail, at, id: wordId }: Word): Alert | null {
  if (known === null) {
    if (!isOn) return null;
    return { event, subject, isOn, changedAt: at, detail, wordId, toldSince: null, begins: 0, beginsSince: null };
  }
  if (wordId <= known.wordId) return null;
  if (isOn === known.isOn) return isOn && detail !== known.detail ? { ...known, detail, wordId } : null;
  // Transactions may end in another order than they began in.
  const changedAt = at < known.changedAt ? known.changedAt : at;
  return { ...known, isOn, changedAt, wordId, detail: isOn ? detail : known.detail };
}

/** Tells what has lasted long enough: each alert once when it begins and once when it is over, and never too much of it. */
export function look({ now, settings, reachable, pace: before, alerts }: Facts): Look {
  const pace = { ...before, waiting: [...before.waiting] };
  const messages: Message[] = [];
  const changed: Alert[] = [];
  let lookAt: Date | null = null;
  const wanted = (event: AlertEvent): AlertChannel[] =>
    channelsOf(event, settings).filter((channel) => reachable.includes(channel));

  if (pace.hourAt === null || now >= after(pace.hourAt, hourMs / 1000)) {
    pace.hourAt = null;
    pace.messages = 0;
    // Whoever wants it in another way by now, or silence, has that.
    const news = pace.waiting
      .map((each) => ({ ...each, channels: each.channels.filter((channel) => wanted(each.event).includes(channel)) }))
      .filter(({ channels }) => channels.length > 0);
    if (news.length > 0) {
      messages.push({ kind: "digest", news, more: pace.more });
      Object.assign(pace, { hourAt: now, messages: 1 });
    }
    Object.assign(pace, { waiting: [], more: 0 });
  }

  const tell = (news: News): void => {
    if (news.channels.length === 0) return;
    pace.hourAt ??= now;
    if (pace.messages < limits.alertMessagesPerHour) {
      pace.messages += 1;
      messages.push({ kind: "alert", news });
    } else if (pace.waiting.length < limits.alertDigestLinesMax) pace.waiting.push(news);
    else pace.more += 1;
  };

  for (const alert of alerts.toSorted((one, other) => one.changedAt.getTime() - other.changedAt.getTime())) {
    const dueAt = dueOf(alert, now);
    if (dueAt === null) continue;
    if (dueAt > now) {
      lookAt = earliest(lookAt, dueAt);
      continue;
    }
    changed.push(alert.isOn ? begun(alert) : { ...alert, toldSince: null });
    tell(newsOf(alert, wanted(alert.event)));
  }
  if (pace.waiting.length > 0 && pace.hourAt !== null) lookAt = earliest(lookAt, after(pace.hourAt, hourMs / 1000));
  return { alerts: changed, pace, messages, lookAt };
}

/** When the owner is to be told that it began, or is over; null: they know all there is. */
function dueOf({ event, isOn, changedAt, toldSince, begins, beginsSince }: Alert, now: Date): Date | null {
  const { afterSeconds, calmSeconds } = eventRules[event];
  if (isOn) return toldSince === null ? after(changedAt, afterSeconds) : null;
  if (toldSince === null) return null;
  const isFlapping =
    begins >= flapping.begins && beginsSince !== null && now < after(beginsSince, flapping.withinSeconds * 2);
  return after(changedAt, isFlapping ? Math.max(calmSeconds, flapping.calmSeconds) : calmSeconds);
}

/** The alert once its begin is told. */
function begun(alert: Alert): Alert {
  const { changedAt, begins, beginsSince } = alert;
  const isCounted = beginsSince !== null && changedAt < after(beginsSince, flapping.withinSeconds);
  return {
    ...alert,
    toldSince: changedAt,
    ...(isCounted ? { begins: begins + 1 } : { begins: 1, beginsSince: changedAt }),
  };
}

const newsOf = ({ event, subject, isOn, changedAt, toldSince, detail }: Alert, channels: AlertChannel[]): News => ({
  what: isOn ? "began" : "over",
  event,
  subject,
  since: (toldSince ?? changedAt).toISOString(),
  until: isOn ? null : changedAt.toISOString(),
  detail,
  channels,
});

/** Pauses between the tries of one delivery. */
const pausesSeconds = [10, 60, 300, 1_800, 7_200, 21_600, 50_400] as const;

export interface Try {
  now: Date;
  /** How many were made, this one included. */
  tries: number;
  /** Null: there was no answer. */
  status: number | null;
  failingSince: Date | null;
}

export interface TryEnd {
  ok: boolean;
  /** Null: the delivery has ended, well or badly. */
  againAfterMs: number | null;
  failingSince: Date | null;
  /** Whether nothing is to be sent there any more. */
  disables: boolean;
}

const gone = 410;

/** What follows from one try. Any 2xx is yes; 410 says that nobody is to come again. */
export function afterTry({ now, tries, status, failingSince: before }: Try): TryEnd {
  if (status !== null && status >= 200 && status < 300)
    return { ok: true, againAfterMs: null, failingSince: null, disables: false };
  const failingSince = before ?? now;
  const pause = tries < limits.webhookTriesMax ? pausesSeconds[tries - 1] : undefined;
  const isOver = pause === undefined;
  const isLong = now >= after(failingSince, limits.webhookFailingDaysMax * 86_400);
  return {
    ok: false,
    againAfterMs: isOver || status === gone ? null : pause * 1000,
    failingSince,
    disables: status === gone || (isOver && isLong),
  };
}
