import { z } from "zod";
import { databaseEngines, databaseStatuses } from "../database.ts";
import { channels, deploymentStatuses, suspendReasons } from "../lifecycle.ts";
import { limits } from "../limits.ts";
import { isOneLine } from "../text.ts";
import { databaseProtection, lastProvenRestore } from "./database.ts";
import { databaseChangeKinds } from "./database-change.ts";
import { count, id, replyObject, success, timestamp } from "./envelope.ts";
import { projectListItem } from "./project.ts";
import { moment, wholeNumber } from "./query.ts";

export const userRoles = ["user", "admin"] as const;
export type UserRole = (typeof userRoles)[number];

export const userParams = z.strictObject({ id });

/**
 * A page of users or projects, newest first. Without a limit it is everything, up to `limits.adminListMax`. `q` is a
 * part of a name, a slug or an address, in any case.
 */
export const adminListQuery = z.strictObject({
  limit: wholeNumber(1, limits.adminListMax, limits.adminListMax),
  cursor: z.string().min(1).max(limits.cursorLengthMax).exactOptional(),
  q: z
    .string()
    .min(1)
    .max(limits.adminSearchLengthMax)
    .refine(isOneLine, "contains control characters")
    .exactOptional(),
});
export type AdminListQuery = z.output<typeof adminListQuery>;

/** Goes on where the page ended; null at the end. */
const nextCursor = z.string().nullable();

/**
 * `banned` is true while a ban is in force; one that has run out is none. Projects that are being deleted count no
 * more. `requests30d` of the last 30 days; `diskBytes` in the registry.
 */
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
export const adminUsersReply = success({ users: z.array(adminUser), nextCursor });
export type AdminUsersReply = z.output<typeof adminUsersReply>;
export const deleteUserReply = success({ id: z.string() });

/** Without `expiresInSeconds` the ban lasts until somebody lifts it. A blank reason is none. */
export const banUserInput = z
  .strictObject({
    reason: z.string().max(limits.nodeReasonLengthMax).refine(isOneLine, "contains control characters").exactOptional(),
    expiresInSeconds: z
      .int()
      .min(1)
      .max(10 * 365 * 86_400)
      .exactOptional(),
  })
  .transform(({ reason = "", ...rest }) => ({ ...rest, ...(reason.trim() !== "" && { reason }) }));
export const banUserReply = success({ id: z.string(), banned: z.boolean() });
export const userRoleInput = z.strictObject({ role: z.enum(userRoles) });
export const userRoleReply = success({ id: z.string(), role: z.enum(userRoles) });

export const adminProject = projectListItem.extend({
  ownerId: z.string(),
  ownerEmail: z.string(),
  requests30d: count,
  suspendReason: z.enum(suspendReasons).nullable(),
});
export type AdminProject = z.output<typeof adminProject>;
export const adminProjectsReply = success({ projects: z.array(adminProject), nextCursor });
export const suspendProjectReply = success({ id, queued: z.literal(true), suspended: z.literal(true) });
export const resumeProjectReply = success({ id, queued: z.literal(true) });

/** The database of one channel, as the engine sees it. Numbers that need a look at the engine are null while it is away. */
export const adminDatabase = replyObject({
  id,
  projectId: id,
  projectSlug: z.string(),
  channel: z.enum(channels),
  engine: z.enum(databaseEngines),
  status: z.enum(databaseStatuses),
  ownerId: z.string(),
  ownerEmail: z.string(),
  sizeBytes: count.nullable(),
  connections: count.nullable(),
  dbSizeMb: count,
  dbConnectionLimit: count,
  overLimit: z.boolean(),
  /** Of the machine that has its data; null: none has yet. */
  nodeId: z.string().nullable(),
  /** Nothing that was acknowledged before then is lost with that machine; null: all of it is. */
  coveredAt: timestamp.nullable(),
  generation: count,
  /** What it is on its way to; null: nothing. */
  changing: z.enum(databaseChangeKinds).nullable(),
  protection: databaseProtection,
  /** Everything until then is outside of the site as well; null: nothing is. Additive. */
  offsiteAt: timestamp.nullable().exactOptional(),
  /** The copy that is kept of it; null: none is. `lagSeconds`: since when changes may be missing in it. */
  copy: replyObject({
    nodeId: id.nullable(),
    nodeName: z.string().nullable(),
    state: z.enum(["basing", "following", "broken"]),
    problem: z.string().nullable(),
    coveredAt: timestamp.nullable(),
    lagSeconds: count.nullable(),
  }).nullable(),
  lastProvenRestore,
});
export type AdminDatabase = z.output<typeof adminDatabase>;
export const adminDatabasesReply = success({ databases: z.array(adminDatabase) });

