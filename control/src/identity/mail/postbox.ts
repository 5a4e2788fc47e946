import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import type { Log } from "../../log.ts";
import type { Mailer } from "./mailer.ts";
import type { Message } from "./messages.ts";

/**
 * Sends mails after the request that asked for them was answered: how long an answer takes must not tell whether there
 * was anybody to write to. What could not be sent, or was still waiting when the process died, is asked for again by
 * the person who misses it. Disposing it waits for what is under way.
 */
export interface Postbox extends AsyncDisposable {
  post(to: string, message: Message): void;
}

const waitingMax = 1000;
const atOnceMax = 4;
const closeTimeoutMs = 5_000;

export function createPostbox(clock: Clock, mailer: Mailer | null, log: Log): Postbox {
  const waiting: { to: string; message: Message }[] = [];
  const underWay = new Set<Promise<void>>();

  function next(): void {
    if (mailer === null || underWay.size >= atOnceMax) return;
    const mail = waiting.shift();
    if (mail === undefined) return;
    const sending: Promise<void> = mailer
      .send(mail.to, mail.message)
      .catch((error: unknown) => log.error({ err: error }, "mail was not delivered"))
      .finally(() => {
        underWay.delete(sending);
        next();
      });
    underWay.add(sending);
  }

  return {
    post(to, message) {
      if (mailer === null) return;
      if (waiting.length >= waitingMax) {
        log.error({ waiting: waiting.length }, "too many mails wait; one was dropped");
        return;
      }
      waiting.push({ to, message });
      next();
    },
    async [Symbol.asyncDispose]() {
      const done = async () => {
        while (underWay.size > 0) await Promise.race(underWay);
      };
      await within(clock, closeTimeoutMs, done(), () => {});
      if (underWay.size + waiting.length > 0)
        log.warn({ mails: underWay.size + waiting.length }, "mails were not sent before the end");
    },
  };
}
