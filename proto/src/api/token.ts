import { z } from "zod";
import { limits } from "../limits.ts";
import { checked } from "../manifest.ts";
import { allScopes, ciDeployProblem, type Scope } from "../scopes.ts";
import { id, replyObject, success, timestamp } from "./envelope.ts";
import { displayName } from "./name.ts";

const unique = <T>(items: readonly T[]): boolean => new Set(items).size === items.length;

/**
 * `scopes` absent: full access. `projectIds` absent: every project. Whether `expiresIn` (seconds) lies between
 * 1 and 365 days is checked apart, because that failure has its own code (TOKEN_CREATE_FAILED).
 */
export const createTokenInput = z
  .strictObject({
    name: displayName(limits.tokenNameLengthMax),
    expiresIn: z.int().exactOptional(),
    scopes: z
      .array(z.enum(allScopes))
      .min(1)
      .max(allScopes.length)
      .refine(unique, "names a scope twice")
      .exactOptional(),
    projectIds: z.array(id).min(1).max(limits.tokenProjectsMax).refine(unique, "names a project twice").exactOptional(),
  })
  .check(
    checked(({ scopes, projectIds }: { scopes?: Scope[]; projectIds?: string[] }) =>
      ciDeployProblem(scopes ?? [], projectIds ?? null),
    ),
  );
export type CreateTokenInput = z.output<typeof createTokenInput>;

/** Whether a key may live for `seconds`. */
export const isTokenExpiry = (seconds: number): boolean =>
  seconds >= limits.tokenExpirySecondsMin && seconds <= limits.tokenExpirySecondsMax;

const tokenFields = {
  id,
  name: z.string(),
  start: z.string(),
  scopes: z.array(z.enum(allScopes)).nullable(),
  projectIds: z.array(id).nullable(),
  expiresAt: timestamp.nullable(),
  createdAt: timestamp,
} as const;

/** `key` is in this reply and nowhere else, ever. It begins with `start`. */
export const createdToken = replyObject({ ...tokenFields, key: z.string() });
export const createTokenReply = success({ token: createdToken });
export type CreateTokenReply = z.output<typeof createTokenReply>;

export const tokenListItem = replyObject({ ...tokenFields, lastUsedAt: timestamp.nullable() });
export const tokenListReply = success({ tokens: z.array(tokenListItem) });
export type TokenListReply = z.output<typeof tokenListReply>;

export const deleteTokenReply = success({ id });
