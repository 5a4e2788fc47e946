import { createHash, randomBytes } from "node:crypto";
import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { createRegistry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { packTar, type TarEntry } from "../build/tar.ts";

/** Stores an image with one file of `sizeMb` random MB, which no compression helps with. Returns its reference by digest. */
export async function pushImageOf(host: string, repository: string, sizeMb: number): Promise<string> {
  async function* entries(): AsyncGenerator<TarEntry> {
    yield { kind: "bytes", name: "noise", executable: false, content: randomBytes(sizeMb * 1024 * 1024) };
  }
  const layer = await buffer(packTar(entries()));
  const architecture = { x64: "amd64", arm64: "arm64" }[process.arch as "x64" | "arm64"];
  const config = {
    ...{ os: "linux", architecture, config: { Cmd: ["/noise"] } },
    rootfs: { type: "layers", diff_ids: [`sha256:${createHash("sha256").update(layer).digest("hex")}`] },
  };
  await using registry = createRegistry(systemClock, { url: `http://${host}` });
  const types = "application/vnd.docker";
  const descriptor = async (mediaType: string, content: Buffer) => {
    const { digest, sizeBytes } = await registry.pushBlob(repository, content);
    return { mediaType, digest, size: sizeBytes };
  };
  const { digest } = await registry.putManifest(repository, {
    schemaVersion: 2,
    mediaType: `${types}.distribution.manifest.v2+json`,
    config: await descriptor(`${types}.container.image.v1+json`, Buffer.from(JSON.stringify(config))),
    layers: [await descriptor(`${types}.image.rootfs.diff.tar.gzip`, gzipSync(layer, { level: 1 }))],
  });
  return `${host}/${repository}@${digest}`;
}
