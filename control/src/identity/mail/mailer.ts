import { join } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import { writeDurably } from "@svc/runtime/durable-file";
import type { Random } from "@svc/runtime/random";
import { createTransport } from "nodemailer";
import type { Config } from "../../settings/settings.ts";
import type { Message } from "./messages.ts";

/** Delivers mail, or hands it to who does. Rejects when the mail was not accepted. */
export interface Mailer {
  send(to: string, message: Message): Promise<void>;
  close(): void;
}

/** Each step of the conversation with a mail server, and all of it together. */
const smtpTimes = { stepMs: 10_000, totalMs: 20_000 };

interface MailerParts {
  clock: Clock;
  random: Random;
}

/** SMTP when it is configured, else the outbox folder; null when the installation sends no mail at all. */
export function createMailer(
  parts: MailerParts,
  { from, smtpUrl, outboxDir }: Config["mail"],
  times: typeof smtpTimes = smtpTimes,
): Mailer | null {
  if (smtpUrl !== undefined) return smtpMailer(parts.clock, smtpUrl, from, times);
  return outboxDir === undefined ? null : outboxMailer(parts, outboxDir, from);
}

function smtpMailer(clock: Clock, url: string, from: string, { stepMs, totalMs }: typeof smtpTimes): Mailer {
  const transport = createTransport({
    url,
    connectionTimeout: stepMs,
    greetingTimeout: stepMs,
    socketTimeout: stepMs,
    dnsTimeout: stepMs,
    requireTLS: needsTls(new URL(url)),
    // Nothing of a message is a path or an address to fetch.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  return {
    async send(to, { subject, text }) {
      // The name-only form keeps a crafted address from adding recipients.
      const sent = transport.sendMail({ from, to: { name: "", address: to }, subject, text });
      await within(clock, totalMs, sent, () => {
        throw new Error("the mail server took too long");
      });
    },
    close: () => transport.close(),
  };
}

/** A password, and links that let somebody in, travel in the clear to a server on this machine at most. */
const needsTls = ({ protocol, hostname }: URL) =>
  protocol !== "smtps:" && !["localhost", "127.0.0.1", "[::1]"].includes(hostname);

/** One JSON file per mail, `{from, to, subject, text, at}`, complete as soon as it is visible under its name. */
function outboxMailer({ clock, random }: MailerParts, dir: string, from: string): Mailer {
  return {
    async send(to, { subject, text }) {
      // Before anything that may take long: the names are in the order of the mails.
      const at = clock.now().toISOString();
      const name = `${at.replaceAll(/[^0-9]/g, "")}-${random.uuid()}.json`;
      await writeDurably(join(dir, name), `${JSON.stringify({ from, to, subject, text, at }, null, 2)}\n`);
    },
    close: () => {},
  };
}
