import { z } from "zod";
import { id, replyObject, success, timestamp } from "./envelope.ts";

/** Whether it is an address is judged apart: that has a code of its own. */
export const emailInput = z.strictObject({ email: z.string() });

export const waitlistReply = success({ message: z.string() });

export const waitlistEntry = replyObject({
  email: z.string(),
  createdAt: timestamp,
  /** Null: not yet. */
  invitedAt: timestamp.nullable(),
});
export type WaitlistEntry = z.output<typeof waitlistEntry>;
/** Oldest first. */
export const waitlistEntriesReply = success({ entries: z.array(waitlistEntry) });

/** `inviteCode` is shown this once. `mailed`: the mail server took the invitation; `note` says why not, and is null else. */
export const createInviteReply = success({
  inviteCode: z.string(),
  id: z.string(),
  expiresAt: timestamp,
  mailed: z.boolean(),
  note: z.string().nullable(),
});

export const inviteStates = ["open", "used", "expired"] as const;

export const inviteView = replyObject({
  id: z.string(),
  email: z.string(),
  status: z.enum(inviteStates),
  createdAt: timestamp,
  expiresAt: timestamp,
  usedAt: timestamp.nullable(),
});
export type InviteView = z.output<typeof inviteView>;
/** Newest first. */
export const invitesReply = success({ invites: z.array(inviteView) });

export const inviteParams = z.strictObject({ id });
export const deleteInviteReply = success({ id: z.string() });
