import { once } from "node:events";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { runProgramSync } from "@svc/runtime/programs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { aDirectory } from "../testing/svc.ts";
import { listTree, staysInside, type Tree } from "./tree.ts";

const silent = { special: () => {}, leftOut: () => {} };
const nothing = { files: new Set<string>(), directories: [] };

/** The paths that are packed of a directory with these files. */
async function packed(
  files: Record<string, string | Uint8Array>,
  tree: Partial<Tree> & { below?: string } = {},
): Promise<string[]> {
  await using directory = await aDirectory(files);
  const { below = "", ...rest } = tree;
  const entries = await listTree(
    { directory: join(directory.path, below), prefix: "", wanted: nothing, ...rest },
    silent,
  );
  return entries.map(({ path }) => path);
}

describe("of a directory", () => {
  test("everything is packed, in the order of bytes", async () => {
    expect(await packed({ "b.txt": "", "a/z.txt": "", "a.txt": "", "Z.txt": "", "ä.txt": "", "a-b.txt": "" })).toEqual([
      "Z.txt",
      "a-b.txt",
      "a.txt",
      "a/z.txt",
      "b.txt",
      "ä.txt",
    ]);
  });

  test("what belongs to the machine and not to the app stays, at any depth", async () => {
    const files = [
      ".git/HEAD",
      "x/.git",
      "node_modules/a/index.js",
      "x/node_modules/b.js",
      ".env",
      ".env.local",
      "x/.env",
      ".envrc",
      ".svc/state.json",
      "x/.svc/state.json",
      "kept.js",
      ".svc/notes.md",
    ];
    expect(await packed(Object.fromEntries(files.map((name) => [name, ""])))).toEqual([".svc/notes.md", "kept.js"]);
  });

  test("a slash alone leaves nothing out", async () => {
    const files = { ".gitignore": "/\n", "sub/.gitignore": "/\n!/\n", "sub/deep/a.js": "", "sub/b.js": "" };
    expect(await packed(files)).toEqual([".gitignore", "sub/.gitignore", "sub/b.js", "sub/deep/a.js"]);
  });

  test("an ignore file that nothing would be found in is refused", async () => {
    const utf16 = Buffer.from("\ufeffsecrets/\n", "utf16le");
    for (const path of [".svcignore", "sub/.svcignore"])
      await expect(packed({ ".svcignore": "", [path]: utf16 })).rejects.toThrow(`${path} is not text in UTF-8`);
  });

  test(".gitignore counts, the deeper one first", async () => {
    const files = {
      ".gitignore": "*.log\nbuild/\n/only-here.txt\n",
      "a.log": "",
      "build/x.js": "",
      "only-here.txt": "",
      "sub/only-here.txt": "",
      "sub/.gitignore": "!keep.log\n*.tmp\n",
      "sub/keep.log": "",
      "sub/drop.log": "",
      "sub/x.tmp": "",
      "x.tmp": "",
    };
    expect(await packed(files)).toEqual([".gitignore", "sub/.gitignore", "sub/keep.log", "sub/only-here.txt", "x.tmp"]);
  });

  test("a deeper file takes back a directory that one above leaves out", async () => {
    const files = {
      ".gitignore": "dist/\n*.map\n",
      "dist/x.js": "",
      "lib [1]/.gitignore": "!dist/\n",
      "lib [1]/dist/x.js": "",
      "lib [1]/dist/x.map": "",
    };
    expect(await packed(files)).toEqual([".gitignore", "lib [1]/.gitignore", "lib [1]/dist/x.js"]);
  });

  test("a .svcignore stands in for every .gitignore", async () => {
    const files = {
      ".gitignore": "dist/\n",
      ".svcignore": "*.md\n",
      "dist/x.js": "",
      "a.md": "",
      "sub/.gitignore": "*\n",
      "sub/x.js": "",
    };
    expect(await packed(files)).toEqual([".gitignore", ".svcignore", "dist/x.js", "sub/.gitignore", "sub/x.js"]);
  });

  test("migrations and the files of env.files go along, whatever is ignored", async () => {
    const files = {
      ".gitignore": ".svc/\n*.sql\n.env.production\nconfig/\n",
      ".svc/migrations/1.sql": "",
      ".svc/migrations/.env": "",
      ".svc/cache.json": "",
      ".env.production": "",
      ".env": "",
      "config/.env.shared": "",
      "config/other.txt": "",
      "x.sql": "",
    };
    const wanted = { files: new Set([".env.production", "config/.env.shared"]), directories: [".svc/migrations"] };
    expect(await packed(files, { wanted })).toEqual([
      ".env.production",
      ".gitignore",
      ".svc/migrations/1.sql",
      "config/.env.shared",
    ]);
  });

  test("a directory that its repository ignores as a whole is packed all the same", async () => {
    const files = {
      ".gitignore": "out/\n",
      "out/index.html": "",
      "out/drafts/a.html": "",
      "out/.gitignore": "drafts/\n",
    };
    expect(await packed(files, { below: "out", prefix: "out/" })).toEqual(["out/.gitignore", "out/index.html"]);
  });

  test("a directory of a repository keeps its place in it, and obeys the ignore files above", async () => {
    const files = {
      ".gitignore": "*.log\n/apps/web/secret.txt\n",
      "apps/.gitignore": "tmp/\n",
      "apps/web/a.log": "",
      "apps/web/secret.txt": "",
      "apps/web/tmp/x": "",
      "apps/web/index.html": "",
      "other/x": "",
    };
    expect(await packed(files, { below: "apps/web", prefix: "apps/web/" })).toEqual(["apps/web/index.html"]);
  });
});

