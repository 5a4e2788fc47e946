import { limits } from "@svc/proto";
import type { Db } from "../db/pool.ts";
import type { Log } from "../log.ts";
import { linkDevice } from "./known-device.ts";
import { mayLink } from "./throttle.ts";

export interface SignInLinkParts {
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

export function createSignInLinks({ db, secret, send, apiUrl, log }: SignInLinkParts): SignInLinks {
  async function mail(user: { id: string; email: string }): Promise<void> {
    if (!(await mayLink(db, user.id))) return;
    const link = linkDevice(secret, user.email, Date.now() + validMs);
    send(user.email, `${apiUrl}/sign-in?link=${link}`);
  }

  return {
    async offer(email, password, passwords) {
      const given = password.slice(0, limits.accountPasswordLengthMax + 1);
      const user = await findUser(db, email);
      if (user === undefined || user.password === null) {
        await passwords.hash(given);
      } else if (await passwords.verify({ hash: user.password, password: given })) {
        // Not waited for: the answer must not take longer for it.
        mail(user).catch((error: unknown) => log.error({ err: error }, "a link to sign in was not sent"));
      }
    },
  };
}

/** In one query, whether or not there is an account, and whether or not it has a password. */
const findUser = (db: Db, email: string) =>
  db
    .selectFrom("auth.user")
    .leftJoin("auth.account", (join) =>
      join.onRef("auth.account.userId", "=", "auth.user.id").on("auth.account.providerId", "=", "credential"),
    )
    .select(["auth.user.id", "auth.user.email", "auth.account.password"])
    .where("auth.user.email", "=", email.toLowerCase())
    .executeTakeFirst();
