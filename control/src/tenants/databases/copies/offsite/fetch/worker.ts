import { type CopyListing, copyPartsMax } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { retry } from "@svc/runtime/retry";
import type { Log } from "../../../../../log.ts";
import type { Db } from "../../../../../stores/db/pool.ts";
import type { Bucket } from "../../../../../stores/s3/bucket.ts";
import { BucketError } from "../../../../../stores/s3/errors.ts";
import { CannotOpen, type Secrets } from "../../../../../stores/secrets.ts";
import type { WorkHandler } from "../../../../../stores/work/worker.ts";
import { openBranchKey } from "../key.ts";
import { type NodeFiles, NodeFilesUnavailable, nodeFiles, type OpenCopyFiles } from "../node-files.ts";
import { type CopyManifest, type CopyObjects, copyObjects } from "../objects.ts";
import { hasAdvanced, type ManifestPart, progressIn, withObject } from "./progress.ts";
import { noRoom } from "./rules.ts";
import {
  type FoundFetch,
  findFetch,
  findFullNode,
  findProgress,
  saveProgress,
  setFetched,
  setFetchFailed,
} from "./store.ts";

/** Tries of one call to the bucket or the node. A line that is down for longer ends the turn, and the next one goes on from there. */
const attempts = 5;
const backOff = { firstMs: 500, maxMs: 10_000 };
/** Before the next turn of one that has got further. */
const nextTurnMs = 10_000;

export interface FetchWorkerDeps {
  clock: Clock;
  random: Random;
  db: Db;
  secrets: Secrets;
  /** Null: no setting names one. */
  bucket: Bucket | null;
  openCopyFiles: OpenCopyFiles;
  log: Log;
}

/**
 * Work of kind `offsite-fetch`: has a copy of the bucket on a node, where a branch is restored from it as from any other. Whoever goes
 * on after one that was killed begins with the first object that is not whole; nothing is known of the copy before the last byte is
 * there. A turn that has got further does not count as a failure, so that a large copy comes over a bad line as well.
 */
export function fetchWorker(deps: FetchWorkerDeps): WorkHandler {
  const { db, log } = deps;
  return async (item, signal) => {
    const { copyId } = item.payload as { copyId: string };
    const found = await findFetch(db, copyId);
    if (found === null) return { state: "done" };
    const fail = async (reason: string) => {
      log.warn({ copyId, databaseId: found.copy.database_id, why: reason }, "a copy could not be fetched");
      await setFetchFailed(db, copyId, reason);
      return { state: "done" } as const;
    };
    if (found.nodeGone) return fail("Its machine is gone.");
    const { bucket } = deps;
    if (bucket === null || bucket.place !== found.offsite.place) return fail("SVC_S3_… names another bucket now.");
    const before = await findProgress(db, copyId);
    try {
      const manifest = await fetchCopy({ ...deps, bucket }, found, signal);
      await setFetched(db, copyId, manifest);
      log.info({ copyId, databaseId: found.copy.database_id, coveredAt: manifest.coveredAt }, "a copy was fetched");
      return { state: "done" };
    } catch (error) {
      signal.throwIfAborted();
      if (isForGood(error)) return fail(messageOf(error));
      const after = await findProgress(db, copyId);
      if (hasAdvanced(before, after)) {
        const about = { copyId, databaseId: found.copy.database_id, objects: after?.objects };
        log.info({ ...about, why: messageOf(error) }, "a fetch goes on later");
        return { retryAfterMs: nextTurnMs, error: messageOf(error), refund: true };
      }
      if (item.attempt < item.maxAttempts) throw error;
      return fail(messageOf(error));
    }
  };
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** What another try would not change. */
const isForGood = (error: unknown): boolean =>
  error instanceof CannotOpen ||
  error instanceof Damaged ||
  error instanceof NoRoom ||
  (error instanceof BucketError && error.reason !== "away");

/** The node's disk has filled up. What was fetched goes, so that the databases there have the room. */
class NoRoom extends Error {
  override readonly name = "NoRoom";
}

/** What is off-site does not make a copy. */
class Damaged extends Error {
  override readonly name = "Damaged";
}

async function fetchCopy(
  deps: FetchWorkerDeps & { bucket: Bucket },
  { copy, offsite, secret }: FoundFetch,
  signal: AbortSignal,
): Promise<CopyManifest> {
  const { clock, random, db } = deps;
  const objects = copyObjects(deps.bucket, openBranchKey(deps.secrets, copy.database_id, secret), offsite.id);
  const again = <T>(call: () => Promise<T>): Promise<T> =>
    retry({ ...{ clock, random, backOff, signal, attempts }, mayHelp: (error) => !isForGood(error) }, call);
  const manifest = await again(() => objects.getManifest(signal));
  if (manifest.databaseId !== copy.database_id || manifest.engine !== copy.engine)
    throw new Damaged("the copy off-site is of another database");
  const files = nodeFiles(deps, { nodeId: copy.node_id, copyId: copy.id });
  const byObject = [...Map.groupBy(manifest.parts, ({ objectId }) => objectId)];
  let progress = progressIn(
    byObject.map(([, parts]) => parts),
    await findProgress(db, copy.id),
  );
  for (const [objectId, parts] of byObject.slice(progress.objects)) {
    const fullNode = await findFullNode(db, copy.node_id);
    if (fullNode !== null) throw new NoRoom(noRoom(fullNode));
    await again(() => writeObject({ objects, files }, objectId, parts, signal));
    progress = withObject(progress, parts);
    await saveProgress(db, copy.id, progress);
  }
  const status = Buffer.from(manifest.status);
  const empty = manifest.files.filter(({ size }) => size === 0).map(({ path }) => ({ path, at: 0, length: 0 }));
  for (let from = 0; from < empty.length; from += copyPartsMax)
    await again(() => files.write(empty.slice(from, from + copyPartsMax), Buffer.alloc(0), signal));
  mustBeWhole(await again(() => files.list(signal)), manifest);
  // A copy says nothing of itself before all of it is there.
  await again(() => files.write([{ path: "status", at: 0, length: status.length }], status, signal));
  return manifest;
}

/** Whatever the manifest has of one object, which is read once. */
async function writeObject(
  { objects, files }: { objects: CopyObjects; files: NodeFiles },
  objectId: string,
  parts: readonly ManifestPart[],
  signal: AbortSignal,
): Promise<void> {
  const content = await objects.get(objectId, signal);
  const pieces = parts.map(({ from, length }) => content.subarray(from, from + length));
  if (pieces.some((piece, index) => piece.length !== parts[index]?.length))
    throw new Damaged("an object off-site is shorter than it was");
  await files.write(
    parts.map(({ path, at, length }) => ({ path, at, length })),
    Buffer.concat(pieces),
    signal,
  );
}

function mustBeWhole(listing: CopyListing, manifest: CopyManifest): void {
  const sizes = new Map(listing.files.map(({ path, size }) => [path, size]));
  for (const { path, size } of manifest.files) {
    const found = sizes.get(path);
    // What was added to a log while it was put off-site may be there as well.
    if (found === undefined || found < size)
      throw new NodeFilesUnavailable(`${path} is not whole on its node: ${found ?? "not one"} of ${size} bytes`);
  }
}
