import { type ProjectListItem, type Project as ProjectView, siteHost } from "@svc/proto";
import type { Config } from "../../settings/settings.ts";
import type { Project } from "../../stores/db/tables.ts";
import type { ListedProject } from "./store.ts";

type Content = Config["content"];

/** The public address of a host of the content domain. No trailing slash. */
export const hostUrl = (host: string, { scheme, port }: Content): string => `${scheme}://${host}${port}`;

/** The host that serves a project's production channel. */
export const productionHost = (slug: string, { domain }: Content): string =>
  siteHost({ slug, channel: "production" }, domain);

const projectUrl = (slug: string, content: Content): string => hostUrl(productionHost(slug, content), content);

const common = (project: Project, content: Content) => ({
  id: project.id,
  name: project.name,
  slug: project.slug,
  type: project.type,
  url: projectUrl(project.slug, content),
  framework: project.framework,
  repoUrl: project.repo_url,
  repoId: project.repo_id,
  deployMode: project.deploy_mode,
  suspendedAt: project.suspended_at?.toISOString() ?? null,
  suspendReason: project.suspend_reason,
  passwordProtected: project.password_hash !== null,
  createdAt: project.created_at.toISOString(),
  updatedAt: project.updated_at.toISOString(),
});

export const projectView = (project: Project, content: Content): ProjectView => ({
  ...common(project, content),
  productionBranch: project.production_branch,
});

export const projectListView = (project: ListedProject, content: Content): ProjectListItem => ({
  ...common(project, content),
  status: project.status,
  crashing: project.suspended_at === null ? project.crashing : null,
});

/** What the reply to a create carries: the little that is not yet known to who made it. */
export const createdProjectView = (project: Project, content: Content) => ({
  id: project.id,
  name: project.name,
  slug: project.slug,
  url: projectUrl(project.slug, content),
  type: project.type,
  createdAt: project.created_at.toISOString(),
  updatedAt: project.updated_at.toISOString(),
});
