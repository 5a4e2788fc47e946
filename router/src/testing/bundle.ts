import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { createGzip } from "node:zlib";
import { type Header, pack } from "tar-stream";

export interface BundleEntry {
  name: string;
  content?: string | Buffer;
  type?: Header["type"];
  linkname?: string;
}

/** A gzipped tar of these entries, as builders push it. */
export async function aBundle(entries: readonly BundleEntry[]): Promise<Buffer> {
  const archive = pack();
  for (const { name, content = "", type = "file", linkname } of entries) {
    archive.entry({ name, type, ...(linkname !== undefined && { linkname }) }, content);
  }
  archive.finalize();
  return buffer((archive as unknown as Readable).pipe(createGzip()));
}

export const filesBundle = (files: Record<string, string | Buffer>): Promise<Buffer> =>
  aBundle(Object.entries(files).map(([name, content]) => ({ name, content })));

export const digestOfBundle = (bundle: Buffer): string => `sha256:${createHash("sha256").update(bundle).digest("hex")}`;