/** What the fleet has to store things on, and what svc stores. Bytes; content that was pushed twice counts once. */
const diskStats = replyObject({
  // Of the nodes that may still speak, as they told it.
  nodes: replyObject({ count, capacityBytes: count, belowFloor: count }),
  registryBytes: count,
  databaseBytes: count,
  logBytes: count,
});

const machines = replyObject({ total: count, connected: count });

/** The installation itself. `uptimeSeconds`, `version` and `nodeVersion` are those of the replica that answers. */
const systemStats = replyObject({
  version: z.string(),
  nodeVersion: z.string(),
  postgresVersion: z.string(),
  uptimeSeconds: count,
  replicas: z.array(replyObject({ id: z.string(), startedAt: timestamp })),
  nodes: machines,
  edges: machines,
  // `oldestSeconds`: how long the oldest item that could be done has waited; 0 when there is none.
  work: replyObject({ queued: count, running: count, failed: count, oldestSeconds: count }),
  // Deletions under way: they wait for nodes and edges that are away.
  deleting: replyObject({ users: count, projects: count }),
  databaseConnections: count,
});

export const statsSchema = replyObject({
  projects: count,
  users: count,
  deployments: replyObject({ total: count, byStatus: z.record(z.enum(deploymentStatuses), count) }),
  requests24h: count,
  // By the plan's slug, also those that nobody has.
  usersByPlan: z.record(z.string(), count),
  // What projects hold in the registry. Source archives are not part of the total.
  projectUsage: replyObject({ staticBytes: count, imageBytes: count, totalBytes: count, sourceBytes: count }),
  disk: diskStats,
  system: systemStats,
});
export type Stats = z.output<typeof statsSchema>;
export const statsReply = success({ stats: statsSchema });

export const seriesQuery = z.strictObject({
  days: wholeNumber(1, limits.adminSeriesDaysMax, limits.adminSeriesDaysDefault),
});
const day = z.iso.date();
/** Days are UTC, oldest first, today among them; days on which nothing happened are left out. */
export const seriesSchema = replyObject({
  days: count,
  signups: z.array(replyObject({ day, count })),
  requests: z.array(replyObject({ day, count, bytesOut: count })),
  deployments: z.array(replyObject({ day, count })),
});
export type Series = z.output<typeof seriesSchema>;
export const seriesReply = success({ series: seriesSchema });

/** `user` is an id or an email address, `action` the beginning of one, `until` the first moment that is left out. */
export const auditQuery = z.strictObject({
  user: z.union([id, z.email().max(limits.emailLengthMax)]).exactOptional(),
  action: z
    .string()
    .regex(/^[a-z][a-z0-9.-]{0,63}$/, "is not the beginning of an action, as in project.delete")
    .exactOptional(),
  target: z
    .string()
    .min(1)
    .max(limits.auditTargetLengthMax)
    .refine(isOneLine, "contains control characters")
    .exactOptional(),
  since: moment.exactOptional(),
  until: moment.exactOptional(),
  limit: wholeNumber(1, limits.auditListMax, limits.auditListDefault),
  cursor: z.string().min(1).max(limits.cursorLengthMax).exactOptional(),
});
export type AuditQuery = z.output<typeof auditQuery>;

/** One line: who did what to what, when, and from where. `userId` null: svc itself, or somebody who was not signed in. */
export const auditEntry = replyObject({
  id: z.string(),
  at: timestamp,
  userId: z.string().nullable(),
  // As it was then.
  userEmail: z.string().nullable(),
  credential: z.enum(["session", "key"]).nullable(),
  tokenId: z.string().nullable(),
  action: z.string(),
  target: z.string().nullable(),
  address: z.string().nullable(),
  requestId: z.string().nullable(),
  detail: z.record(z.string(), z.unknown()),
});
export type AuditEntryView = z.output<typeof auditEntry>;
export const auditReply = success({ entries: z.array(auditEntry), nextCursor });
