import { createHash } from "node:crypto";
import { chmod, readFile, utimes } from "node:fs/promises";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { createGunzip } from "node:zlib";
import fc from "fast-check";
import { extract } from "tar-stream";
import { expect, test } from "vitest";
import { aDirectory } from "../testing/svc.ts";
import { streamArchive, writeArchive } from "./archive.ts";
import { listTree } from "./tree.ts";

const calm = new AbortController().signal;
const wanted = { files: new Set<string>(), directories: [] };

async function pack(directory: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      chunks.push(chunk);
      done();
    },
  });
  await streamArchive(await listTree({ directory, prefix: "", wanted }, () => {}), sink, calm);
  return Buffer.concat(chunks);
}

async function unpack(archive: Buffer) {
  const found: Record<string, { mode: number | undefined; mtime: number; owner: string; text: string }> = {};
  const tar = Readable.from([archive]).pipe(createGunzip()).pipe(extract());
  for await (const entry of tar) {
    const chunks: Buffer[] = [];
    for await (const chunk of entry as AsyncIterable<Buffer>) chunks.push(chunk);
    const { name, mode, mtime, uid, gid, uname } = entry.header;
    const owner = `${uid}:${gid}:${uname}`;
    found[name] = { mode, mtime: mtime?.getTime() ?? -1, owner, text: Buffer.concat(chunks).toString() };
  }
  return found;
}

test("an archive has the files, and nothing of who packed them when", async () => {
  const long = `${"d".repeat(90)}/${"e".repeat(90)}/ünïcode.txt`;
  await using directory = await aDirectory({ "a.txt": "A", "run.sh": "#!", empty: "", [long]: "L" });
  await chmod(join(directory.path, "run.sh"), 0o4775);
  await chmod(join(directory.path, "a.txt"), 0o640);
  const plain = { mtime: 0, owner: "0:0:" };
  expect(await unpack(await pack(directory.path))).toEqual({
    "a.txt": { ...plain, mode: 0o644, text: "A" },
    empty: { ...plain, mode: 0o644, text: "" },
    "run.sh": { ...plain, mode: 0o755, text: "#!" },
    [long]: { ...plain, mode: 0o644, text: "L" },
  });
});

test("the same tree makes the same bytes, whenever and in whatever order it was made", async () => {
  const name = fc.stringMatching(/^[a-zA-Zä0-9 _-]{1,12}$/).filter((each) => each.trim() === each);
  await fc.assert(
    fc.asyncProperty(fc.dictionary(name, fc.string({ maxLength: 300 }), { minKeys: 1, maxKeys: 8 }), async (files) => {
      await using one = await aDirectory(files);
      await using two = await aDirectory(Object.fromEntries(Object.entries(files).reverse()));
      for (const each of Object.keys(files)) await utimes(join(two.path, each), 1, 1);
      expect(await pack(one.path)).toEqual(await pack(two.path));
    }),
    { numRuns: 30 },
  );
});

test("what is written to a file is what was measured, and only its owner reads it", async () => {
  await using directory = await aDirectory({ "big.bin": "x".repeat(300_000), "b.txt": "b" });
  const entries = await listTree({ directory: directory.path, prefix: "", wanted }, () => {});
  await using target = await aDirectory();
  const file = join(target.path, "source.tgz");
  const archive = await writeArchive(entries, file, calm);
  const content = await readFile(file);
  expect(archive).toEqual({ sizeBytes: content.length, unpackedBytes: 300_001, files: 2 });
  const digest = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");
  expect(digest(content)).toBe(digest(await pack(directory.path)));
  // The system field of the gzip header says "unknown".
  expect(content[9]).toBe(255);
});

test("a file that is gone by the time it is packed fails the whole", async () => {
  await using directory = await aDirectory({ "a.txt": "A" });
  const sink = new Writable({ write: (_chunk, _encoding, done) => done() });
  const gone = {
    kind: "file",
    path: "b.txt",
    file: join(directory.path, "b.txt"),
    executable: false,
    sizeBytes: 1,
  } as const;
  await expect(streamArchive([gone], sink, calm)).rejects.toMatchObject({ code: "ENOENT" });
});

test("an interrupted archive ends", async () => {
  await using directory = await aDirectory({ "a.txt": "A".repeat(1_000_000) });
  const entries = await listTree({ directory: directory.path, prefix: "", wanted }, () => {});
  const stop = new AbortController();
  const sink = new Writable({ write: () => stop.abort() });
  await expect(streamArchive(entries, sink, stop.signal)).rejects.toThrow();
});
