import { sql } from "kysely";
import { routeTopic } from "../../fleet/cluster/topics.ts";
import { notify } from "../../stores/db/notify.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Domain, DomainChange, NewDomain } from "../../stores/db/tables.ts";
import { wakeWork } from "../../stores/work/wake.ts";
import { type CustomHost, concernedNames, hostsOf, type ProvenDomain } from "./rules.ts";
import type { Verdict } from "./steps.ts";

/** Work of this kind looks at what DNS says of a domain. */
export const domainWork = "domain";

export interface DomainLook {
  domainId: string;
}

/** By name. */
export const listDomains = (db: Db, projectId: string): Promise<Domain[]> =>
  db.selectFrom("custom_domain").selectAll().where("project_id", "=", projectId).orderBy("domain").execute();

/** `lock` keeps it as it is until the transaction ends. */
export async function findDomain(
  db: Db,
  { projectId, domainId }: { projectId: string; domainId: string },
  { lock = false } = {},
): Promise<Domain | null> {
  const row = await db
    .selectFrom("custom_domain")
    .selectAll()
    .where("id", "=", domainId)
    .where("project_id", "=", projectId)
    .$if(lock, (query) => query.forUpdate())
    .executeTakeFirst();
  return row ?? null;
}

export const insertDomain = (tx: Db, values: NewDomain): Promise<Domain> =>
  tx.insertInto("custom_domain").values(values).returningAll().executeTakeFirstOrThrow();

/**
 * Decides about names one after another, whoever claims them, until the transaction ends. After the projects' locks, and of
 * several names in their order.
 */
export async function lockNames(tx: Db, domains: readonly string[]): Promise<void> {
  const names = [...new Set(domains.flatMap(concernedNames))].toSorted();
  if (names.length === 0) return;
  // One after another in this order, which Postgres keeps for rows that are sorted before anything is done with them.
  await sql`
    select pg_advisory_xact_lock(hashtextextended('custom domain ' || name, 0))
    from (select name from unnest(${names}::text[]) with ordinality as listed (name, place) order by place offset 0)
      as ordered`.execute(tx);
}

/** Who claims a name. Exact while it is locked. */
export const listClaims = (
  tx: Db,
  domain: string,
): Promise<(Pick<Domain, "project_id" | "status" | "failing_since"> & { owner_id: string })[]> =>
  tx
    .selectFrom("custom_domain")
    .innerJoin("project", "project.id", "custom_domain.project_id")
    .select(["project_id", "owner_id", "status", "failing_since"])
    .where("domain", "=", domain)
    .execute();

/** How often looks at domains of the project were asked for in the last minute. */
export async function countLooks(tx: Db, projectId: string, action: string): Promise<number> {
  const { count } = await tx
    .selectFrom("audit")
    .select((audit) => audit.fn.countAll<number>().as("count"))
    .where("target", "=", projectId)
    .where("action", "=", action)
    .where("at", ">", sql<Date>`clock_timestamp() - interval '1 minute'`)
    .executeTakeFirstOrThrow();
  return count;
}

/** Has a worker look at once. */
export const lookNow = (tx: Db, domainId: string): Promise<void> =>
  wakeWork(tx, { kind: domainWork, key: keyOf(domainId), payload: { domainId } satisfies DomainLook });

/** Has a worker look `at` then, unless one is to look anyway. */
export async function lookLater(tx: Db, domainId: string, at: Date): Promise<void> {
  const payload = JSON.stringify({ domainId } satisfies DomainLook);
  await sql`
    insert into work_item (kind, key, payload, run_at)
    select ${domainWork}, ${keyOf(domainId)}, ${payload}::jsonb, ${at}
    where not exists (select from work_item where key = ${keyOf(domainId)} and state = 'queued')`.execute(tx);
}

const keyOf = (domainId: string): string => `${domainWork}/${domainId}`;

/** `lookedAt`: when DNS was asked. */
export const storeVerdict = (
  tx: Db,
  id: string,
  { reason, dnsStatus, ...verdict }: Omit<Verdict, "nextCheckAt" | "news">,
  lookedAt: Date,
): Promise<Domain> =>
  tx
    .updateTable("custom_domain")
    .set({
      ...{ status: verdict.status, reason, dns_status: dnsStatus, last_checked_at: lookedAt },
      ...{ verify_until: verdict.verifyUntil, verified_at: verdict.verifiedAt },
      ...{ failing_since: verdict.failingSince, warnings: verdict.warnings, warned_at: verdict.warnedAt },
    })
    .where("id", "=", id)
    .returningAll()
    .executeTakeFirstOrThrow();

/** A pending or failed one is looked for until `verifyUntil`. */
export const openWindow = (tx: Db, id: string, verifyUntil: Date): Promise<Domain> =>
  tx
    .updateTable("custom_domain")
    .set({ status: "pending", verify_until: verifyUntil, reason: null })
    .where("id", "=", id)
    .returningAll()
    .executeTakeFirstOrThrow();

/** Those of the project that lead to this one. They stay as they are while the project is locked. */
export const listFollowers = (db: Db, domainId: string): Promise<Domain[]> =>
  db.selectFrom("custom_domain").selectAll().where("redirect_domain_id", "=", domainId).orderBy("domain").execute();

