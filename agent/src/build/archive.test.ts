import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { pack } from "tar-stream";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readArchive } from "./archive.ts";

let spoolDir: string;
beforeEach(async () => {
  spoolDir = await mkdtemp(join(tmpdir(), "svc-archive-"));
});
afterEach(() => rm(spoolDir, { recursive: true, force: true }));

type Entry = Parameters<ReturnType<typeof pack>["entry"]>[0] & { text?: string };

async function aTar(entries: Entry[]): Promise<Buffer> {
  const tar = pack();
  for (const { text, ...header } of entries) tar.entry(header, text ?? "");
  tar.finalize();
  return buffer(tar as AsyncIterable<Uint8Array>);
}

const read = (bytes: Buffer, maxBytes = 1_000_000) =>
  readArchive(Readable.from([bytes]), { spoolDir, maxBytes, isOutput: false, signal: AbortSignal.timeout(10_000) });

test("files, links and directories are indexed, and read by slices", async () => {
  const tar = await aTar([
    { name: "a/", type: "directory" },
    { name: "a/one.txt", text: "one" },
    { name: "empty.txt" },
    { name: "two.txt", text: "t".repeat(600_000) },
    { name: "again.txt", type: "link", linkname: "a/one.txt" },
    { name: "link", type: "symlink", linkname: "a/one.txt" },
  ]);
  await using archive = await read(gzipSync(tar));
  const textOf = async (path: string): Promise<string | undefined> => {
    const file = archive.files.get(path);
    return file === undefined ? undefined : (await archive.read(file)).toString();
  };
  expect([...archive.files.keys()]).toEqual(["a/one.txt", "empty.txt", "two.txt", "again.txt"]);
  expect(await textOf("a/one.txt")).toBe("one");
  expect(await textOf("empty.txt")).toBe("");
  expect(await textOf("two.txt")).toHaveLength(600_000);
  expect(await textOf("again.txt")).toBe("one");
  expect(archive.symlinks).toEqual(new Map([["link", "a/one.txt"]]));
  expect(archive.directories).toEqual(new Set(["a"]));
});

test("the spool goes with the archive", async () => {
  const archive = await read(gzipSync(await aTar([{ name: "a", text: "a" }])));
  expect(await readdir(spoolDir)).toHaveLength(1);
  await archive[Symbol.asyncDispose]();
  expect(await readdir(spoolDir)).toEqual([]);
});

test.each([
  {
    when: "it inflates without end",
    make: async () => gzipSync(Buffer.alloc(400 * 1024 * 1024)),
    code: "SOURCE_TOO_LARGE",
  },
  {
    when: "its files are too large",
    make: async () => gzipSync(await aTar([{ name: "a", text: "x".repeat(2_000_000) }])),
    code: "SOURCE_TOO_LARGE",
  },
  { when: "it is not compressed", make: () => aTar([{ name: "a", text: "a" }]), code: "SOURCE_INVALID" },
  { when: "it is not a tar", make: async () => gzipSync(Buffer.from("hello".repeat(500))), code: "SOURCE_INVALID" },
  {
    when: "it is cut off",
    make: async () => gzipSync((await aTar([{ name: "a", text: "x".repeat(5_000) }])).subarray(0, 2_000)),
    code: "SOURCE_INVALID",
  },
  {
    when: "its compression is cut off",
    make: async () => gzipSync(await aTar([{ name: "a", text: "a" }])).subarray(0, 60),
    code: "SOURCE_INVALID",
  },
  {
    when: "a name climbs out",
    make: async () => gzipSync(await aTar([{ name: "../a", text: "a" }])),
    code: "SOURCE_INVALID",
  },
  {
    when: "a second archive follows",
    make: async () =>
      gzipSync(Buffer.concat([await aTar([{ name: "a", text: "a" }]), await aTar([{ name: "b", text: "b" }])])),
    code: "SOURCE_INVALID",
  },
  {
    when: "two names differ only in case",
    make: async () =>
      gzipSync(
        await aTar([
          { name: "Dockerfile", text: "a" },
          { name: "dockerfile", text: "b" },
        ]),
      ),
    code: "SOURCE_INVALID",
  },
  {
    when: "it has a device",
    make: async () => gzipSync(await aTar([{ name: "a", type: "character-device" }])),
    code: "SOURCE_INVALID",
  },
])("when $when it is refused and leaves nothing", async ({ make, code }) => {
  await expect(read(await make())).rejects.toMatchObject({ code });
  expect(await readdir(spoolDir)).toEqual([]);
});

test("what a build wrote may have two names that differ only in case", async () => {
  const tar = await aTar([
    { name: "tags/Go/index.html", text: "a" },
    { name: "tags/go/index.html", text: "b" },
  ]);
  const signal = AbortSignal.timeout(10_000);
  await using archive = await readArchive(Readable.from([tar]), {
    spoolDir,
    maxBytes: 1_000_000,
    isOutput: true,
    signal,
  });
  expect([...archive.files.keys()]).toEqual(["tags/Go/index.html", "tags/go/index.html"]);
});
