import { type CopyPart, copyPartsMax } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../../../../../log.ts";
import type { Db } from "../../../../../stores/db/pool.ts";
import type { Bucket } from "../../../../../stores/s3/bucket.ts";
import { BucketError } from "../../../../../stores/s3/errors.ts";
import { CannotOpen, type Secrets } from "../../../../../stores/secrets.ts";
import type { WorkHandler } from "../../../../../stores/work/worker.ts";
import { openBranchKey } from "../key.ts";
import { type NodeFiles, NodeFilesUnavailable, nodeFiles, type OpenCopyFiles } from "../node-files.ts";
import { type CopyManifest, type CopyObjects, copyObjects } from "../objects.ts";
import { type FoundFetch, findFetch, setFetched, setFetchFailed } from "./store.ts";

export interface FetchWorkerDeps {
  clock: Clock;
  db: Db;
  secrets: Secrets;
  /** Null: no setting names one. */
  bucket: Bucket | null;
  openCopyFiles: OpenCopyFiles;
  log: Log;
}

/**
 * Work of kind `offsite-fetch`: has a copy of the bucket on a node, where a branch is restored from it as from any other. All of it
 * is written again by whoever goes on after one that was killed; nothing is known of it before the last byte is there.
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
    try {
      const manifest = await fetchCopy({ ...deps, bucket }, found, signal);
      await setFetched(db, copyId, manifest);
      log.info({ copyId, databaseId: found.copy.database_id, coveredAt: manifest.coveredAt }, "a copy was fetched");
      return { state: "done" };
    } catch (error) {
      signal.throwIfAborted();
      if (!isForGood(error) && item.attempt < item.maxAttempts) throw error;
      return fail(error instanceof Error ? error.message : String(error));
    }
  };
}

/** What another try would not change. */
const isForGood = (error: unknown): boolean =>
  error instanceof CannotOpen || error instanceof Damaged || (error instanceof BucketError && error.reason !== "away");

/** What is off-site does not make a copy. */
class Damaged extends Error {
  override readonly name = "Damaged";
}

async function fetchCopy(
  deps: FetchWorkerDeps & { bucket: Bucket },
  { copy, offsite, secret }: FoundFetch,
  signal: AbortSignal,
): Promise<CopyManifest> {
  const objects = copyObjects(deps.bucket, openBranchKey(deps.secrets, copy.database_id, secret), offsite.id);
  const manifest = await objects.getManifest(signal);
  if (manifest.databaseId !== copy.database_id || manifest.engine !== copy.engine)
    throw new Damaged("the copy off-site is of another database");
  const files = nodeFiles(deps, { nodeId: copy.node_id, copyId: copy.id });
  for (const [objectId, parts] of Map.groupBy(manifest.parts, (part) => part.objectId)) {
    await writeObject({ objects, files }, objectId, parts, signal);
  }
  const status = Buffer.from(manifest.status);
  const empty = manifest.files.filter(({ size }) => size === 0).map(({ path }) => ({ path, at: 0, length: 0 }));
  for (let from = 0; from < empty.length; from += copyPartsMax)
    await files.write(empty.slice(from, from + copyPartsMax), Buffer.alloc(0), signal);
  await mustBeWhole(files, manifest, signal);
  // A copy says nothing of itself before all of it is there.
  await files.write([{ path: "status", at: 0, length: status.length }], status, signal);
  return manifest;
}

/** Whatever the manifest has of one object, which is read once. */
async function writeObject(
  { objects, files }: { objects: CopyObjects; files: NodeFiles },
  objectId: string,
  parts: readonly (CopyPart & { from: number })[],
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

async function mustBeWhole(files: NodeFiles, manifest: CopyManifest, signal: AbortSignal): Promise<void> {
  const listing = await files.list(signal);
  const sizes = new Map(listing.files.map(({ path, size }) => [path, size]));
  for (const { path, size } of manifest.files) {
    const found = sizes.get(path);
    // What was added to a log while it was put off-site may be there as well.
    if (found === undefined || found < size)
      throw new NodeFilesUnavailable(`${path} is not whole on its node: ${found ?? "not one"} of ${size} bytes`);
  }
}
