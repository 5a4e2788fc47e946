import { z } from "zod";
import { suspendReasons } from "../lifecycle.ts";
import { limits } from "../limits.ts";
import { isOneLine } from "../text.ts";
import { count, id, replyObject, success, timestamp } from "./envelope.ts";
import { projectListItem } from "./project.ts";

export const userRoles = ["user", "admin"] as const;
export type UserRole = (typeof userRoles)[number];

export const userParams = z.strictObject({ id });

export const adminUser = replyObject({
  id: z.string(),
  email: z.string(),
  name: z.string(),
  role: z.enum(userRoles),
  plan: z.string(),
  emailVerified: z.boolean(),
  banned: z.boolean(),
  banReason: z.string().nullable(),
  banExpiresAt: timestamp.nullable(),
  projects: count,
  suspendedProjects: count,
  requests30d: count,
  diskBytes: count,
  createdAt: timestamp,
});
export type AdminUser = z.output<typeof adminUser>;
export const adminUsersReply = success({ users: z.array(adminUser) });

export const deleteUserReply = success({ id: z.string() });

export const banUserInput = z.strictObject({
  reason: z
    .string()
    .min(1)
    .max(limits.nodeReasonLengthMax)
    .refine(isOneLine, "contains control characters")
    .exactOptional(),
  expiresInSeconds: z
    .int()
    .min(60)
    .max(10 * 365 * 86_400)
    .exactOptional(),
});
export const banUserReply = success({ id: z.string(), banned: z.boolean() });
export const userRoleInput = z.strictObject({ role: z.enum(userRoles) });
export const userRoleReply = success({ id: z.string(), role: z.enum(userRoles) });

export const adminProject = projectListItem.extend({
  ownerEmail: z.string(),
  requests30d: count,
  suspendReason: z.enum(suspendReasons).nullable(),
});
export type AdminProject = z.output<typeof adminProject>;
export const adminProjectsReply = success({ projects: z.array(adminProject) });
export const suspendProjectReply = success({ id, queued: z.literal(true), suspended: z.literal(true) });
export const resumeProjectReply = success({ id, queued: z.literal(true) });
