import { z } from "zod";
import { deployModes, deploymentStatuses, projectTypes, suspendReasons } from "../lifecycle.ts";
import { limits } from "../limits.ts";
import { checked } from "../manifest.ts";
import { autoSlug, branchProblem, projectNameProblem, slugProblem } from "../names.ts";
import { isOneLine, utf8Length } from "../text.ts";
import { crashing, deploymentListItem } from "./deployment.ts";
import { id, nothingSent, replyObject, success, timestamp } from "./envelope.ts";

/** A slug that somebody chose. */
export const slugSchema = z.string().check(checked(slugProblem));
const slugOrAuto = z.string().check(checked((text) => (text === autoSlug ? null : slugProblem(text))));
const projectName = z.string().check(checked(projectNameProblem)).refine(isOneLine, "contains control characters");

const projectFields = {
  id,
  name: z.string(),
  slug: z.string(),
  type: z.enum(projectTypes),
  url: z.string(),
  legacyUrl: z.string().optional(),
  framework: z.string().nullable(),
  repoUrl: z.string().nullable(),
  repoId: z.string().nullable(),
  deployMode: z.enum(deployModes),
  suspendedAt: timestamp.nullable(),
  suspendReason: z.enum(suspendReasons).nullable(),
  passwordProtected: z.boolean(),
  createdAt: timestamp,
  updatedAt: timestamp,
} as const;

/** `status` is that of the newest deployment; null when there never was one. */
export const projectListItem = replyObject({
  ...projectFields,
  status: z.enum(deploymentStatuses).nullable(),
  // Of what should run of it, production first; null when nothing falls over. Absent from an older control.
  crashing: crashing.nullable().optional(),
});
export type ProjectListItem = z.output<typeof projectListItem>;

export const projectSchema = replyObject({ ...projectFields, productionBranch: z.string() });
export type Project = z.output<typeof projectSchema>;

export const projectListReply = success({ projects: z.array(projectListItem) });
export type ProjectListReply = z.output<typeof projectListReply>;

/** The newest production deployments and the newest dev ones, newest first. */
export const projectDetailReply = success({ project: projectSchema, deployments: z.array(deploymentListItem) });
export type ProjectDetailReply = z.output<typeof projectDetailReply>;

/** `slug` absent or "auto": made from the name. */
export const createProjectInput = z.strictObject({
  name: projectName,
  slug: slugOrAuto.exactOptional(),
  type: z.enum(projectTypes),
});
export type CreateProjectInput = z.output<typeof createProjectInput>;

export const createdProject = replyObject({
  id,
  name: z.string(),
  slug: z.string(),
  url: z.string(),
  legacyUrl: z.string().optional(),
  type: z.enum(projectTypes),
  createdAt: timestamp,
  updatedAt: timestamp,
});
export const createProjectReply = success({ project: createdProject });
export type CreateProjectReply = z.output<typeof createProjectReply>;

export const renameProjectInput = z.strictObject({ slug: slugSchema });
export const renameProjectReply = success({ queued: z.literal(true), newSlug: z.string() });

function repoUrlProblem(text: string): string | null {
  if (/^git@[A-Za-z0-9.-]+:[\w./~-]+$/.test(text)) return null;
  const url = URL.parse(text);
  if (url === null || !/^https:\/\//i.test(text)) return "is not an https:// or git@host:path address";
  if (url.username !== "" || url.password !== "") return "must not carry a user name or password";
  return null;
}

function sitePasswordProblem(text: string): string | null {
  if (text === "") return "is empty; send null to remove the password";
  if (text.includes("\0")) return "contains a NUL character";
  const max = limits.sitePasswordBytesMax;
  return utf8Length(text) > max ? `has more than ${max} bytes` : null;
}

/** At least one field. Null unlinks the repository or removes the password. */
export const patchProjectInput = z
  .strictObject({
    repoUrl: z.string().max(limits.repoUrlLengthMax).check(checked(repoUrlProblem)).nullable().exactOptional(),
    repoId: z
      .string()
      .min(1)
      .max(limits.repoIdLengthMax)
      .refine(isOneLine, "contains control characters")
      .nullable()
      .exactOptional(),
    productionBranch: z.string().check(checked(branchProblem)).exactOptional(),
    deployMode: z.enum(deployModes).exactOptional(),
    password: z.string().check(checked(sitePasswordProblem)).nullable().exactOptional(),
  })
  .refine((body) => Object.keys(body).length > 0, nothingSent);
export type PatchProjectInput = z.output<typeof patchProjectInput>;

export const patchProjectReply = success({ project: projectSchema });
export const deleteProjectReply = success({ id });
