import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { rawTar, tarHeader } from "../../../proto/src/testing/tar.ts";
import { aBundle, type BundleEntry, filesBundle } from "../testing/bundle.ts";
import { quiet } from "../testing/edge.ts";
import { type BundleStore, openBundleStore } from "./store.ts";
import { BundleRefusedError, unpack } from "./unpack.ts";

const name = (letter: string) => letter.repeat(64);
const forever = new AbortController().signal;

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-bundles-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

describe("unpack", () => {
  const put = (archive: Buffer | Readable) =>
    unpack(archive instanceof Readable ? archive : Readable.from([archive]), dir, forever, async () => {});

  test("stops where the disk gets full meanwhile, however little came in", async () => {
    let asked = 0;
    const requireRoom = async () => {
      asked += 1;
      if (asked > 2) throw new Error("the edge has too little disk space");
    };
    const zeros = "\0".repeat(8 * 2 ** 20);
    const bundle = await filesBundle(Object.fromEntries(Array.from({ length: 12 }, (_, at) => [`${at}.bin`, zeros])));
    expect(bundle.length).toBeLessThan(2 ** 20);
    await expect(unpack(Readable.from([bundle]), dir, forever, requireRoom)).rejects.toThrow("too little disk space");
    expect((await readdir(dir)).length).toBeLessThan(6);
  });

  test("writes files and directories, readable by all and writable by us", async () => {
    await put(
      await aBundle([
        { name: ".//", type: "directory" },
        { name: "a/b/c.txt", content: "deep" },
        { name: "a", type: "directory" },
        { name: "empty", type: "directory" },
        { name: "index.html", content: "home" },
        { name: ".env", content: "secret" },
      ]),
    );
    expect((await readdir(dir, { recursive: true })).sort()).toEqual(["a", "a/b", "a/b/c.txt", "empty", "index.html"]);
    expect(await readFile(join(dir, "a/b/c.txt"), "utf8")).toBe("deep");
    expect((await stat(join(dir, "index.html"))).mode & 0o777).toBe(0o644);
    expect((await stat(join(dir, "a/b"))).mode & 0o777).toBe(0o755);
  });

  test("gives equal content equal times, and other content others", async () => {
    await put(await filesBundle({ "a.txt": "one", "b.txt": "one", "c.txt": "two" }));
    const [a, b, c] = await Promise.all(
      ["a", "b", "c"].map(async (file) => (await stat(join(dir, `${file}.txt`))).mtimeMs),
    );
    expect(a).toBe(b);
    expect(a).not.toBe(c);
  });

  test.each<{ what: string; entries: BundleEntry[] }>([
    { what: "a path that climbs", entries: [{ name: "../evil", content: "x" }] },
    { what: "an absolute path", entries: [{ name: "/evil", content: "x" }] },
    { what: "a symbolic link", entries: [{ name: "a", type: "symlink", linkname: "/etc/passwd" }] },
    { what: "a hard link", entries: [{ name: "a", type: "link", linkname: "/etc/passwd" }] },
    { what: "a pipe", entries: [{ name: "a", type: "fifo" }] },
    { what: "a device", entries: [{ name: "a", type: "block-device" }] },
    {
      what: "a link as a directory of a file",
      entries: [
        { name: "a", type: "symlink", linkname: "/tmp" },
        { name: "a/x", content: "x" },
      ],
    },
    {
      what: "a name twice",
      entries: [
        { name: "a", content: "1" },
        { name: "./a", content: "2" },
      ],
    },
    {
      what: "a file that is also a directory",
      entries: [
        { name: "a", content: "1" },
        { name: "a/b", content: "2" },
      ],
    },
    {
      what: "a directory that is also a file",
      entries: [
        { name: "a/b", content: "2" },
        { name: "a", content: "1" },
      ],
    },
    { what: "a control character", entries: [{ name: "a\u001b[2J", content: "1" }] },
  ])("refuses $what", async ({ entries }) => {
    await expect(put(await aBundle([{ name: "index.html", content: "x" }, ...entries]))).rejects.toThrow(
      BundleRefusedError,
    );
  });

  test.each([
    // An extended header says how long it is, and is kept until its entry comes.
    { what: "a header without end", tar: tarHeader({ name: "p", type: "x", sizeBytes: 1024 ** 3 }) },
    { what: "a name that is not UTF-8", tar: rawTar({ name: Buffer.of(0x61, 0xe9), content: "x" }) },
    { what: "another archive behind it", tar: Buffer.concat([rawTar({ name: "a" }), rawTar({ name: "b" })]) },
    { what: "nothing that is a tar", tar: Buffer.from("hello".repeat(1000)) },
  ])("refuses $what, as trying again gives the same", async ({ tar }) => {
    await expect(put(gzipSync(Buffer.concat([tar, Buffer.alloc(64 * 1024)])))).rejects.toThrow(BundleRefusedError);
  });

  test.each([
    {
      what: "is cut short",
      archive: async () => (await filesBundle({ "a.txt": "x".repeat(100_000) })).subarray(0, -60),
    },
    { what: "is not compressed", archive: async () => Buffer.from("hello") },
    {
      what: "fails at its end, as one with another digest does",
      archive: async () => {
        const whole = await filesBundle({ "a.txt": "x" });
        return Readable.from(
          (async function* () {
            yield whole;
            throw new Error("the digest is another");
          })(),
        );
      },
    },
  ])("fails when the archive $what", async ({ archive }) => {
    await expect(put(await archive())).rejects.toThrow();
  });
});

