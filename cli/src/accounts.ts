import type { AdminUser } from "@svc/proto";
import { findAccount } from "./admin-pages.ts";
import type { Api } from "./api.ts";
import { CliError } from "./errors.ts";
import { isId } from "./ids.ts";

/** The account with that id or email address. CLOUD_NOT_FOUND when there is none. */
export async function getAccount(api: Api, named: string): Promise<AdminUser> {
  const wanted = named.toLowerCase();
  // The search knows names and addresses; of an id one also wants to be told whose it is.
  const found = await findAccount(
    api,
    isId(named) ? null : named,
    ({ id, email }) => id === wanted || email.toLowerCase() === wanted,
  );
  if (found !== null) return found;
  throw new CliError("CLOUD_NOT_FOUND", `There is no account "${named}"`, {
    hint: "See them with `svc admin users list`",
  });
}

/** What envelopes say about an account. */
export const accountFacts = ({ id, email }: AdminUser) => ({ id, email });
