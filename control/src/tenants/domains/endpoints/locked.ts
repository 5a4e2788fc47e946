import type { Db } from "../../../stores/db/pool.ts";
import type { Domain, Project } from "../../../stores/db/tables.ts";
import { Refused } from "../../../stores/refused.ts";
import { getProject } from "../../projects/store.ts";
import { findDomain, listFollowers, lockNames, placeHosts } from "../store.ts";

/** A domain, its project and its name, and those of its followers, all of them locked. */
export interface LockedDomain {
  project: Project;
  domain: Domain;
  /** Domains of the project that lead to it. */
  followers: Domain[];
}

/** Locks the domain of a request. Throws NOT_FOUND. */
export async function lockDomain(
  tx: Db,
  caller: Parameters<typeof getProject>[1],
  { id, domainId }: { id: string; domainId: string },
): Promise<LockedDomain> {
  const project = await getProject(tx, caller, id, { lock: true });
  const known = await findDomain(tx, { projectId: project.id, domainId });
  if (known === null) throw new Refused("NOT_FOUND");
  const followers = await listFollowers(tx, domainId);
  await lockNames(
    tx,
    [known, ...followers].map(({ domain }) => domain),
  );
  const domain = await findDomain(tx, { projectId: project.id, domainId }, { lock: true });
  if (domain === null) throw new Refused("NOT_FOUND");
  return { project, domain, followers };
}

/** Brings the hosts to what is kept; the domain's first, to which those of its followers refer. */
export async function placeAll(tx: Db, { domain, followers }: LockedDomain): Promise<void> {
  for (const each of [domain, ...followers]) await placeHosts(tx, each.domain);
}
