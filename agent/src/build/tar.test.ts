import { buffer } from "node:stream/consumers";
import { extract } from "tar-stream";
import { expect, test } from "vitest";
import { packTar, type TarEntry } from "./tar.ts";

async function* all(entries: TarEntry[]): AsyncGenerator<TarEntry> {
  yield* entries;
}

async function* chunks(count: number, sizeBytes: number): AsyncGenerator<Uint8Array> {
  for (let index = 0; index < count; index += 1) yield new Uint8Array(sizeBytes).fill(index);
}

async function list(tar: Buffer): Promise<{ name: string; size: number; mtime: number }[]> {
  const found: { name: string; size: number; mtime: number }[] = [];
  const reader = extract();
  reader.end(tar);
  for await (const entry of reader) {
    const { name, size = 0, mtime } = entry.header;
    found.push({ name, size, mtime: mtime?.getTime() ?? -1 });
    entry.resume();
  }
  return found;
}

test("entries come out as they went in, without a time", async () => {
  const tar = await buffer(
    packTar(
      all([
        { kind: "directory", name: "a" },
        { kind: "bytes", name: "a/b", executable: false, content: Buffer.from("hello") },
        { kind: "stream", name: "a/c", executable: true, content: chunks(100, 65_536), sizeBytes: 6_553_600 },
        { kind: "symlink", name: "a/d", target: "b" },
      ]),
    ),
  );
  expect(await list(tar)).toEqual([
    { name: "a", size: 0, mtime: 0 },
    { name: "a/b", size: 5, mtime: 0 },
    { name: "a/c", size: 6_553_600, mtime: 0 },
    { name: "a/d", size: 0, mtime: 0 },
  ]);
});

test("no more is read than the reader of the tar asks for", async () => {
  let made = 0;
  async function* endless(): AsyncGenerator<TarEntry> {
    for (; ; made += 1) yield { kind: "bytes", name: `f${made}`, executable: false, content: Buffer.alloc(100_000) };
  }
  const tar = packTar(endless());
  await new Promise((resolve) => tar.once("readable", resolve));
  expect(made).toBeLessThan(20);
  tar.destroy();
});

test("a failure while packing is a failure of the stream", async () => {
  async function* broken(): AsyncGenerator<TarEntry> {
    yield { kind: "directory", name: "a" };
    throw new Error("disk full");
  }
  await expect(buffer(packTar(broken()))).rejects.toThrow("disk full");
});