test("what is left out is told, with the rule that does it", async () => {
  await using directory = await aDirectory({
    ".gitignore": "# built\ndist/\n",
    "sub/.gitignore": "*.log\n!keep.log\n",
    "dist/x.js": "",
    "sub/a.log": "",
    "sub/keep.log": "",
    ".env": "",
    "node_modules/a.js": "",
    ".git/HEAD": "",
  });
  const left: Record<string, string> = {};
  await listTree(
    { directory: directory.path, prefix: "", wanted: nothing },
    {
      special: () => {},
      leftOut: (path, why) => {
        left[path] = why;
      },
    },
  );
  expect(left).toEqual({
    ".env": expect.stringContaining("env.files"),
    ".git/": expect.stringContaining("never"),
    "node_modules/": expect.stringContaining("never"),
    "dist/": "dist/ in .gitignore:2",
    "sub/a.log": "*.log in sub/.gitignore:1",
  });
});

test("pipes and sockets are left out, and told", async () => {
  await using directory = await aDirectory({ "a.txt": "" });
  runProgramSync(["mkfifo", join(directory.path, "pipe")]);
  const server = createServer().listen(join(directory.path, "socket"));
  try {
    await once(server, "listening");
    const special: string[] = [];
    const tree = { directory: directory.path, prefix: "", wanted: nothing };
    const entries = await listTree(tree, { ...silent, special: (path) => special.push(path) });
    expect(entries.map(({ path }) => path)).toEqual(["a.txt"]);
    expect(special.sort()).toEqual(["pipe", "socket"]);
  } finally {
    server.close();
  }
});

test.each([
  ["a backslash", "a\\b"],
  ["a control character", "a\u0007b"],
])("a name with %s is refused before anything is sent", async (_, name) => {
  await using directory = await aDirectory({ [name]: "" });
  const tree = { directory: directory.path, prefix: "", wanted: nothing };
  await expect(listTree(tree, silent)).rejects.toMatchObject({
    code: "DEPLOY_TRIGGER_FAILED",
    // A new .svcignore would stand in for every .gitignore, and send what that left out.
    hint: expect.stringContaining(".gitignore, or in .svcignore if you have one"),
  });
});

test.each(["file", "directory"])(
  "a name of a %s that is not UTF-8 is refused, and nothing else is said of it",
  async (kind) => {
    await using directory = await aDirectory({});
    const name = Buffer.concat([Buffer.from(`${directory.path}/caf`), Buffer.from([0xe9])]);
    if (kind === "file") await writeFile(name, "");
    else await mkdir(name);
    const tree = { directory: directory.path, prefix: "", wanted: nothing };
    await expect(listTree(tree, silent)).rejects.toMatchObject({
      code: "DEPLOY_TRIGGER_FAILED",
      message: "caf\ufffd has a name that is not UTF-8",
    });
  },
);

test("names that differ only in case are refused before anything is sent", async () => {
  await using directory = await aDirectory({ "README.md": "", "readme.md": "" });
  const tree = { directory: directory.path, prefix: "", wanted: nothing };
  await expect(listTree(tree, silent)).rejects.toThrow(
    'readme.md differs from "README.md" only in upper and lower case',
  );
});

test("the order is that of UTF-8 bytes", async () => {
  const names = fc.uniqueArray(
    fc.string({ unit: fc.constantFrom("a", "B", "-", "ä", "\ue000", "\uffef", "😀", "𐀀"), minLength: 1, maxLength: 4 }),
    { maxLength: 8, selector: (name) => name.normalize("NFC") },
  );
  await fc.assert(
    fc.asyncProperty(names, async (some) => {
      const expected = [...some].sort((left, right) => Buffer.compare(Buffer.from(left), Buffer.from(right)));
      expect(await packed(Object.fromEntries(some.map((name) => [name, ""])))).toEqual(expected);
    }),
    { numRuns: 50 },
  );
});