/** `change` names one column at least. */
export const changeDomain = (tx: Db, id: string, change: DomainChange): Promise<Domain> =>
  tx.updateTable("custom_domain").set(change).where("id", "=", id).returningAll().executeTakeFirstOrThrow();

/** Its hosts go with it. Those of other projects that come instead: `placeHosts`. */
export const deleteDomain = (tx: Db, id: string) => tx.deleteFrom("custom_domain").where("id", "=", id).execute();

/**
 * Locks all names of projects that the caller has locked, and returns them. Whoever has one of them locked may want to place a
 * host that refers to such a project, so this comes before anything that keeps others from doing so.
 */
export async function lockNamesOf(tx: Db, projectIds: readonly string[]): Promise<string[]> {
  const held = await tx
    .selectFrom("custom_domain")
    .select("domain")
    .where("project_id", "=", (where) => where.fn.any(where.val([...projectIds])))
    .execute();
  const names = held.map(({ domain }) => domain);
  await lockNames(tx, names);
  return names;
}

/**
 * The end of all domains of projects, whose `names` are locked: whoever else claims one of these may have it, or its www, from
 * then on.
 */
export async function releaseDomains(tx: Db, projectIds: readonly string[], names: readonly string[]): Promise<void> {
  if (names.length === 0) return;
  await tx.deleteFrom("custom_domain").where("project_id", "in", projectIds).execute();
  for (const name of names) await placeHosts(tx, name);
}

/**
 * Brings the hosts of `domain` and of its twin to what the proven domains ask for, and tells the publisher of routes. Needs the
 * name locked. Whoever may have changed whether the domain serves does the same for its followers afterwards.
 */
export async function placeHosts(tx: Db, domain: string): Promise<void> {
  const names = concernedNames(domain);
  const proven = await listProven(tx, names);
  const wanted = hostsOf(proven).filter(({ host }) => names.includes(host));
  await tx
    .deleteFrom("site_host")
    .where("host", "in", names)
    .where("domain_id", "is not", null)
    .$if(wanted.length > 0, (query) =>
      query.where(
        "host",
        "not in",
        wanted.map(({ host }) => host),
      ),
    )
    .execute();
  for (const host of wanted) await placeHost(tx, host);
  await notify(tx, routeTopic);
}

/** Domains of these names that their projects have proven, with the host that each sends its visitors to. */
const listProven = (tx: Db, names: readonly string[]): Promise<ProvenDomain[]> =>
  tx
    .selectFrom("custom_domain as own")
    .leftJoin("custom_domain as target", (join) =>
      join
        .onRef("target.id", "=", "own.redirect_domain_id")
        .on("target.status", "=", "verified")
        .on("target.routing_target", "!=", "disabled"),
    )
    // One that is new has none yet, and its followers come after it.
    .leftJoin("site_host as named", (join) =>
      join.onRef("named.domain_id", "=", "target.id").onRef("named.host", "=", "target.domain"),
    )
    .leftJoin(homes(tx).select(["project_id", "host"]).as("home"), (join) =>
      join.onRef("home.project_id", "=", "own.project_id").on("own.redirects_home", "=", true),
    )
    .select(["own.id", "own.project_id as projectId", "own.domain", "own.routing_target as target"])
    .select((each) => each.fn.coalesce("named.host", "home.host").as("redirectTo"))
    .where("own.domain", "in", names)
    .where("own.status", "=", "verified")
    .execute();

/** The project's own host, where its production is; null: it has none. */
export const findHome = async (db: Db, projectId: string): Promise<string | null> =>
  (await homes(db).where("project.id", "=", projectId).select("site_host.host").executeTakeFirst())?.host ?? null;

/** Names at which visitors are served by a slug; while a project is renamed, by that which is still its own. */
const homes = (db: Db) =>
  db
    .selectFrom("site_host")
    .innerJoin("project", "project.id", "site_host.project_id")
    .where("channel", "=", "production")
    .where("domain_id", "is", null)
    .where("redirect_to", "is", null)
    .where(sql<boolean>`coalesce(site_host.slug, project.slug) = project.slug`);

/** Hosts that domains of a project are to lead to, by id of the domain; those that serve are left out. */
export async function listRedirects(db: Db, domains: readonly Domain[]): Promise<Map<string, string>> {
  const ids = domains.flatMap(({ redirect_domain_id: id }) => id ?? []);
  const named =
    ids.length === 0
      ? []
      : await db.selectFrom("custom_domain").select(["id", "domain"]).where("id", "in", ids).execute();
  const nameOf = new Map(named.map(({ id, domain }) => [id, domain]));
  const homeward = domains.find(({ redirects_home: isHome }) => isHome);
  const home = homeward === undefined ? null : await findHome(db, homeward.project_id);
  return new Map(
    domains.flatMap(({ id, redirect_domain_id: to, redirects_home: isHome }): [string, string][] => {
      const host = isHome ? home : nameOf.get(to ?? "");
      return host == null ? [] : [[id, host]];
    }),
  );
}

/** A name of the platform's own never gives way. */
async function placeHost(tx: Db, { host, domainId, projectId, channel, redirectTo }: CustomHost): Promise<void> {
  const values = { project_id: projectId, channel, redirect_to: redirectTo, domain_id: domainId };
  await tx
    .insertInto("site_host")
    .values({ host, ...values })
    .onConflict((conflict) => conflict.column("host").doUpdateSet(values).where("site_host.domain_id", "is not", null))
    .execute();
}
