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

const smtpTimeoutMs = 15_000;

/** SMTP when it is configured, else the outbox folder; null when the installation sends no mail at all. */
export function createMailer({ from, smtpUrl, outboxDir }: Config["mail"], now: () => Date): Mailer | null {
  if (smtpUrl !== undefined) return smtpMailer(smtpUrl, from);
  return outboxDir === undefined ? null : outboxMailer(outboxDir, from, now);
}

function smtpMailer(url: string, from: string): Mailer {
  const transport = createTransport(url, {
    from,
    // Nothing of a message is a path or an address to fetch.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  return {
    async send(to, { subject, text }) {
      // The name-only form keeps a crafted address from adding recipients.
      const sent = transport.sendMail({ from, to: { name: "", address: to }, subject, text });
      const timeout = AbortSignal.timeout(smtpTimeoutMs);
      await Promise.race([
        sent,
        new Promise((_, reject) => timeout.addEventListener("abort", () => reject(timeout.reason))),
      ]);
    },
    close: () => transport.close(),
  };
}

/** One JSON file per mail, `{from, to, subject, text, at}`, complete as soon as it is visible under its name. */
function outboxMailer(dir: string, from: string, now: () => Date): Mailer {
  return {
    async send(to, { subject, text }) {
      await mkdir(dir, { recursive: true, mode: 0o700 });
      const at = now().toISOString();
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
