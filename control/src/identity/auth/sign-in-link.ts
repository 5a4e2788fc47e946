import { limits } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import { type DeviceAccount, linkDevice } from "./known-device.ts";
import { findUserWithPassword } from "./password-store.ts";
import { mayLink } from "./throttle.ts";

export interface SignInLinkParts {
  clock: Clock;
  db: Db;
  secret: string;
  /** Mails the link's address to the owner; after the answer. */
  send: (email: string, url: string) => void;
  apiUrl: string;
  log: Log;
}

interface Passwords {
  hash(password: string): Promise<string>;
  verify(given: { hash: string; password: string }): Promise<boolean>;
}

/** The way in for the right password while others guess: a link that goes to the account's mailbox, and nowhere else. */
export interface SignInLinks {
  /**
   * Looks at a password that gets no answer. The caller learns nothing: neither what is returned nor how long it takes
   * tells whether it was right, or whether there is such an account.
   */
  offer(email: string, password: string, passwords: Passwords): Promise<void>;
}

const validMs = 3_600_000;

export function createSignInLinks({ clock, db, secret, send, apiUrl, log }: SignInLinkParts): SignInLinks {
  async function mail(userId: string, account: DeviceAccount): Promise<void> {
    if (!(await mayLink(db, userId))) return;
    const link = linkDevice(secret, account, clock.now().getTime() + validMs);
    send(account.email, `${apiUrl}/sign-in?link=${link}`);
  }

  return {
    async offer(email, password, passwords) {
      const given = password.slice(0, limits.accountPasswordLengthMax + 1);
      const user = await findUserWithPassword(db, email);
      if (user === null || user.password === null) {
        await passwords.hash(given);
      } else if (await passwords.verify({ hash: user.password, password: given })) {
        // Not waited for: the answer must not take longer for it.
        mail(user.id, { email: user.email, password: user.password }).catch((error: unknown) =>
          log.error({ err: error }, "a link to sign in was not sent"),
        );
      }
    },
  };
}
