import { createHash } from "node:crypto";
import { inPieces, type Registry, RegistryError } from "@svc/registry";
import type { Random } from "@svc/runtime/random";
import type { Log } from "../../../../log.ts";
import type { Db } from "../../../../stores/db/pool.ts";
import type { OffsiteFile } from "../../../../stores/db/tables.ts";
import type { Bucket } from "../../../../stores/s3/bucket.ts";
import { BucketError } from "../../../../stores/s3/errors.ts";
import { CannotOpen, type Secrets } from "../../../../stores/secrets.ts";
import { openFileKey } from "./key.ts";
import { pieceAad, pieceName } from "./pieces.ts";
import {
  beginFiles,
  type DueFile,
  forgetFile,
  listDueFiles,
  listUselessFiles,
  setPieces,
  setProblem,
  setWhole,
} from "./store.ts";

export interface OffsiteDeps {
  db: Db;
  random: Pick<Random, "uuid">;
  registry: Pick<Registry, "pullArtifact">;
  secrets: Secrets;
  bucket: Bucket;
  log: Log;
}

/** What one round did. */
export interface OffsiteReport {
  shipped: number;
  removed: number;
}

/** Of one file; whoever goes on after that begins with the next piece. */
const pullMs = 6 * 3_600_000;
/** A bucket that is away is left alone until the next round. */
const failuresPerRound = 3;
const removalsAtOnce = 8;

/**
 * Puts the files of complete backups into the bucket, one after the other, and deletes there what is of no use. It may be killed
 * anywhere: the next round goes on with the first piece that is not noted.
 */
export async function offsiteRound(deps: OffsiteDeps, signal: AbortSignal): Promise<OffsiteReport> {
  const { db, bucket, log } = deps;
  const report: OffsiteReport = { shipped: 0, removed: 0 };
  await beginFiles(deps, bucket.place);
  let failures = 0;
  for (const file of await listUselessFiles(db, bucket.place)) {
    signal.throwIfAborted();
    try {
      await removeFile(deps, file, signal);
      report.removed += 1;
    } catch (error) {
      if (!isExpected(error)) throw error;
      log.warn({ err: error, fileId: file.id }, "a file that is of no use could not be deleted off-site");
      failures += 1;
      if (failures >= failuresPerRound) break;
    }
  }
  // Whoever may not delete may put all the same.
  failures = 0;
  for (const due of await listDueFiles(db, bucket.place)) {
    signal.throwIfAborted();
    try {
      if (await ship(deps, due, signal)) report.shipped += 1;
    } catch (error) {
      if (!isExpected(error)) throw error;
      await setProblem(db, due.file.id, error.message);
      log.warn({ err: error, backupId: due.backup.id }, "a backup could not be put off-site");
      failures += 1;
      if (failures >= failuresPerRound) break;
    }
  }
  return report;
}

const isExpected = (error: unknown): error is Error =>
  error instanceof BucketError || error instanceof RegistryError || error instanceof CannotOpen;

/** True: all of it is there. False: its backup was deleted meanwhile. */
async function ship(
  { db, registry, secrets, bucket, log }: OffsiteDeps,
  { file, backup }: DueFile,
  signal: AbortSignal,
): Promise<boolean> {
  const key = openFileKey(secrets, backup.id, backup.offsite_secret);
  // It errors at its end unless it is exactly what was stored, and then the file is not noted as whole.
  const content = await registry.pullArtifact(backup.repository, backup.digest, {
    ...{ maxSizeBytes: backup.size_bytes, transferTimeoutMs: pullMs, signal },
  });
  const hash = createHash("sha256");
  let index = 0;
  for await (const piece of inPieces(content, file.piece_bytes)) {
    hash.update(piece);
    if (index >= file.pieces) {
      await bucket.put(pieceName(file.id, index), key.seal(piece, pieceAad(file.id, index)), signal);
      if (!(await setPieces(db, file.id, index + 1))) return false;
    }
    index += 1;
  }
  await setWhole(db, file.id, hash.digest("hex"));
  log.info({ backupId: backup.id, projectId: backup.project_id, sizeBytes: backup.size_bytes }, "a backup is off-site");
  return true;
}

/** The row goes last, so that whoever is killed before has the same to do again. */
async function removeFile(
  { db, bucket }: OffsiteDeps,
  { id, pieces }: OffsiteFile,
  signal: AbortSignal,
): Promise<void> {
  // One more than is noted: it may have been put there by somebody who was killed then.
  for (let from = 0; from <= pieces; from += removalsAtOnce) {
    const indexes = Array.from({ length: Math.min(removalsAtOnce, pieces + 1 - from) }, (_, at) => from + at);
    await Promise.all(indexes.map((index) => bucket.remove(pieceName(id, index), signal)));
  }
  await forgetFile(db, id);
}
