import { randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { type RawEntry, rawTar } from "../../../../../proto/src/testing/tar.ts";
import type { RegistryProcess } from "../../../../../registry/src/testing/docker-registry.ts";
import type { Answer } from "../../../http/testing.ts";

type Bytes = Uint8Array<ArrayBuffer>;

export const manifestOf = (type: "ssr" | "static", extra: object = {}) => ({
  version: 2,
  app: { name: "Shop", type },
  ...extra,
});

/** A source archive with these entries; by default one that is unlike any other and does not compress. */
export const aSource = (...entries: RawEntry[]): Bytes =>
  Buffer.from(
    gzipSync(rawTar(...(entries.length > 0 ? entries : [{ name: "server.js", content: randomBytes(3000) }]))),
  );

/** A source archive of exactly so many bytes as it travels; from 8 KiB on. */
export function aSourceOf(sizeBytes: number): Bytes {
  const content = randomBytes(sizeBytes - 3000 - Math.ceil(sizeBytes / 4096));
  const packed = gzipSync(rawTar({ name: "random", content }), { level: 0 });
  // The header may hold a name of any length.
  const name = Buffer.alloc(sizeBytes - packed.length, "n");
  name[name.length - 1] = 0;
  packed[3] = 0x08;
  return Buffer.concat([packed.subarray(0, 10), name, packed.subarray(10)]);
}

export interface Upload {
  manifest?: unknown;
  metadata?: unknown;
  source?: Bytes;
  forceBuild?: string;
  /** The order of the parts. */
  order?: readonly ("manifest" | "metadata" | "source")[];
}

export function formOf({
  manifest = manifestOf("ssr"),
  metadata,
  source = aSource(),
  forceBuild,
  order = ["manifest", "metadata", "source"],
}: Upload = {}): FormData {
  const form = new FormData();
  for (const part of order) {
    if (part === "manifest") form.set("manifest", JSON.stringify(manifest));
    else if (part === "source") form.set("source", new Blob([source]), "source.tar.gz");
    else if (metadata !== undefined) form.set("metadata", JSON.stringify(metadata));
  }
  if (forceBuild !== undefined) form.set("forceBuild", forceBuild);
  return form;
}

const boundary = "xyz";

/** A part of a multipart body as it is written; "\n" in `head` stands for a line end. */
const rawPart = (head: string, content: string | Uint8Array): Buffer =>
  Buffer.concat([
    Buffer.from(`--${boundary}\n${head}\n\n`.replaceAll("\n", "\r\n")),
    typeof content === "string" ? Buffer.from(content) : content,
    Buffer.from("\r\n"),
  ]);

/** Multipart bodies that no client would write. */
export const raw = {
  text: (name: string, content: string) => rawPart(`Content-Disposition: form-data; name="${name}"`, content),
  file: (name: string, content: string | Uint8Array) =>
    rawPart(`Content-Disposition: form-data; name="${name}"; filename="f"\nContent-Type: application/gzip`, content),
  end: Buffer.from(`--${boundary}--\r\n`),
  type: `multipart/form-data; boundary=${boundary}`,
};

export const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];

/** Whatever the registry has on its disk of a project's sources: blobs, manifests, uploads under way. */
export async function storedSources({ directory }: RegistryProcess, projectId: string): Promise<string[]> {
  const root = join(directory, "data/docker/registry/v2/repositories/svc", projectId, "source");
  const entries = await readdir(root, { recursive: true, withFileTypes: true }).catch(() => []);
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  // The state of a hash is what this registry forgets to remove when an upload is called off; it purges that later.
  return paths.filter((path) => !path.includes("/hashstates/")).map((path) => path.slice(root.length));
}
