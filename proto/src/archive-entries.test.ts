import fc from "fast-check";
import { expect, test } from "vitest";
import { createArchiveRules } from "./archive-entries.ts";
import { limits } from "./limits.ts";
import type { TarHeader } from "./tar.ts";

const aHeader = (changes: Partial<TarHeader>): TarHeader => ({
  name: "a",
  type: "file",
  mode: 0o644,
  sizeBytes: 0,
  linkname: "",
  ...changes,
});

const judgeAll = (...headers: Partial<TarHeader>[]) => {
  const rules = createArchiveRules(1_000);
  return headers.map((header) => rules(aHeader(header))).at(-1);
};

const esc = String.fromCharCode(27);

test.each<{ when: string; headers: Partial<TarHeader>[]; because: string }>([
  { when: "a name climbs", headers: [{ name: "a/../../b" }], because: "points out" },
  { when: "a name is absolute", headers: [{ name: "/etc/passwd" }], because: "absolute" },
  { when: "a name has a backslash", headers: [{ name: "a\\..\\b" }], because: "backslash" },
  { when: "a name has an escape character", headers: [{ name: `${esc}[2J` }], because: "characters" },
  { when: "a name has a line end", headers: [{ name: "a\nb" }], because: "characters" },
  { when: "a name was not UTF-8", headers: [{ name: "a\ufffd" }], because: "characters" },
  { when: "a name is too long", headers: [{ name: "a/".repeat(600) }], because: "too long" },
  { when: "a name is too deep", headers: [{ name: "a/".repeat(70) }], because: "too deep" },
  { when: "an entry is a device", headers: [{ type: "device" }], because: "a device" },
  { when: "an entry is a pipe", headers: [{ type: "pipe" }], because: "named pipe" },
  { when: "an entry is of an unknown type", headers: [{ type: "unknown" }], because: "neither" },
  { when: "a file is setuid", headers: [{ mode: 0o4755 }], because: "setuid" },
  { when: "a file is setgid", headers: [{ mode: 0o2755 }], because: "setgid" },
  { when: "a directory is setuid", headers: [{ type: "directory", mode: 0o4755 }], because: "setuid" },
  {
    when: "a second name makes a file setuid",
    headers: [{ name: "a" }, { name: "b", type: "hardlink", linkname: "a", mode: 0o4755 }],
    because: "setuid",
  },
  { when: "an entry is sparse", headers: [{ type: "sparse" }], because: "sparse" },
  { when: "a part of a name is too long", headers: [{ name: "a".repeat(256) }], because: "too long" },
  {
    when: "two names are one to the eye",
    headers: [{ name: "caf\u00e9" }, { name: "cafe\u0301" }],
    because: "another Unicode form",
  },
  {
    when: "two directories are one to the eye",
    headers: [{ name: "caf\u00e9/a" }, { name: "cafe\u0301/b" }],
    because: "another Unicode form",
  },
  {
    when: "two files differ only in case",
    headers: [{ name: "README.md" }, { name: "readme.md" }],
    because: 'differs from "README.md" only in upper and lower case',
  },
  {
    when: "two files differ in case and in Unicode form",
    headers: [{ name: "caf\u00e9" }, { name: "CAFE\u0301" }],
    because: "only in upper and lower case",
  },
  {
    when: "two files differ in a letter that has two lower forms",
    headers: [{ name: "\u03c3" }, { name: "\u03c2" }],
    because: "only in upper and lower case",
  },
  {
    when: "two directories differ only in case",
    headers: [{ name: "src/a" }, { name: "Src/b" }],
    because: 'differs from "src" only in upper and lower case',
  },
  {
    when: "a file and a directory differ only in case",
    headers: [{ name: "src/a" }, { name: "SRC" }],
    because: 'differs from "src" only in upper and lower case',
  },
  {
    when: "a directory and a link differ only in case",
    headers: [
      { name: "A", type: "symlink", linkname: "b" },
      { name: "a", type: "directory" },
    ],
    because: 'differs from "A" only in upper and lower case',
  },
  {
    when: "a hard link names an earlier file in another case",
    headers: [{ name: "a" }, { name: "b", type: "hardlink", linkname: "A" }],
    because: "not an earlier file",
  },
  {
    when: "a hard link goes through a link",
    headers: [
      { name: "a", type: "symlink", linkname: "b" },
      { name: "c", type: "hardlink", linkname: "a" },
    ],
    because: "not an earlier file",
  },
  {
    when: "a directory comes again as a file",
    headers: [{ name: "a", type: "directory" }, { name: "a" }],
    because: "twice",
  },
  { when: "a file appears twice", headers: [{ name: "a" }, { name: "./a" }], because: "twice" },
  { when: "a file replaces a directory", headers: [{ name: "a/b" }, { name: "a" }], because: "twice" },
  { when: "a file lies under a file", headers: [{ name: "a" }, { name: "a/b" }], because: "not a directory" },
  {
    when: "a file lies under a link",
    headers: [{ name: "a", type: "symlink", linkname: "b" }, { name: "a/c" }],
    because: "not a directory",
  },
  { when: "a link is absolute", headers: [{ type: "symlink", linkname: "/etc" }], because: "absolute" },
  { when: "a link leaves the tree", headers: [{ type: "symlink", linkname: "../b" }], because: "points out" },
  {
    when: "a link climbs midway",
    headers: [{ name: "a/b", type: "symlink", linkname: "c/../../d" }],
    because: "midway",
  },
  {
    when: "a hard link has no earlier file",
    headers: [{ type: "hardlink", linkname: "b" }],
    because: "not an earlier file",
  },
  {
    when: "a hard link leaves the tree",
    headers: [{ type: "hardlink", linkname: "../../etc/passwd" }],
    because: "not an earlier file",
  },
  {
    when: "the files are too large together",
    headers: [{ sizeBytes: 600 }, { name: "b", sizeBytes: 600 }],
    because: "more than",
  },
])("when $when the archive is refused", ({ headers, because }) => {
  const verdict = judgeAll(...headers);
  expect(verdict !== undefined && "refuse" in verdict ? verdict.refuse : "").toContain(because);
});