describe("a link", () => {
  test.each([
    ["a", "b", true],
    ["a", "./b/c", true],
    ["x/a", "../b", true],
    ["x/y/a", "../../b", true],
    ["a", "../b", false],
    ["x/a", "../../b", false],
    ["a", "/etc/passwd", false],
    ["a", "b/../../c", false],
    ["a", "b/../c", false],
    ["a", "", false],
    ["a", "C:\\x", false],
    ["x/a", "..", true],
    ["a", "..", false],
  ])("at %s to %s stays inside: %s", (path, target, expected) => {
    expect(staysInside(path, target)).toBe(expected);
  });

  test("is packed as a link when it stays inside, and refused when it does not", async () => {
    await using directory = await aDirectory({ "real.txt": "x", "sub/a.txt": "" });
    const tree = { directory: directory.path, prefix: "", wanted: nothing };
    await symlink("../real.txt", join(directory.path, "sub", "link"));
    expect(await listTree(tree, silent)).toContainEqual({ kind: "link", path: "sub/link", target: "../real.txt" });
    await symlink("/etc/passwd", join(directory.path, "outside"));
    await expect(listTree(tree, silent)).rejects.toMatchObject({ code: "DEPLOY_TRIGGER_FAILED" });
    await writeFile(join(directory.path, ".svcignore"), "outside\n");
    expect((await listTree(tree, silent)).map(({ path }) => path)).not.toContain("outside");
  });
});

/** Patterns and names in which every rule of the format can meet every other. */
const names = ["a", "b", "a.log", "b.txt", "build", "Build", "a b", "#x", "!y", "[z]"];
const patterns = [
  "*.log",
  "build/",
  "/a",
  "a/",
  "**/b.txt",
  "a/**",
  "a/**/b.txt",
  "!b.txt",
  "!a.log",
  "*",
  "!*/",
  "b*",
  "[ab]",
  "\\#x",
  "\\!y",
  "# comment",
  "",
  "  ",
  "a b",
  "a/b",
  "/build/*",
  "!build/a",
  "?",
  "*.txt ",
  "\\[z\\]",
  "[!a]*",
  "a/*/b",
  "!a/",
  "!b",
  "!build/",
  "!*",
];
const somePath = fc.array(fc.constantFrom(...names), { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));
const someRules = fc.array(fc.constantFrom(...patterns), { maxLength: 4 }).map((lines) => lines.join("\n"));

/** Whether the two, or directories of theirs, differ only in case: no archive may have both. */
function areTwins(path: string, other: string): boolean {
  const [parts, others] = [path.split("/"), other.split("/")];
  const at = parts.findIndex((part, index) => part !== others[index]);
  return parts[at]?.toLowerCase() === others[at]?.toLowerCase() && others[at] !== undefined;
}

/** Makes a tree of these files; a name that is already a directory, below a file, or another's twin, is left out. */
async function plant(root: string, paths: readonly string[], rules: Record<string, string>): Promise<void> {
  for (const [at, path] of paths.entries()) {
    if (paths.slice(0, at).some((other) => areTwins(path, other))) continue;
    try {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), "x");
    } catch {
      // A file stands where a directory would have to be; the tree is random enough without it.
    }
  }
  for (const [directory, text] of Object.entries(rules)) {
    try {
      await writeFile(join(root, directory, ".gitignore"), text);
    } catch {
      // No such directory in this tree.
    }
  }
}

test("what is ignored is what Git ignores", { timeout: 60_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(somePath, { minLength: 1, maxLength: 12 }),
      someRules,
      someRules,
      async (paths, top, nested) => {
        const root = await mkdtemp(join(tmpdir(), "svc-cli-git-"));
        try {
          await plant(root, paths, { ".": top, a: nested });
          runProgramSync(["git", "init", "-q", root]);
          const git = runProgramSync(["git", "-C", root, "ls-files", "--others", "--exclude-standard", "-z"], {
            env: { PATH: process.env["PATH"], HOME: root, GIT_CONFIG_NOSYSTEM: "1" },
          });
          const expected = git
            .toString()
            .split("\0")
            .filter((path) => path !== "");
          const found = await listTree({ directory: root, prefix: "", wanted: nothing }, silent);
          expect(found.map(({ path }) => path).sort()).toEqual(expected.sort());
        } finally {
          await rm(root, { recursive: true, force: true });
        }
      },
    ),
    { numRuns: 60 },
  );
});
