import { emailAddress } from "@svc/proto";
import { getOAuthState } from "better-auth/api";
import type { Config } from "../../settings/settings.ts";
import type { Db } from "../../stores/db/pool.ts";
import { hashCode, isCode } from "../invites/code.ts";
import { claimInvite, isOpenInvite } from "../invites/store.ts";
import type { AuthCall } from "./trail.ts";

/** Why an account is not made. */
export type EntryRefusal = "SIGNUP_CLOSED" | "INVITE_INVALID" | "INVALID_EMAIL";

/** Where a sign-up through the Git host keeps the hash of its invitation while the person is away. */
export const invitedKey = "invited";

/** The hash of the invitation that a call brings: in its body, or in what was kept when it was sent to the Git host. */
async function presentedInvite(call: AuthCall): Promise<Buffer | null> {
  if (call.path === "/callback/:id") {
    const kept = (await getOAuthState())?.[invitedKey];
    return typeof kept === "string" && /^[\w-]{43}$/.test(kept) ? Buffer.from(kept, "base64url") : null;
  }
  const { inviteCode } = Object(call.body) as { inviteCode?: unknown };
  return typeof inviteCode === "string" && isCode(inviteCode) ? hashCode(inviteCode) : null;
}

/** Before anything is looked up, so that only who holds an invitation could learn anything. Null: go on. */
export async function refuseEntry(
  { db, signup }: { db: Db; signup: Config["signup"] },
  call: AuthCall,
  email: string,
): Promise<EntryRefusal | null> {
  if (signup === "open") return null;
  if (signup === "closed") return "SIGNUP_CLOSED";
  const hash = await presentedInvite(call);
  return hash !== null && (await isOpenInvite(db, hash, email)) ? null : "INVITE_INVALID";
}

/**
 * The moment before an account is made, by whatever way: looks at the address, which may come from the Git host, and
 * takes the invitation, of which there is one. `invited` says that the address was vouched for by whoever sent the
 * invitation.
 */
export async function takeEntry(
  { db, signup }: { db: Db; signup: Config["signup"] },
  call: AuthCall,
  email: string,
): Promise<EntryRefusal | { invited: boolean }> {
  if (signup === "closed") return "SIGNUP_CLOSED";
  if (emailAddress(email) === null) return "INVALID_EMAIL";
  const hash = await presentedInvite(call);
  const inviteId = hash === null ? null : await claimInvite(db, hash, email);
  if (inviteId === null && signup === "invite") return "INVITE_INVALID";
  return { invited: inviteId !== null };
}