test.each<{ when: string; headers: Partial<TarHeader>[]; keeps: object }>([
  {
    when: "a plain file",
    headers: [{ name: "./src/a.js" }],
    keeps: { kind: "file", path: "src/a.js", executable: false, sizeBytes: 0 },
  },
  { when: "a script", headers: [{ mode: 0o755 }], keeps: { kind: "file", path: "a", executable: true, sizeBytes: 0 } },
  {
    when: "a directory",
    headers: [{ name: "d/", type: "directory", mode: 0o2775 }],
    keeps: { kind: "directory", path: "d" },
  },
  {
    when: "a link to a neighbour",
    headers: [{ name: "a/b", type: "symlink", linkname: "../c" }],
    keeps: { kind: "symlink", path: "a/b", target: "../c" },
  },
  {
    when: "a second name of a file",
    headers: [{ name: "a" }, { name: "b", type: "hardlink", linkname: "a" }],
    keeps: { kind: "hardlink", path: "b", target: "a" },
  },
  {
    when: "a name that differs in more than case",
    headers: [{ name: "readme" }, { name: "README.md" }],
    keeps: { kind: "file", path: "README.md", executable: false, sizeBytes: 0 },
  },
  {
    when: "a path of the longest kind",
    headers: [{ name: `${"d/".repeat(limits.archiveDepthMax - 1)}${"n".repeat(255)}` }],
    keeps: {
      kind: "file",
      path: `${"d/".repeat(limits.archiveDepthMax - 1)}${"n".repeat(255)}`,
      executable: false,
      sizeBytes: 0,
    },
  },
  {
    when: "a file that fills the archive",
    headers: [{ sizeBytes: 1_000 }],
    keeps: { kind: "file", path: "a", executable: false, sizeBytes: 1_000 },
  },
])("$when is kept", ({ headers, keeps }) => {
  expect(judgeAll(...headers)).toEqual({ keep: keeps });
});

