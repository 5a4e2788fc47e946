import { promisify } from "node:util";
import { constants, zstdCompress, zstdDecompress } from "node:zlib";
import { copyBytesMax, copyStatusBytesMax, databaseEngines } from "@svc/proto";
import { z } from "zod";
import type { Bucket } from "../../../../stores/s3/bucket.ts";
import type { Secrets } from "../../../../stores/secrets.ts";

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

/** Bases are compressed already, and what is not is log: the fastest finds most of it. */
const level = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };
/** What compressing and sealing add at most. */
const addedBytesMax = 64 * 1024;
const manifestBytesMax = 128 * 1024 * 1024;

const size = z.int().min(0);
const base = z.strictObject({ number: size, at: z.string(), bytes: size, until: z.string().optional() });

/** What makes a copy of objects: all that is needed to have it on a node again, but for the key. */
const copyManifest = z.strictObject({
  version: z.literal(1),
  databaseId: z.string(),
  copyId: z.string(),
  engine: z.enum(databaseEngines),
  generation: z.int().min(1),
  /** Everything until then is in it. */
  coveredAt: z.iso.datetime(),
  position: z.string().nullable(),
  bases: z.array(base).min(1),
  /** The file `status`, which is written last. */
  status: z.string().max(copyStatusBytesMax),
  /** Every file, also those without a byte. */
  files: z.array(z.strictObject({ path: z.string(), size })),
  /** In the order of objects, and of their bytes. */
  parts: z.array(z.strictObject({ objectId: z.string(), from: size, path: z.string(), at: size, length: size })),
});
export type CopyManifest = z.output<typeof copyManifest>;

/** Objects of one copy in a bucket, sealed for their names, so that no other opens in their place. */
export interface CopyObjects {
  put(objectId: string, content: Buffer, signal: AbortSignal): Promise<void>;
  /** Throws `BucketError`, and `CannotOpen` for what is not what was put there. */
  get(objectId: string, signal: AbortSignal): Promise<Buffer>;
  putManifest(manifest: CopyManifest, signal: AbortSignal): Promise<void>;
  getManifest(signal: AbortSignal): Promise<CopyManifest>;
}

const manifestName = "manifest";

/** The name of an object. It tells nothing of whose it is. */
export const objectName = (id: string, objectId: string): string => `copies/${id}/${objectId}`;
export const manifestNameOf = (id: string): string => objectName(id, manifestName);

/** @param id of the row of `offsite_copy` */
export function copyObjects(bucket: Bucket, key: Pick<Secrets, "seal" | "open">, id: string): CopyObjects {
  const aad = (objectId: string) => `offsite/${objectName(id, objectId)}`;
  const put = async (objectId: string, content: Buffer, signal: AbortSignal): Promise<void> =>
    bucket.put(objectName(id, objectId), key.seal(await compress(content, level), aad(objectId)), signal);
  const get = async (objectId: string, bytesMax: number, signal: AbortSignal): Promise<Buffer> => {
    const object = await bucket.get(objectName(id, objectId), bytesMax + addedBytesMax, signal);
    return decompress(key.open(object, aad(objectId)), { maxOutputLength: bytesMax });
  };
  return {
    put,
    get: (objectId, signal) => get(objectId, copyBytesMax, signal),
    // What could not be read again is not put.
    putManifest: (manifest, signal) =>
      put(manifestName, Buffer.from(JSON.stringify(copyManifest.parse(manifest))), signal),
    getManifest: async (signal) =>
      copyManifest.parse(JSON.parse((await get(manifestName, manifestBytesMax, signal)).toString("utf8"))),
  };
}