describe("the store", () => {
  let store: BundleStore;
  const add = async (letter: string, archive?: Buffer) =>
    store.add(name(letter), Readable.from([archive ?? (await filesBundle({ "index.html": letter }))]), forever);
  beforeEach(async () => {
    store = await openBundleStore(dir, quiet);
  });

  test("has a bundle once all of it is in place, also after a restart", async () => {
    expect(store.has(name("a"))).toBe(false);
    await add("a");
    expect(store.has(name("a"))).toBe(true);
    expect(await readFile(join(dir, name("a"), "index.html"), "utf8")).toBe("a");
    expect((await openBundleStore(dir, quiet)).has(name("a"))).toBe(true);
  });

  test("links what never changes, also in bundles of a version that did not, and nothing else", async () => {
    const hashed = "assets/index-BxK2a9_f.js";
    await add(
      "a",
      await filesBundle({ "index.html": "a", [hashed]: "1", [`${hashed}.br`]: "2", "assets/logo.png": "3" }),
    );
    const linked = async () => (await readdir(join(store.immutablesDir, name("a")), { recursive: true })).toSorted();
    expect(await linked()).toEqual(["assets", hashed, `${hashed}.br`]);
    expect(await readFile(join(store.immutablesDir, name("a"), hashed), "utf8")).toBe("1");
    await rm(store.immutablesDir, { recursive: true });
    store = await openBundleStore(dir, quiet);
    expect(await linked()).toEqual(["assets", hashed, `${hashed}.br`]);
  });

  test("keeps nothing of a bundle that failed", async () => {
    await expect(add("a", await aBundle([{ name: "x", content: "1" }, { name: "../y" }]))).rejects.toThrow();
    expect(store.has(name("a"))).toBe(false);
    expect(await readdir(dir)).toEqual([".immutable"]);
    expect(await readdir(store.immutablesDir)).toEqual([]);
  });

  test("clears away at the start what a crash left half done", async () => {
    await add("a");
    await writeFile(join(dir, `.${name("b")}.123`), "");
    await rm(join(dir, "stray"), { force: true });
    await openBundleStore(dir, quiet);
    expect(await readdir(dir)).toEqual([".immutable", name("a")]);
    expect(await readdir(store.immutablesDir)).toEqual([name("a")]);
  });

  test("keeps of each project what it can go back to, also across a restart, and of a gone project nothing", async () => {
    const bounds = { kept: 2, graceMs: 0 };
    store = await openBundleStore(dir, quiet, bounds);
    const projects = new Set(["p", "q"]);
    const use = (letter: string, project: string) => new Map([[name(letter), new Set([project])]]);
    for (const [at, letter] of [..."abcd"].entries()) {
      await add(letter);
      await store.collect(use(letter, "p"), projects, at);
    }
    expect([..."abcd"].map((letter) => store.has(name(letter)))).toEqual([false, true, true, true]);
    store = await openBundleStore(dir, quiet, bounds);
    await add("e");
    await store.collect(use("e", "q"), projects, 9);
    expect([..."bcde"].map((letter) => store.has(name(letter)))).toEqual([false, true, true, true]);
    await store.collect(use("e", "q"), new Set(["q"]), 10);
    expect((await readdir(dir)).sort()).toEqual([".immutable", ".uses.json", name("e")]);
    expect(await readdir(store.immutablesDir)).toEqual([name("e")]);
    expect((await openBundleStore(dir, quiet, bounds)).has(name("e"))).toBe(true);
  });

  test("keeps what it knows nothing of for a while", async () => {
    await add("a");
    await rm(join(dir, ".uses.json"), { force: true });
    store = await openBundleStore(dir, quiet);
    await store.collect(new Map(), new Set(), Date.now());
    expect(store.has(name("a"))).toBe(true);
    store = await openBundleStore(dir, quiet, { kept: 5, graceMs: 0 });
    await store.collect(new Map(), new Set(), Date.now() + 1);
    expect(store.has(name("a"))).toBe(false);
  });
});
