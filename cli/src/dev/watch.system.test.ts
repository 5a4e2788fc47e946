import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { aDirectory } from "../testing/svc.ts";
import { bareTree, type WatchDirectory, watchDirectory, watchTree } from "./watch.ts";

/** A tree that is watched, and how often something was heard of it. */
async function watching(directory: string, watch?: WatchDirectory) {
  const end = new AbortController();
  const heard = { changes: 0, scans: 0 };
  const directories: string[] = [];
  await watchTree(bareTree(directory), {
    clock: systemClock,
    signal: end.signal,
    onChange: () => {
      heard.changes++;
    },
    onScan: () => {
      heard.scans++;
    },
    watch:
      watch ??
      ((each, ...rest) => {
        directories.push(each.slice(directory.length));
        return watchDirectory(each, ...rest);
      }),
  });
  return {
    heard,
    directories,
    /** Does something, and waits until it is heard of. */
    async hears(change: () => Promise<unknown>) {
      const before = heard.changes;
      await change();
      await expect.poll(() => heard.changes).toBeGreaterThan(before);
    },
    [Symbol.dispose]: () => end.abort(),
  };
}

const files = {
  ".gitignore": "built/\n*.log\n",
  "a.js": "",
  "src/b.js": "",
  "built/c.js": "",
  "node_modules/x/y.js": "",
  ".git/HEAD": "",
};

test("only directories that go along are watched", async () => {
  await using directory = await aDirectory(files);
  using watched = await watching(directory.path);
  expect(watched.directories.toSorted()).toEqual(["", "/src"]);
});

test("whatever way something is saved, it is heard of", async () => {
  await using directory = await aDirectory(files);
  const at = (name: string) => join(directory.path, name);
  using watched = await watching(directory.path);
  await watched.hears(() => writeFile(at("src/b.js"), "1"));
  await watched.hears(async () => {
    await writeFile(at("src/b.js~"), "2");
    await rename(at("src/b.js~"), at("src/b.js"));
  });
  await watched.hears(() => symlink("b.js", at("src/link")));
  await watched.hears(() => rm(at("a.js")));
  await watched.hears(() => mkdir(at("src/new/deep"), { recursive: true }));
  // It was not there when the watch began.
  await expect.poll(() => watched.directories).toContain("/src/new/deep");
  await watched.hears(() => writeFile(at("src/new/deep/d.js"), "3"));
  await watched.hears(() => rm(at("src/new"), { recursive: true }));
});

test("a directory that is left out no longer is watched from then on", async () => {
  await using directory = await aDirectory(files);
  const at = (name: string) => join(directory.path, name);
  using watched = await watching(directory.path);
  await watched.hears(() => writeFile(at(".gitignore"), "*.log\n"));
  await expect.poll(() => watched.directories).toContain("/built");
  await watched.hears(() => writeFile(at("built/c.js"), "1"));
});

test("a machine that watches no more directories has the tree looked through instead", async () => {
  await using directory = await aDirectory(files);
  const exhausted = Object.assign(new Error("no space left"), { code: "ENOSPC" });
  let left = 1;
  using watched = await watching(directory.path, (...given) => {
    if (left-- > 0) return watchDirectory(...given);
    throw exhausted;
  });
  expect(watched.heard.scans).toBe(1);
  let times = 0;
  await watched.hears(() => writeFile(join(directory.path, "src/b.js"), String(++times)));
  await watched.hears(() => rm(join(directory.path, "a.js")));
  expect(watched.heard.scans).toBe(1);
});
