import { type OwnerKind, ownerKinds } from "@svc/proto/kinds";
import type { Db } from "../../../stores/db/pool.ts";
import type { Secrets } from "../../../stores/secrets.ts";
import { backup } from "./backup.ts";
import { copy } from "./copy.ts";
import { database } from "./database.ts";
import { deployment } from "./deployment.ts";
import { job } from "./job.ts";
import type { OpenAttempt, Owner, OwnerFacts, Whose, Work } from "./owner.ts";
import { screenshot } from "./screenshot.ts";

/** Every kind of owner there is. */
const owners: { readonly [K in OwnerKind]: Owner<OwnerFacts[K]> } = {
  ...{ deployment, database, backup, copy, job, screenshot },
};

export const ownerOf = (kind: OwnerKind): Owner<OwnerFacts[OwnerKind]> => owners[kind];

type Owned = Pick<Work, "ownerKind" | "ownerId">;

/** Asks each kind of owner once for those of `work` that are its; nobody for none. Ids of owners of two kinds differ. */
async function askEach<W extends Owned, T>(
  work: readonly W[],
  ask: (owner: Owner<OwnerFacts[OwnerKind]>, work: readonly W[]) => Promise<Iterable<T>>,
): Promise<T[]> {
  const groups = [...Map.groupBy(work, ({ ownerKind }) => ownerKind)];
  const found = await Promise.all(groups.map(([kind, group]) => ask(ownerOf(kind), group)));
  return found.flatMap((each) => [...each]);
}

const idsOf = (work: readonly Owned[]): string[] => [...new Set(work.map(({ ownerId }) => ownerId))];

/** See `Owner.loadFacts`. */
export const loadOwners = async (stores: { db: Db; secrets: Secrets }, work: readonly Work[]) =>
  new Map(await askEach(work, (owner, group) => owner.loadFacts(stores, group)));

/** See `Owner.listWhose`. */
export const listWhose = async (db: Db, work: readonly Owned[]): Promise<Map<string, Whose>> =>
  new Map(await askEach(work, (owner, group) => owner.listWhose(db, idsOf(group))));

/** See `Owner.listWaiting`. */
export const listWaiting = async (db: Db, work: readonly Owned[]): Promise<Set<string>> =>
  new Set(await askEach(work, (owner, group) => owner.listWaiting(db, idsOf(group))));

/** See `Owner.listOpenAttempts`. */
export async function listOpenAttempts(db: Db): Promise<OpenAttempt[]> {
  const found = await Promise.all(ownerKinds.map((kind) => ownerOf(kind).listOpenAttempts(db)));
  return found.flat();
}
