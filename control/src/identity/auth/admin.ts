import { emailAddress } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Auth } from "./auth.ts";
import { hashOf } from "./hash-of.ts";
import { passwordAdvice, passwordProblem } from "./password.ts";
import { findPasswordHash, storePasswordHash } from "./password-store.ts";
import { lockAccess, takeOver } from "./put-out.ts";

/** An address or password that no account can have. The message says what is wrong. */
export class InvalidAccount extends Error {
  override readonly name = "InvalidAccount";
}

interface Parts {
  db: Db;
  auth: Auth;
}

interface Credentials {
  email: string;
  password: string;
}

/** As they are stored. Throws `InvalidAccount`. */
function checked({ email, password }: Credentials): Credentials {
  const address = emailAddress(email.trim());
  if (address === null) throw new InvalidAccount("That is not an email address.");
  const problem = passwordProblem(password, address);
  if (problem !== null) throw new InvalidAccount(passwordAdvice[problem]);
  return { email: address, password };
}

/**
 * Makes an administrator with a verified address, in the transaction `tx`, and returns its id. Null: the address has an
 * account, which stays as it is. Throws `InvalidAccount`.
 */
export async function addAdmin(tx: Db, auth: Auth, credentials: Credentials): Promise<string | null> {
  const { email, password } = checked(credentials);
  const hash = await hashOf(auth, password);
  const { rows } = await sql<{ id: string }>`
    insert into auth."user" (name, email, "emailVerified", role, banned)
    values (${email.slice(0, email.indexOf("@"))}, ${email}, true, 'admin', false)
    on conflict (email) do nothing returning id`.execute(tx);
  const id = rows[0]?.id;
  if (id === undefined) return null;
  await storePasswordHash(tx, id, hash);
  return id;
}

/**
 * Makes sure that `email` is an administrator with this password and a verified address, and returns its id. Repeating
 * it changes nothing. Anybody may have made an account with that address before: unless it is just such an
 * administrator already, nothing opens it afterwards but the password. Throws `InvalidAccount`.
 */
export async function createAdmin({ db, auth }: Parts, credentials: Credentials): Promise<string> {
  const { email, password } = checked(credentials);
  return db.transaction().execute(async (tx) => {
    const added = await addAdmin(tx, auth, credentials);
    if (added !== null) return added;
    const { id } = await tx.selectFrom("auth.user").select("id").where("email", "=", email).executeTakeFirstOrThrow();
    const user = await lockAccess(tx, id);
    if (user === null) throw new InvalidAccount("The account with that address is just being deleted. Try again.");
    const isAdmin = (user.role ?? "").split(",").includes("admin");
    const known = isAdmin && user.emailVerified ? await findPasswordHash(tx, id) : null;
    const { password: passwords } = await auth.$context;
    if (known !== null && (await passwords.verify({ hash: known, password }))) return id;
    await takeOver(tx, id);
    await tx.updateTable("auth.user").set({ role: "admin", emailVerified: true }).where("id", "=", id).execute();
    await storePasswordHash(tx, id, await hashOf(auth, password));
    return id;
  });
}
