import { routeTopic } from "../../fleet/cluster/topics.ts";
import type { Config } from "../../settings/settings.ts";
import { notify } from "../../stores/db/notify.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Project } from "../../stores/db/tables.ts";
import { Refused } from "../../stores/refused.ts";
import { wakeWork } from "../../stores/work/wake.ts";
import { claimSlug, listSiteHosts } from "../hosts/hosts.ts";
import { updateProject } from "../projects/store.ts";
import { refuseSuspended } from "../projects/suspended.ts";
import { giveUpSlug } from "./give-up.ts";
import { formerSlugsProblem } from "./rules.ts";

/**
 * Begins the rename of `project`, whose row the caller has locked, and holds the new slug for it. Asked again while
 * it is under way, the same goes on; another slug takes over from the one before, also the present one, which takes
 * the rename back, and what was given up is given back at once. False when there was nothing to begin because the very
 * same is under way. Throws SUSPENDED, VALIDATION, SLUG_CONFLICT and QUOTA_EXCEEDED.
 */
export async function requestRename(
  tx: Db,
  project: Project,
  slug: string,
  { content, now }: { content: Config["content"]; now: Date },
): Promise<boolean> {
  refuseSuspended(project);
  if (project.next_slug === slug) {
    await wakeRename(tx, project.id);
    return false;
  }
  if (project.slug === slug && project.next_slug === null) {
    throw new Refused("VALIDATION", `The project's slug is "${slug}" already.`);
  }
  if (await isSlugOfAnother(tx, project.id, slug)) throw new Refused("SLUG_CONFLICT");
  const next = { ...project, next_slug: slug };
  if (project.next_slug !== null && project.next_slug !== project.slug)
    await giveUpSlug(tx, next, project.next_slug, content);
  const problem = formerSlugsProblem(await listSiteHosts(tx, project), { present: project.slug, slug, now });
  if (problem !== null) throw new Refused("QUOTA_EXCEEDED", problem);
  if (!(await claimSlug(tx, next, slug, content.domain))) throw new Refused("SLUG_CONFLICT");
  await updateProject(tx, project.id, { next_slug: slug, next_slug_at: now });
  await wakeRename(tx, project.id);
  await notify(tx, routeTopic, project.id);
  return true;
}

async function isSlugOfAnother(tx: Db, projectId: string, slug: string): Promise<boolean> {
  const other = await tx
    .selectFrom("project")
    .select("id")
    .where("slug", "=", slug)
    .where("id", "!=", projectId)
    .executeTakeFirst();
  return other !== undefined;
}

/**
 * Renames have a key of their own: a build that takes a quarter of an hour must not hold them up, and the project's
 * row orders both.
 */
const renameKey = (projectId: string) => `rename/${projectId}`;

/** Makes sure that a worker looks at the project's rename after this transaction. */
const wakeRename = (tx: Db, projectId: string): Promise<void> =>
  wakeWork(tx, { kind: "rename", key: renameKey(projectId), payload: { projectId } });
