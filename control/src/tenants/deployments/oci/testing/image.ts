import { gzipSync } from "node:zlib";
import { digestOf, type Registry } from "@svc/registry";

export interface TarEntry {
  name: string;
  content?: Buffer;
  /** "0" is a file. */
  type?: string;
  /** Written into the header instead of the content's. */
  size?: number;
}

const padded = (content: Buffer): Buffer =>
  Buffer.concat([content, Buffer.alloc((512 - (content.length % 512)) % 512)]);

function header({ name, content = Buffer.alloc(0), type = "0", size = content.length }: TarEntry): Buffer {
  const block = Buffer.alloc(512);
  block.write(name, 0);
  block.write("0000644\0", 100);
  block.write("0000000\0", 108);
  block.write("0000000\0", 116);
  block.write(`${size.toString(8).padStart(11, "0")}\0`, 124);
  block.write("00000000000\0", 136);
  block.write("        ", 148);
  block.write(type, 156);
  block.write("ustar\x0000", 257, "latin1");
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

/** A tar archive, complete with its end. */
export const tarOf = (entries: readonly TarEntry[]): Buffer =>
  Buffer.concat([
    ...entries.flatMap((entry) => [header(entry), padded(entry.content ?? Buffer.alloc(0))]),
    Buffer.alloc(1024),
  ]);

/** An extended header in front of an entry. */
export const paxEntry = (records: Readonly<Record<string, string>>): TarEntry => {
  const lines = Object.entries(records).map(([key, value]) => {
    const rest = ` ${key}=${value}\n`;
    const length = [1, 2, 3]
      .map((digits) => rest.length + digits)
      .find((sum) => String(sum).length === sum - rest.length);
    return `${length}${rest}`;
  });
  return { name: "pax", type: "x", content: Buffer.from(lines.join("")) };
};

export interface TestImage {
  manifest: Buffer;
  digest: string;
  config: Buffer;
  layers: Buffer[];
}

export interface ImageFacts {
  layers?: Buffer[];
  os?: string;
  architecture?: string;
  /** The run configuration: entrypoint, user, labels. */
  run?: object;
  /** Written over the manifest's own fields. */
  manifest?: object;
  /** Written over the fields of the first layer's descriptor. */
  descriptor?: object;
}

export const aLayer = (text: string): Buffer =>
  gzipSync(tarOf([{ name: "app.txt", content: Buffer.from(text) }]), { level: 1 });

/** A small image for linux/amd64 that could run, but for what `facts` change. */
export function anImage(facts: ImageFacts = {}): TestImage {
  const { layers = [aLayer("hello")], os = "linux", architecture = "amd64", run = { Cmd: ["/app"] } } = facts;
  const config = Buffer.from(
    JSON.stringify({
      os,
      architecture,
      config: run,
      rootfs: { type: "layers", diff_ids: layers.map((layer) => digestOf(layer)) },
    }),
  );
  const descriptor = (content: Buffer, mediaType: string) => ({
    mediaType,
    digest: digestOf(content),
    size: content.length,
  });
  const [first, ...more] = layers.map((layer) => descriptor(layer, "application/vnd.oci.image.layer.v1.tar+gzip"));
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: "application/vnd.oci.image.manifest.v1+json",
      config: descriptor(config, "application/vnd.oci.image.config.v1+json"),
      layers: first === undefined ? [] : [{ ...first, ...facts.descriptor }, ...more],
      ...facts.manifest,
    }),
  );
  return { manifest, digest: digestOf(manifest), config, layers };
}

/** Puts an image where it can be pulled from. */
export async function pushImage(registry: Registry, repository: string, image: TestImage, tag?: string): Promise<void> {
  for (const blob of [image.config, ...image.layers]) await registry.pushBlob(repository, blob);
  await registry.putManifest(repository, image.manifest, {
    ...(tag !== undefined && { tag }),
    mediaType: "application/vnd.oci.image.manifest.v1+json",
  });
}
