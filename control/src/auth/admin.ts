import { limits } from "@svc/proto";
import type { Auth } from "./auth.ts";

/** An address or password that no account can have. The message says what is wrong. */
export class InvalidAccount extends Error {
  override readonly name = "InvalidAccount";
}

/**
 * Makes sure that `email` is an administrator with this password and a verified address, and returns its
 * id. Repeating it changes nothing but the password; sessions from before a changed password end.
 */
export async function createAdmin(
  auth: Auth,
  { email, password }: { email: string; password: string },
): Promise<string> {
  const address = email.trim().toLowerCase();
  const { accountPasswordLengthMin: min, accountPasswordLengthMax: max, emailLengthMax } = limits;
  if (!/^[^\s@]+@[^\s@]+$/.test(address) || address.length > emailLengthMax)
    throw new InvalidAccount("that is not an email address");
  if (password.length < min || password.length > max)
    throw new InvalidAccount(`the password must have ${min} to ${max} characters`);

  const { internalAdapter, password: passwords } = await auth.$context;
  const fields = { email: address, emailVerified: true, role: "admin" };
  const user =
    (await internalAdapter.findUserByEmail(address))?.user ??
    (await internalAdapter.createUser(
      { ...fields, name: address.slice(0, address.indexOf("@")) },
      { method: "admin" },
    ));
  await internalAdapter.updateUser(user.id, fields);

  const account = await internalAdapter.findCredentialAccount(user.id);
  if (account?.password && (await passwords.verify({ hash: account.password, password }))) return user.id;
  const hash = await passwords.hash(password);
  if (account === null) {
    await internalAdapter.linkAccount({
      userId: user.id,
      providerId: "credential",
      accountId: user.id,
      password: hash,
    });
  } else {
    await internalAdapter.updateAccount(account.id, { password: hash });
    await internalAdapter.deleteUserSessions(user.id);
  }
  return user.id;
}
