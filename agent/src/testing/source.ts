import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { createRegistry, type TokenSource } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { packTar, type TarEntry } from "../build/tar.ts";

/** Packs files as the CLI does. */
export async function packSource(files: Readonly<Record<string, string>>): Promise<Buffer> {
  async function* entries(): AsyncGenerator<TarEntry> {
    for (const [name, text] of Object.entries(files)) {
      yield { kind: "bytes", name, executable: false, content: Buffer.from(text) };
    }
  }
  return gzipSync(await buffer(packTar(entries())));
}

/** Stores a source archive in the registry and returns its digest. `tokens` for one that goes by them. */
export async function pushSource(
  host: string,
  repository: string,
  archive: Buffer,
  tokens?: TokenSource,
): Promise<string> {
  await using registry = createRegistry(systemClock, { url: `http://${host}`, ...(tokens && { tokens }) });
  return (await registry.pushArtifact(repository, { kind: "source", stream: archive })).digest;
}
