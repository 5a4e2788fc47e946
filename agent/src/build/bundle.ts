import { pipeline, type Readable } from "node:stream";
import { promisify } from "node:util";
import { brotliCompress, constants, createGzip, gzip } from "node:zlib";
import type { Archive, ArchiveFile } from "./archive.ts";
import { isCompressible, type SiteFile } from "./site.ts";
import { fileEntry, packTar, type TarEntry } from "./tar.ts";

/** Past this much text the copies are made with less effort, so that a huge site does not hold a deployment up. */
const carefulBytes = 32 * 1024 * 1024;
const filesAtOnce = 4;
/** A copy that saves less than this is not worth a lookup. */
const worth = 0.95;

const toBrotli = promisify(brotliCompress);
const toGzip = promisify(gzip);

/**
 * The bundle of a static site: a gzipped tar of its files with smaller `.br` and `.gz` copies beside those
 * that compress well. Equal sites give equal bytes.
 */
export function packBundle(archive: Archive, site: readonly SiteFile[]): Readable {
  // The inner copies are compressed already, so more effort would only cost time.
  const zip = createGzip({ level: 4 });
  // Whoever reads the result hears of a failure there.
  pipeline(packTar(bundleEntries(archive, site)), zip, () => {});
  return zip;
}

async function* bundleEntries(archive: Archive, site: readonly SiteFile[]): AsyncGenerator<TarEntry> {
  const names = new Set(site.map((file) => file.path));
  let textBytes = 0;
  for (let start = 0; start < site.length; start += filesAtOnce) {
    const batch = site.slice(start, start + filesAtOnce).flatMap(({ path, source }) => {
      const file = archive.files.get(source);
      return file === undefined ? [] : [{ path, file }];
    });
    for (const { path, file } of batch) if (isCompressible(path, file.sizeBytes)) textBytes += file.sizeBytes;
    const isCareful = textBytes <= carefulBytes;
    const copies = await Promise.all(batch.map(({ path, file }) => makeCopies(archive, path, file, names, isCareful)));
    for (const [index, { path, file }] of batch.entries()) {
      yield await fileEntry(archive, path, { ...file, executable: false });
      yield* copies[index] ?? [];
    }
  }
}

async function makeCopies(
  archive: Archive,
  path: string,
  file: ArchiveFile,
  names: ReadonlySet<string>,
  isCareful: boolean,
): Promise<TarEntry[]> {
  if (!isCompressible(path, file.sizeBytes)) return [];
  const original = await archive.read(file);
  const made: { name: string; content: Buffer }[] = [];
  if (!names.has(`${path}.br`)) {
    const params = {
      [constants.BROTLI_PARAM_QUALITY]: isCareful ? 9 : 4,
      [constants.BROTLI_PARAM_SIZE_HINT]: original.length,
      [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
    };
    made.push({ name: `${path}.br`, content: await toBrotli(original, { params }) });
  }
  if (!names.has(`${path}.gz`)) {
    made.push({ name: `${path}.gz`, content: await toGzip(original, { level: isCareful ? 9 : 4 }) });
  }
  return made
    .filter(({ content }) => content.length <= original.length * worth)
    .map((copy) => ({ kind: "bytes", executable: false, ...copy }));
}
