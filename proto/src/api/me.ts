import { z } from "zod";
import { limits } from "../limits.ts";
import { allScopes } from "../scopes.ts";
import { id, replyObject, success } from "./envelope.ts";

/** `plan` is the plan's slug. */
export const userSchema = replyObject({ id: z.string(), email: z.string(), name: z.string(), plan: z.string() });
export type User = z.output<typeof userSchema>;

/** `scopes` null: full access. `projectIds` null: every project; else sorted. */
export const meReply = success({
  user: userSchema,
  scopes: z.array(z.enum(allScopes)).nullable(),
  projectIds: z.array(id).nullable(),
});
export type MeReply = z.output<typeof meReply>;

export const accountReply = success({
  hasPassword: z.boolean(),
  emailVerified: z.boolean(),
  linkedProviders: z.array(z.string()),
});
export type AccountReply = z.output<typeof accountReply>;

export const setPasswordInput = z.strictObject({
  newPassword: z.string().min(limits.accountPasswordLengthMin).max(limits.accountPasswordLengthMax),
});

/** A success with nothing to say. */
export const okReply = success({});
