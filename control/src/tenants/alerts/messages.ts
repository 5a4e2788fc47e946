// @pure
import type { AlertEvent } from "@svc/proto";
import type { Message as Mail } from "../../identity/mail/messages.ts";
import type { Message, News } from "./steps.ts";

interface Sentences {
  began(subject: string): string;
  over(subject: string): string;
}

/** What each event is called in a sentence. */
const sentences: Readonly<Record<AlertEvent, Sentences>> = {
  deployFailed: {
    began: (channel) => `A deployment on ${channel} failed`,
    over: (channel) => `A deployment on ${channel} succeeded again`,
  },
  siteDown: {
    began: (channel) => `The app on ${channel} keeps falling over`,
    over: (channel) => `The app on ${channel} runs again`,
  },
  domainFailing: {
    began: (domain) => `The DNS record of ${domain} is gone`,
    over: (domain) => `The DNS record of ${domain} is back`,
  },
  certificateFailing: {
    began: (domain) => `${domain} could not get a certificate`,
    over: (domain) => `${domain} has its certificate`,
  },
  databaseFailing: {
    began: (channel) => `The database of ${channel} does not work`,
    over: (channel) => `The database of ${channel} works again`,
  },
  backupFailed: {
    began: (channel) => `A backup of the database of ${channel} failed`,
    over: (channel) => `A backup of the database of ${channel} succeeded again`,
  },
  jobFailed: {
    began: (job) => `The job ${job} failed`,
    over: (job) => `The job ${job} succeeded again`,
  },
  jobMissed: {
    began: (job) => `The job ${job} was not started in time`,
    over: (job) => `The job ${job} was started in time again`,
  },
  quotaNear: {
    began: () => "Most of the month's quota is used",
    over: () => "There is enough of the month's quota again",
  },
  suspended: {
    began: () => "The project was suspended",
    over: () => "The project is no longer suspended",
  },
};

export interface AlertFacts {
  project: { id: string; slug: string };
  instance: string;
}

const titleOf = ({ what, event, subject }: News): string => sentences[event][what](subject);
const minute = (at: string): string => `${at.slice(0, 16).replace("T", " ")} UTC`;
const lasted = ({ since, until }: News): string =>
  until === null ? `Since ${minute(since)}.` : `From ${minute(since)} to ${minute(until)}.`;
/** What was wrong is of no use once it is over. */
const reasonOf = ({ what, detail }: News): string[] => (what === "began" && detail !== "" ? [detail] : []);
const choose = (slug: string) => `What you are told, and how:\nsvc alerts show --project ${slug}`;

/** A message as the owner reads it in a mail. */
export function mailOf(message: Message, { project: { slug }, instance }: AlertFacts): Mail {
  if (message.kind === "alert") {
    const { news } = message;
    const title = titleOf(news);
    const parts = [`${title}: project ${slug} on ${instance}.`, ...reasonOf(news), lasted(news), choose(slug)];
    return { subject: `${slug}: ${title}`, text: `${parts.join("\n\n")}\n` };
  }
  const { news, more } = message;
  const count = news.length + more;
  const lines = news.map((each) => `- ${[`${titleOf(each)}.`, ...reasonOf(each), lasted(each)].join(" ")}`);
  const rest = more === 0 ? [] : [`And ${more} more.`];
  const parts = [
    `So much happened with project ${slug} on ${instance} that it comes in one mail.`,
    lines.join("\n"),
    ...rest,
    choose(slug),
  ];
  return { subject: `${slug}: ${count} alerts in one mail`, text: `${parts.join("\n\n")}\n` };
}

const dataOf = (news: News) => {
  const { event, subject, since, until, detail } = news;
  return { event, subject, since, until, title: titleOf(news), detail };
};

/** The same as a webhook gets it: the exact text of the body. */
export function bodyOf(message: Message, { project }: Pick<AlertFacts, "project">, at: Date): string {
  const timestamp = at.toISOString();
  if (message.kind === "alert")
    return JSON.stringify({
      type: `alert.${message.news.what}`,
      timestamp,
      data: { project, ...dataOf(message.news) },
    });
  const alerts = message.news.map((news) => ({ type: `alert.${news.what}`, ...dataOf(news) }));
  return JSON.stringify({ type: "alert.digest", timestamp, data: { project, alerts, more: message.more } });
}

/** What a new webhook gets first: whoever set it up sees whether it arrives. */
export const testBody = (project: AlertFacts["project"], at: Date): string =>
  JSON.stringify({ type: "webhook.test", timestamp: at.toISOString(), data: { project } });

/** What of a message is for one channel; null: nothing is. */
export function partFor(message: Message, channel: "mail" | "webhook"): Message | null {
  const isFor = (news: News) => news.channels.includes(channel);
  if (message.kind === "alert") return isFor(message.news) ? message : null;
  const news = message.news.filter(isFor);
  return news.length === 0 ? null : { ...message, news };
}

/** Tells the owner that nothing is sent to the webhook any more. */
export const disabledMail = (
  { project: { slug }, instance }: AlertFacts,
  { host, since }: { host: string; since: Date },
): Mail => ({
  subject: `${slug}: its webhook is not called any more`,
  text: `${[
    `The webhook of project ${slug} on ${instance}, at ${host}, has taken nothing since ${minute(since.toISOString())}. Nothing is sent there any more.`,
    `To begin anew, set its address again:\nsvc alerts webhook set <url> --project ${slug}`,
  ].join("\n\n")}\n`,
});
