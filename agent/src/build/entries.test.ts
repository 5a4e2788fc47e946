import fc from "fast-check";
import { expect, test } from "vitest";
import { createArchiveRules, type Header } from "./entries.ts";

const aHeader = (changes: Partial<Header>): Header => ({
  name: "a",
  type: "file",
  mode: 0o644,
  size: 0,
  linkname: "",
  ...changes,
});

const judgeAll = (...headers: Partial<Header>[]) => {
  const rules = createArchiveRules(1_000);
  return headers.map((header) => rules(aHeader(header))).at(-1);
};

const esc = String.fromCharCode(27);

test.each<{ when: string; headers: Partial<Header>[]; because: string }>([
  { when: "a name climbs", headers: [{ name: "a/../../b" }], because: "points out" },
  { when: "a name is absolute", headers: [{ name: "/etc/passwd" }], because: "absolute" },
  { when: "a name has a backslash", headers: [{ name: "a\\..\\b" }], because: "backslash" },
  { when: "a name has an escape character", headers: [{ name: `${esc}[2J` }], because: "characters" },
  { when: "a name has a line end", headers: [{ name: "a\nb" }], because: "characters" },
  { when: "a name was not UTF-8", headers: [{ name: "a\ufffd" }], because: "characters" },
  { when: "a name is too long", headers: [{ name: "a/".repeat(600) }], because: "too long" },
  { when: "a name is too deep", headers: [{ name: "a/".repeat(70) }], because: "too deep" },
  { when: "an entry is a device", headers: [{ type: "character-device" }], because: "neither" },
  { when: "an entry is a pipe", headers: [{ type: "fifo" }], because: "neither" },
  { when: "an entry is of an unknown type", headers: [{ type: null }], because: "neither" },
  { when: "a file is setuid", headers: [{ mode: 0o4755 }], because: "setuid" },
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
    headers: [{ type: "link", linkname: "b" }],
    because: "not an earlier file",
  },
  {
    when: "a hard link leaves the tree",
    headers: [{ type: "link", linkname: "../../etc/passwd" }],
    because: "not an earlier file",
  },
  {
    when: "the files are too large together",
    headers: [{ size: 600 }, { name: "b", size: 600 }],
    because: "more than",
  },
])("when $when the archive is refused", ({ headers, because }) => {
  const verdict = judgeAll(...headers);
  expect(verdict !== undefined && "refuse" in verdict ? verdict.refuse : "").toContain(because);
});

test.each<{ when: string; headers: Partial<Header>[]; keeps: object }>([
  {
    when: "a plain file",
    headers: [{ name: "./src/a.js" }],
    keeps: { kind: "file", path: "src/a.js", executable: false },
  },
  { when: "a script", headers: [{ mode: 0o755 }], keeps: { kind: "file", path: "a", executable: true } },
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
    headers: [{ name: "a" }, { name: "b", type: "link", linkname: "a" }],
    keeps: { kind: "hardlink", path: "b", target: "a" },
  },
])("$when is kept", ({ headers, keeps }) => {
  expect(judgeAll(...headers)).toEqual({ keep: keeps });
});

test("what is kept never leaves the tree, whatever the names and links", () => {
  const part = fc.constantFrom("a", "b", "..", ".", "");
  const path = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join("/"));
  const header = fc.record({
    name: path,
    type: fc.constantFrom("file", "directory", "symlink", "link"),
    linkname: path,
    mode: fc.constant(0o644),
    size: fc.constant(0),
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
