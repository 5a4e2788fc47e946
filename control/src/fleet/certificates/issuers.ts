import type { Clock } from "@svc/runtime/clock";
import { version } from "@svc/runtime/version";
import type { AcmeConfig } from "../../settings/settings.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Secrets } from "../../stores/secrets.ts";
import { type AcmeClient, createAcmeClient } from "./acme/client.ts";
import { type AccountKey, createAccountKey, readAccountKey } from "./acme/jws.ts";
import { accountKeyAad } from "./store.ts";

/** A CA, and the account that all replicas have there. */
export interface Issuer {
  client: AcmeClient;
  key: AccountKey;
  /** The account's URL: made when there is none. Throws `AcmeError`. */
  account(signal: AbortSignal): Promise<string>;
  /** The CA says that it does not know the account: the next one who asks makes it again, with the same key. */
  forgetAccount(): Promise<void>;
}

/** By the URL of its directory. */
export type FindIssuer = (directory: string) => Promise<Issuer>;

export function createIssuers(deps: { clock: Clock; db: Db; secrets: Secrets; acme: AcmeConfig }): FindIssuer {
  const opened = new Map<string, Promise<Issuer>>();
  return (directory) => {
    const known = opened.get(directory);
    if (known !== undefined) return known;
    const opening = openIssuer(directory, deps);
    opened.set(directory, opening);
    // What could not be read is tried again.
    opening.catch(() => opened.delete(directory));
    return opening;
  };
}

async function openIssuer(
  directory: string,
  { clock, db, secrets, acme }: { clock: Clock; db: Db; secrets: Secrets; acme: AcmeConfig },
): Promise<Issuer> {
  const key = await accountKey(directory, db, secrets, clock.now());
  const { rootPem, email } = acme;
  const client = createAcmeClient({ clock, directoryUrl: directory, rootPem, key, userAgent: `svc/${version}` });
  const saveUrl = (url: string | null) =>
    db.updateTable("acme_account").set({ url }).where("directory", "=", directory).execute();
  return {
    client,
    key,
    async account(signal) {
      const { url } = await db
        .selectFrom("acme_account")
        .select("url")
        .where("directory", "=", directory)
        .executeTakeFirstOrThrow();
      if (url !== null) return url;
      // Several replicas at once get the same answer: the key says whose account it is.
      const made = await client.register(email, signal);
      await saveUrl(made);
      return made;
    },
    async forgetAccount() {
      await saveUrl(null);
    },
  };
}

/** The one that the first replica made. */
async function accountKey(directory: string, db: Db, secrets: Secrets, now: Date): Promise<AccountKey> {
  const sealed = secrets.seal(Buffer.from(createAccountKey().pem), accountKeyAad(directory));
  await db
    .insertInto("acme_account")
    .values({ directory, key: sealed, created_at: now })
    .onConflict((conflict) => conflict.column("directory").doNothing())
    .execute();
  const { key } = await db
    .selectFrom("acme_account")
    .select("key")
    .where("directory", "=", directory)
    .executeTakeFirstOrThrow();
  return readAccountKey(secrets.open(key, accountKeyAad(directory)).toString("utf8"));
}