test("in a build's output names may differ in case, and still not in Unicode form alone", () => {
  const rules = createArchiveRules(1_000, { isOutput: true });
  const verdicts = ["tags/Go/index.html", "tags/go/index.html", "caf\u00e9", "CAF\u00e9", "cafe\u0301"].map((name) =>
    Object.keys(rules(aHeader({ name }))),
  );
  expect(verdicts).toEqual([["keep"], ["keep"], ["keep"], ["keep"], ["refuse"]]);
});

test("what is kept never leaves the tree, whatever the names and links", () => {
  const part = fc.constantFrom("a", "b", "..", ".", "");
  const path = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join("/"));
  const header = fc.record({
    name: path,
    type: fc.constantFrom("file", "directory", "symlink", "hardlink"),
    linkname: path,
    mode: fc.constant(0o644),
    sizeBytes: fc.constant(0),
  });
  fc.assert(
    fc.property(fc.array(header, { maxLength: 12 }), (headers) => {
      const rules = createArchiveRules(1_000);
      const links = new Map<string, string>();
      for (const one of headers) {
        const verdict = rules(one);
        if (!("keep" in verdict)) continue;
        if (verdict.keep.kind === "symlink") links.set(verdict.keep.path, verdict.keep.target);
      }
      return [...links.keys()].every((link) => resolve(link, links, 0) !== "outside");
    }),
  );
});

/** What the rules say of the last of `count` entries. */
function judgeMany(count: number, headerAt: (at: number) => Partial<TarHeader>) {
  const rules = createArchiveRules(1_000);
  for (let at = 0; at < count; at++) {
    const verdict = rules(aHeader(headerAt(at)));
    if ("refuse" in verdict) return { at, ...verdict };
  }
  return "kept";
}

test("so many entries are kept, and one more is refused", () => {
  const max = limits.archiveEntriesMax;
  const headerAt = (at: number) => ({ name: `f${at}` });
  expect(judgeMany(max, headerAt)).toBe("kept");
  expect(judgeMany(max + 1, headerAt)).toMatchObject({ at: max, tooLarge: true });
});

test("directories that names bring along count like entries", () => {
  const deep = (at: number) => ({ name: `${at}/${"d/".repeat(limits.archiveDepthMax - 2)}f` });
  expect(judgeMany(10_000, deep)).toMatchObject({ tooLarge: true });
});

test("names that are long together are refused before they fill the memory", () => {
  const long = (at: number) => ({ name: `${"n/".repeat(2)}${"x".repeat(200)}/${"y".repeat(200)}/${at}` });
  const outcome = judgeMany(limits.archiveEntriesMax, long);
  expect(outcome).toMatchObject({ tooLarge: true });
  expect(outcome === "kept" ? 0 : outcome.at * 400).toBeLessThan(1.1 * limits.archiveNamesLengthMax);
});

/** Follows a path as a kernel would; "loop" when it never ends. */
function resolve(path: string, links: ReadonlyMap<string, string>, depth: number): string {
  if (depth > 30) return "loop";
  const at: string[] = [];
  for (const part of path.split("/")) {
    if (part === "" || part === ".") continue;
    if (part === "..") {
      if (at.pop() === undefined) return "outside";
      continue;
    }
    at.push(part);
    const target = links.get(at.join("/"));
    if (target === undefined) continue;
    at.pop();
    const next = resolve([...at, target].join("/"), links, depth + 1);
    if (next === "outside" || next === "loop") return next;
    at.splice(0, at.length, ...next.split("/").filter(Boolean));
  }
  return at.join("/");
}
