import type { CopyFile, CopyListing } from "@svc/proto";
import type { Random } from "@svc/runtime/random";
import type { Log } from "../../../../log.ts";
import type { Db } from "../../../../stores/db/pool.ts";
import type { OffsiteCopy } from "../../../../stores/db/tables.ts";
import type { Bucket } from "../../../../stores/s3/bucket.ts";
import type { Secrets } from "../../../../stores/secrets.ts";
import { openBranchKey } from "./key.ts";
import { type NodeFiles, NodeFilesUnavailable } from "./node-files.ts";
import { type CopyObjects, copyObjects } from "./objects.ts";
import { basesAmong, isPartial, nextObjects, shippedParts, whereabouts } from "./rules.ts";
import {
  beginObject,
  type DueCopy,
  listObjects,
  provideOffsite,
  setCovered,
  setPut,
  setStillCovered,
  touch,
} from "./store.ts";

export interface ShipDeps {
  db: Db;
  random: Pick<Random, "uuid">;
  secrets: Secrets;
  bucket: Bucket;
  log: Log;
}

/** The copy changes while it is read: so often its files are listed again. */
const listingsMax = 20;

/**
 * Puts into the bucket what a copy has and that has not, and then what says so. It may be killed anywhere: each object is noted
 * before and after it is put, and whoever comes next goes on with what is missing.
 *
 * @param copy as it was told of before: its files have at least what it says
 */
export async function shipCopy(deps: ShipDeps, copy: DueCopy, files: NodeFiles, signal: AbortSignal): Promise<void> {
  const { db, secrets, bucket, log } = deps;
  const { offsite, secret } = await provideOffsite(deps, copy, bucket.place);
  if (isSame(copy, offsite)) return setStillCovered(db, offsite.id, copy.covered_at);
  await touch(db, offsite.id, offsite.problem);
  const objects = copyObjects(bucket, openBranchKey(secrets, copy.database_id, secret), offsite.id);
  const { status, files: shipped } = await shipFiles(deps, { id: offsite.id, objects, files }, signal);
  const parts = whereabouts(shipped, shippedParts(await listObjects(db, offsite.id)));
  const bases = basesAmong(copy.bases, shipped);
  if (parts === null || bases.length === 0 || status === "") {
    throw new NodeFilesUnavailable("the copy was changed while it was read");
  }
  parts.sort((a, b) => (a.objectId < b.objectId ? -1 : a.objectId > b.objectId ? 1 : a.from - b.from));
  await objects.putManifest(
    {
      ...{ version: 1, databaseId: copy.database_id, copyId: copy.id, engine: copy.engine, status, parts, bases },
      ...{ generation: copy.generation, coveredAt: copy.covered_at.toISOString(), position: copy.position },
      files: shipped.map(({ path, size }) => ({ path, size })),
    },
    signal,
  );
  const used = [...new Set(parts.map(({ objectId }) => objectId))];
  await setCovered(db, offsite.id, { used, covered_at: copy.covered_at, position: copy.position, bases });
  const { id: copyId, database_id: databaseId } = copy;
  log.debug({ copyId, databaseId, coveredAt: copy.covered_at, objects: used.length }, "a copy is off-site");
}

/** What comes back from the bucket says that it covers as much as it was told last: so often it is told anyway. */
const toldEveryMs = 600_000;

/** Nothing was written to the branch since, there is no other whole copy, and what the bucket says of it is not old. */
const isSame = (
  { position, bases, covered_at }: DueCopy,
  offsite: Pick<OffsiteCopy, "position" | "bases" | "covered_at" | "manifest_at">,
): boolean =>
  offsite.covered_at !== null &&
  position !== null &&
  position === offsite.position &&
  bases.at(-1)?.number === offsite.bases.at(-1)?.number &&
  covered_at.getTime() - (offsite.manifest_at?.getTime() ?? 0) < toldEveryMs;

/** All files as they were listed last, once they are in the bucket, with what the status said before anything was read. */
async function shipFiles(
  { db, random }: Pick<ShipDeps, "db" | "random">,
  { id, objects, files }: { id: string; objects: CopyObjects; files: NodeFiles },
  signal: AbortSignal,
): Promise<CopyListing> {
  const first = await files.list(signal);
  const known = new Set(first.files.map(({ path }) => path));
  let listing = first;
  for (let listings = 1; ; listings += 1) {
    const gone = await shipListed({ db, random }, { id, objects, files, listed: listing.files }, signal);
    // A file of the log that was begun since has nothing that the status speaks of.
    const missing = [...gone].filter((path) => !(isPartial(path) && !known.has(path)));
    if (missing.length === 0) return { ...listing, files: listing.files.filter(({ path }) => !gone.has(path)) };
    if (listings === listingsMax) throw new NodeFilesUnavailable("files of the copy went while it was read");
    listing = { ...(await files.list(signal)), status: first.status };
  }
}

/** Puts what is missing of these files into the bucket. Returns the paths of those that were gone, or not as they were listed. */
async function shipListed(
  { db, random }: Pick<ShipDeps, "db" | "random">,
  { id, objects, files, listed }: { id: string; objects: CopyObjects; files: NodeFiles; listed: readonly CopyFile[] },
  signal: AbortSignal,
): Promise<Set<string>> {
  const gone = new Set<string>();
  for (const parts of nextObjects(listed, shippedParts(await listObjects(db, id)))) {
    signal.throwIfAborted();
    const contents = await files.read(
      parts.map(({ path, at, length }) => ({ path, at, length })),
      signal,
    );
    const there = parts.flatMap((part, index) => {
      const content = contents[index];
      if (content == null) gone.add(part.path);
      return content == null ? [] : [{ part, content }];
    });
    if (there.length === 0) continue;
    const objectId = random.uuid();
    await beginObject(
      db,
      id,
      objectId,
      there.map(({ part }) => part),
    );
    await objects.put(objectId, Buffer.concat(there.map(({ content }) => content)), signal);
    await setPut(db, objectId);
  }
  return gone;
}
