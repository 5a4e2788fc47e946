import { createHash, randomBytes } from "node:crypto";
import { appendFileSync } from "node:fs";
import { chmod, lchown, lutimes, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Readable, Writable } from "node:stream";
import { createGunzip } from "node:zlib";
import { runProgramSync } from "@svc/runtime/programs";
import fc from "fast-check";
import { extract } from "tar-stream";
import { expect, test } from "vitest";
import { aDirectory } from "../testing/svc.ts";
import { streamArchive, writeArchive } from "./archive.ts";
import { listTree } from "./tree.ts";

const silent = { special: () => {}, leftOut: () => {} };
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
  await streamArchive(await listTree({ directory, prefix: "", wanted }, silent), sink, calm);
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

test("the same tree makes the same bytes, whenever, by whomever and in whatever order it was made", async () => {
  const name = fc.stringMatching(/^[a-zA-Zä0-9 _-]{1,12}$/).filter((each) => each.trim() === each);
  const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((parts) => parts.join("/"));
  const file = fc.record({ text: fc.string({ maxLength: 300 }), executable: fc.boolean(), isLink: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(fc.dictionary(path, file, { minKeys: 1, maxKeys: 8 }), fc.integer(), async (files, at) => {
      await using one = await aDirectory();
      await using two = await aDirectory();
      const isMine = process.getuid?.() !== 0;
      await plant(one.path, Object.entries(files));
      await plant(two.path, Object.entries(files).reverse(), async (each) => {
        await lutimes(each, Math.abs(at), Math.abs(at));
        // Whose it is says nothing either; only root can give a file away.
        if (!isMine) await lchown(each, 65_534, 65_534);
      });
      expect((await pack(one.path)).equals(await pack(two.path))).toBe(true);
    }),
    { numRuns: 30 },
  );
});

interface Planted {
  text: string;
  executable: boolean;
  isLink: boolean;
}

/** Makes these files, and links to nowhere in particular; what would lie below a file is left out. */
async function plant(root: string, files: [string, Planted][], after?: (path: string) => Promise<void>): Promise<void> {
  const all = new Set(files.map(([path]) => path));
  for (const [path, { text, executable, isLink }] of files) {
    const parts = path.split("/");
    if (parts.some((_, depth) => depth > 0 && all.has(parts.slice(0, depth).join("/")))) continue;
    if ([...all].some((other) => other.startsWith(`${path}/`))) continue;
    const target = join(root, path);
    await mkdir(dirname(target), { recursive: true });
    if (isLink) await symlink("elsewhere", target);
    else await writeFile(target, text, { mode: executable ? 0o755 : 0o640 });
    await after?.(target);
  }
}

test("what is written to a file is what was measured, and only its owner reads it", async () => {
  await using directory = await aDirectory({ "big.bin": "x".repeat(300_000), "b.txt": "b" });
  const entries = await listTree({ directory: directory.path, prefix: "", wanted }, silent);
  await using target = await aDirectory();
  const file = join(target.path, "source.tgz");
  const archive = await writeArchive(entries, file, calm);
  const content = await readFile(file);
  expect(archive).toMatchObject({ sizeBytes: content.length, unpackedBytes: 300_001, files: 2 });
  const digest = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");
  expect(archive.digest).toBe(digest(content));
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
  await expect(streamArchive([gone], sink, calm)).rejects.toMatchObject({
    code: "DEPLOY_TRIGGER_FAILED",
    message: "b.txt changed while it was packed",
  });
});

test("an interrupted archive ends", async () => {
  await using directory = await aDirectory({ "a.txt": "A".repeat(1_000_000) });
  const entries = await listTree({ directory: directory.path, prefix: "", wanted }, silent);
  const stop = new AbortController();
  const sink = new Writable({ write: () => stop.abort() });
  await expect(streamArchive(entries, sink, stop.signal)).rejects.toThrow();
});

test("a file that somebody writes to while it is packed fails the whole", async () => {
  await using directory = await aDirectory({ "a.txt": "A" });
  const file = join(directory.path, "growing.log");
  await writeFile(file, randomBytes(4 * 1024 * 1024));
  const sink = new Writable({
    write: (_chunk, _encoding, done) => {
      appendFileSync(file, "one line more\n");
      done();
    },
  });
  const entries = await listTree({ directory: directory.path, prefix: "", wanted }, silent);
  await expect(streamArchive(entries, sink, calm)).rejects.toMatchObject({
    code: "DEPLOY_TRIGGER_FAILED",
    message: "growing.log changed while it was packed",
  });
});

test.each([
  ["a link", (path: string) => symlink("/etc/passwd", path)],
  ["a pipe", async (path: string) => void runProgramSync(["mkfifo", path])],
  ["a directory", async (path: string) => void (await mkdir(path))],
])("%s in the place of a file is neither read nor waited for", async (_, replace) => {
  await using directory = await aDirectory({ "a.txt": "A" });
  const entries = await listTree({ directory: directory.path, prefix: "", wanted }, silent);
  const path = join(directory.path, "a.txt");
  await rm(path);
  await replace(path);
  const sink = new Writable({ write: (_chunk, _encoding, done) => done() });
  await expect(streamArchive(entries, sink, calm)).rejects.toMatchObject({ code: "DEPLOY_TRIGGER_FAILED" });
});

test("an archive that gets larger than it may ends there", async () => {
  await using directory = await aDirectory();
  await writeFile(join(directory.path, "big.bin"), randomBytes(3 * 1024 * 1024));
  let written = 0;
  const sink = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      written += chunk.length;
      done();
    },
  });
  const entries = await listTree({ directory: directory.path, prefix: "", wanted }, silent);
  const limit = { maxBytes: 1024 * 1024, tooLarge: () => new Error("too large") };
  await expect(streamArchive(entries, sink, calm, limit)).rejects.toThrow("too large");
  expect(written).toBeLessThanOrEqual(limit.maxBytes);
});

test("names as long as a file system has them come through", async () => {
  const name = "n".repeat(255);
  const path = [...Array.from({ length: 3 }, () => "d".repeat(200)), name].join("/");
  await using directory = await aDirectory({ [path]: "deep" });
  expect(await unpack(await pack(directory.path))).toMatchObject({ [path]: { text: "deep" } });
});
