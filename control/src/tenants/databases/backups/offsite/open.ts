import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import type { Db } from "../../../../stores/db/pool.ts";
import type { Backup, OffsiteFile } from "../../../../stores/db/tables.ts";
import type { Bucket } from "../../../../stores/s3/bucket.ts";
import type { Secrets } from "../../../../stores/secrets.ts";
import { openFileKey } from "./key.ts";
import { objectBytesMax, pieceAad, pieceName, piecesOf } from "./pieces.ts";
import { findWholeFile } from "./store.ts";

/** The bytes off-site are not those that were put there. */
class OffsiteDamaged extends Error {
  override readonly name = "OffsiteDamaged";
}

export interface OffsiteSource {
  db: Db;
  secrets: Secrets;
  bucket: Bucket;
}

/**
 * The file of a backup from the bucket, which errors unless it is exactly what was stored; null: it is not off-site. Throws
 * `BucketError` when its first piece cannot be had, and `CannotOpen` when that is not what was put there.
 */
export async function openOffsite(
  { db, secrets, bucket }: OffsiteSource,
  { id, offsite_secret, size_bytes }: Backup,
): Promise<Readable | null> {
  const file = await findWholeFile(db, id, bucket.place);
  if (file === null || offsite_secret === null || size_bytes === null) return null;
  const key = openFileKey(secrets, id, offsite_secret);
  const stop = new AbortController();
  const read = async (index: number): Promise<Buffer> => {
    const object = await bucket.get(pieceName(file.id, index), objectBytesMax(file), stop.signal);
    return key.open(object, pieceAad(file.id, index));
  };
  // Before anything is answered: a bucket that is away is then told in words.
  const first = await read(0);
  const stream = Readable.from(whole(file, size_bytes, first, read), { objectMode: false });
  return stream.once("close", () => stop.abort());
}

async function* whole(
  file: OffsiteFile,
  sizeBytes: number,
  first: Buffer,
  read: (index: number) => Promise<Buffer>,
): AsyncGenerator<Buffer> {
  const hash = createHash("sha256");
  let length = 0;
  const count = piecesOf(sizeBytes, file);
  for (let index = 0; index < count; index += 1) {
    const piece = index === 0 ? first : await read(index);
    hash.update(piece);
    length += piece.length;
    yield piece;
  }
  if (length !== sizeBytes || hash.digest("hex") !== file.digest)
    throw new OffsiteDamaged(`the file ${file.id} is not what was put off-site`);
}
