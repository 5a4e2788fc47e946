import { type AdminUser, adminUsersReply } from "@svc/proto";
import type { Api } from "./api.ts";
import { CliError } from "./errors.ts";

/** The account with that id or email address. CLOUD_NOT_FOUND when there is none. */
export async function getAccount(api: Api, named: string): Promise<AdminUser> {
  const { users } = await api.get("/admin/users", adminUsersReply);
  const wanted = named.toLowerCase();
  const found = users.find(({ id, email }) => id === wanted || email.toLowerCase() === wanted);
  if (found !== undefined) return found;
  throw new CliError("CLOUD_NOT_FOUND", `There is no account "${named}"`, {
    hint: "See them with `svc admin users list`",
  });
}

/** What envelopes say about an account. */
export const accountFacts = ({ id, email }: AdminUser) => ({ id, email });
