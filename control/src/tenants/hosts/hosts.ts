import { randomBytes } from "node:crypto";
import { siteHost, siteLabel } from "@svc/proto";
import { sql } from "kysely";
import { routeTopic } from "../../fleet/cluster/topics.ts";
import { notify } from "../../stores/db/notify.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment, Project } from "../../stores/db/tables.ts";
import { type HostAddress, sameAddress } from "./address.ts";

const attemptsMax = 5;

/** The project whose names these are; `next_slug` is the one that it is being renamed to. */
export type HostOwner = Pick<Project, "id" | "slug" | "next_slug">;

export interface SiteHost extends HostAddress {
  host: string;
  /** The slug that it was made of. */
  slug: string;
  /** Where visitors are sent; null: the host serves. */
  redirectTo: string | null;
  /** When it is given up; null: not while it serves. */
  redirectUntil: Date | null;
}

/** Every name that is made of a slug of the project, those that redirect included, in the order of names. */
export async function listSiteHosts(db: Db, project: Pick<Project, "id" | "slug">): Promise<SiteHost[]> {
  const rows = await db
    .selectFrom("site_host")
    .select(["host", "channel", "pr_number", "slug", "redirect_to", "redirect_until"])
    .where("project_id", "=", project.id)
    .where("domain_id", "is", null)
    .orderBy("host")
    .execute();
  return rows.map((row) => ({
    host: row.host,
    channel: row.channel,
    prNumber: row.pr_number,
    slug: row.slug ?? project.slug,
    redirectTo: row.redirect_to,
    redirectUntil: row.redirect_until,
  }));
}

/**
 * Every name at which visitors may still reach the channel of `deployment`: also one that redirects, because an edge
 * may not know that yet.
 */
export async function listNames(
  db: Db,
  deployment: Pick<Deployment, "project_id" | "channel" | "pr_number">,
): Promise<string[]> {
  const rows = await db
    .selectFrom("site_host")
    .select("host")
    .where("project_id", "=", deployment.project_id)
    .where("channel", "=", deployment.channel)
    .where("pr_number", "is not distinct from", deployment.pr_number)
    .execute();
  return rows.map(({ host }) => host);
}

/**
 * The host that a channel of a project answers to; claimed on first use and kept. Until a rename takes effect that
 * is the one of the present slug; a channel that has none yet gets only the one that stays. Needs the project locked.
 */
export async function claimHost(
  tx: Db,
  project: HostOwner,
  address: HostAddress,
  contentDomain: string,
): Promise<string> {
  const hosts = await listSiteHosts(tx, project);
  const serving = hosts.filter((host) => sameAddress(host, address) && host.redirectTo === null);
  const existing = serving.find(({ slug }) => slug === project.slug) ?? serving[0];
  return existing?.host ?? claimAmong(tx, project, hosts, project.next_slug ?? project.slug, address, contentDomain);
}

/**
 * The host of a channel under `slug`: one that the project still holds serves again, else a new one is claimed. Names
 * of two projects can meet only among previews, and only where one has a slug from before those were refused ("shop--3"
 * and pull request 3 of "shop"); then the later one gets a suffix. Needs the project locked.
 */
export const claimHostOf = async (
  tx: Db,
  project: HostOwner,
  slug: string,
  address: HostAddress,
  contentDomain: string,
): Promise<string> => claimAmong(tx, project, await listSiteHosts(tx, project), slug, address, contentDomain);

/** `hosts`: all of the project, as `listSiteHosts` has them. */
async function claimAmong(
  tx: Db,
  project: HostOwner,
  hosts: readonly SiteHost[],
  slug: string,
  address: HostAddress,
  contentDomain: string,
): Promise<string> {
  const held = hosts.find((host) => host.slug === slug && sameAddress(host, address));
  if (held !== undefined && (await serveAgain(tx, project, held.host, slug))) return held.host;
  const label = siteLabel({ slug, ...address });
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const suffix = attempt === 0 ? "" : `-${randomBytes(3).toString("hex")}`;
    const host = `${label}${suffix}.${contentDomain}`;
    if (await insertHost(tx, project, host, slug, address)) return host;
  }
  throw new Error(`no free host name for ${label}`);
}

/**
 * Claims the production host of `slug`, and with it the slug: whoever has the one has the other. False when another
 * project has it, also while it only redirects from there. Needs the project locked.
 */
export async function claimSlug(tx: Db, project: HostOwner, slug: string, contentDomain: string): Promise<boolean> {
  const address: HostAddress = { channel: "production", prNumber: null };
  const host = siteHost({ slug, channel: "production" }, contentDomain);
  if (await insertHost(tx, project, host, slug, address)) return true;
  const held = await tx
    .selectFrom("site_host")
    .select("host")
    .where("host", "=", host)
    .where("project_id", "=", project.id)
    .executeTakeFirst();
  if (held === undefined) return false;
  return (await serveAgain(tx, project, host, slug)) || insertHost(tx, project, host, slug, address);
}

/** Whether `slug` may still be given up for another one: it has not been the project's since it was asked for. */
const isOnlyNext = (project: HostOwner, slug: string) => slug === project.next_slug && slug !== project.slug;

async function insertHost(tx: Db, project: HostOwner, host: string, slug: string, address: HostAddress) {
  const claimed = await tx
    .insertInto("site_host")
    .values({
      host,
      project_id: project.id,
      channel: address.channel,
      pr_number: address.prNumber,
      slug,
      for_next_slug: isOnlyNext(project, slug),
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning("host")
    .executeTakeFirst();
  return claimed !== undefined;
}

/** False: it was given up a moment ago, and anybody may have it. */
async function serveAgain(tx: Db, project: HostOwner, host: string, slug: string): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable("site_host")
    .set({
      slug,
      redirect_to: null,
      redirect_until: null,
      redirected_until: isOnlyNext(project, slug) ? sql<Date | null>`coalesce(redirect_until, redirected_until)` : null,
    })
    .where("host", "=", host)
    .where("project_id", "=", project.id)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** Gives up names that have redirected long enough; anybody may have them then. Returns how many. */
export async function releaseRedirects(db: Db): Promise<number> {
  const released = await db.deleteFrom("site_host").where("redirect_until", "<", sql<Date>`now()`).executeTakeFirst();
  if (released.numDeletedRows > 0n) await notify(db, routeTopic);
  return Number(released.numDeletedRows);
}
