import { lockAccess } from "../../../identity/auth/put-out.ts";
import type { Mailer } from "../../../identity/mail/mailer.ts";
import type { Message } from "../../../identity/mail/messages.ts";
import { instanceName } from "../../../settings/instance-name.ts";
import type { Config } from "../../../settings/settings.ts";
import type { DatabaseClock } from "../../../stores/db/clock.ts";
import { databaseClock } from "../../../stores/db/clock.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import { type Allowance, type MonthUse, monthEnd, monthOf, noticeStep } from "./rules.ts";
import { findOwner, type Owner, setTold } from "./store.ts";

/** What is to be told to whom. */
export interface QuotaNotice {
  userId: string;
  /** As `monthOf` says it. */
  month: string;
  level: "near" | "over";
}

export interface NoticeDeps {
  db: Db;
  /** Null: the installation sends no mail. */
  mailer: Mailer | null;
  apiUrl: Config["apiUrl"];
  /** The database's unless given: by another one the month that is told of may be over, or not have begun. */
  clock?: DatabaseClock;
}

/** Work of kind `quota-notice`: tells a user by mail that the month's quota is nearly used up, or that it is. */
export function quotaNoticeWorker({ db, mailer, apiUrl, clock = databaseClock }: NoticeDeps): WorkHandler {
  return async (item) => {
    const { userId, month, level } = item.payload as QuotaNotice;
    const at = await clock(db);
    // An old story helps nobody.
    if (mailer === null || monthOf(at) !== month) return { state: "done" };
    const told = await findTold(db, at, { userId, level });
    if (told === null) return { state: "done" };
    const { email, owner } = told;
    const facts = { instance: instanceName(apiUrl), until: monthEnd(at), allowance: owner.allowance, use: owner.use };
    await mailer.send(email, level === "near" ? nearMessage(facts) : overMessage(facts));
    return { state: "done" };
  };
}

/** Whom to tell, and where. Null: nobody, by now. */
const findTold = (db: Db, at: Date, { userId, level }: Pick<QuotaNotice, "userId" | "level">) =>
  db.transaction().execute(async (tx): Promise<{ email: string; owner: Owner } | null> => {
    const user = await lockAccess(tx, userId);
    const owner = await findOwner(tx, at, userId);
    if (!user?.emailVerified || owner === null) return null;
    const step = noticeStep(owner, level);
    if (step.do === "send") return { email: user.email, owner };
    if (step.told !== owner.told) await setTold(tx, userId, at, step.told);
    return null;
  });

interface NoticeFacts {
  instance: string;
  /** The end of the month. */
  until: Date;
  allowance: Allowance;
  use: MonthUse;
}

const count = (number: number) => number.toLocaleString("en-US");

/** One line for each thing that the plan limits. */
function usedLines({ allowance: { requests, bandwidthMb }, use }: NoticeFacts): string {
  const lines = [
    ...(requests === null ? [] : [`Requests: ${count(use.requests)} of ${count(requests)}`]),
    ...(bandwidthMb === null ? [] : [`Traffic: ${count(Math.round(use.bytes / 2 ** 20))} of ${count(bandwidthMb)} MB`]),
  ];
  return lines.join("\n");
}

const day = (at: Date) => `${at.toISOString().slice(0, 10)}, 00:00 UTC`;

/** Most of the month's quota is used. */
const nearMessage = (facts: NoticeFacts): Message => ({
  subject: `Most of this month's quota on ${facts.instance} is used`,
  text: [
    `Your sites on ${facts.instance} have used more than 80 % of what your plan allows in a month.`,
    usedLines(facts),
    `Once all of it is used they are suspended until ${day(facts.until)}. Ask the administrator for a larger plan if that is too little.`,
    "",
  ].join("\n\n"),
});

/** The quota is used up, and the user's projects are suspended. */
const overMessage = (facts: NoticeFacts): Message => ({
  subject: `Your sites on ${facts.instance} are suspended`,
  text: [
    `Your sites on ${facts.instance} have used all that your plan allows in a month. They are suspended: visitors see a page that says so.`,
    usedLines(facts),
    `They come back by themselves at ${day(facts.until)}, or earlier with a larger plan. An administrator can also resume them.`,
    "",
  ].join("\n\n"),
});
