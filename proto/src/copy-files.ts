import { z } from "zod";

/**
 * What control and a node say to each other over a tunnel to the files of a copy: one request, which is a line of JSON, and one
 * answer. `list`: a `CopyListing` as JSON. `read`: for each part its length in four bytes, the highest first, or `partGone`,
 * and the bytes. `write`: the bytes of all parts follow the request, and the answer is `{"ok":true}`.
 */

/** Parts that are read or written at once, and their bytes altogether. */
export const copyPartsMax = 4096;
export const copyBytesMax = 8 * 1024 * 1024;
export const copyRequestBytesMax = 1024 * 1024;
/** Of a copy; more are refused as a whole. */
export const copyFilesMax = 200_000;

/** In place of a length: the file is no more, or not so long. */
export const partGone = 0xffff_ffff;

/** Files of a copy, by what keepers make (deploy/database/copy.sh): nothing that is half made, and no way out of the volume. */
const path = z
  .string()
  .regex(/^(?:engine|reading|status|(?:bases|logs)\/[0-9]{6}\/[0-9A-Za-z_-][0-9A-Za-z._-]{0,99})$/)
  .refine((text) => !text.endsWith(".new"));
/** A number as large as files get, as text. */
const big = z.string().regex(/^[0-9]{1,20}$/);
const size = z.int().min(0);

export const copyFile = z.strictObject({ path, size, ino: big, mtimeNs: big });
export type CopyFile = z.output<typeof copyFile>;
/** More than a keeper ever writes. */
export const copyStatusBytesMax = 64 * 1024;
/**
 * All files but `status`. What that says was read before anything else was looked at, so that the files have at least what it
 * says that the copy has; empty where there is none.
 */
export const copyListing = z.strictObject({
  status: z.string().max(copyStatusBytesMax),
  files: z.array(copyFile).max(copyFilesMax),
});
export type CopyListing = z.output<typeof copyListing>;

const part = z.strictObject({ path, at: size, length: z.int().min(0).max(copyBytesMax) });
export type CopyPart = z.output<typeof part>;
const parts = z
  .array(part)
  .min(1)
  .max(copyPartsMax)
  .refine((all) => all.reduce((sum, { length }) => sum + length, 0) <= copyBytesMax);
export const copyRequest = z.discriminatedUnion("do", [
  z.strictObject({ do: z.literal("list") }),
  z.strictObject({ do: z.literal("read"), parts }),
  /** Into a copy that nobody keeps; makes its volume. */
  z.strictObject({ do: z.literal("write"), parts }),
]);
export type CopyRequest = z.output<typeof copyRequest>;

export const copyWritten = z.strictObject({ ok: z.literal(true) });

/** What a node says of a copy to which more was written than its plan gives room for: another one would have no more. */
export const copyTooLarge = "The copy takes more than it may.";
