import { randomUUID } from "node:crypto";
import { mkdir, open, rename } from "node:fs/promises";
import { join } from "node:path";
import { createTransport } from "nodemailer";
import type { Config } from "../config.ts";
import type { Message } from "./messages.ts";

/** Delivers mail, or hands it to who does. Rejects when the mail was not accepted. */
export interface Mailer {
  send(to: string, message: Message): Promise<void>;
  close(): void;
}

/** Each step of the conversation with a mail server, and all of it together. */
const smtpTimes = { stepMs: 10_000, totalMs: 20_000 };

/** SMTP when it is configured, else the outbox folder; null when the installation sends no mail at all. */
export function createMailer(
  { from, smtpUrl, outboxDir }: Config["mail"],
  now: () => Date,
  times: typeof smtpTimes = smtpTimes,
): Mailer | null {
  if (smtpUrl !== undefined) return smtpMailer(smtpUrl, from, times);
  return outboxDir === undefined ? null : outboxMailer(outboxDir, from, now);
}

function smtpMailer(url: string, from: string, { stepMs, totalMs }: typeof smtpTimes): Mailer {
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
      const { promise: late, reject } = Promise.withResolvers<never>();
      const timer = setTimeout(() => reject(new Error("the mail server took too long")), totalMs);
      try {
        await Promise.race([sent, late]);
      } finally {
        clearTimeout(timer);
      }
    },
    close: () => transport.close(),
  };
}

/** A password, and links that let somebody in, travel in the clear to a server on this machine at most. */
const needsTls = ({ protocol, hostname }: URL) =>
  protocol !== "smtps:" && !["localhost", "127.0.0.1", "[::1]"].includes(hostname);

/** One JSON file per mail, `{from, to, subject, text, at}`, complete as soon as it is visible under its name. */
function outboxMailer(dir: string, from: string, now: () => Date): Mailer {
  return {
    async send(to, { subject, text }) {
      // Before anything that may take long: the names are in the order of the mails.
      const at = now().toISOString();
      await mkdir(dir, { recursive: true, mode: 0o700 });
      const name = `${at.replaceAll(/[^0-9]/g, "")}-${randomUUID()}.json`;
      const hidden = join(dir, `.${name}.part`);
      await using file = await open(hidden, "wx", 0o600);
      await file.writeFile(`${JSON.stringify({ from, to, subject, text, at }, null, 2)}\n`);
      await file.sync();
      await rename(hidden, join(dir, name));
    },
    close: () => {},
  };
}
