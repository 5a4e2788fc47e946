import { expect, test } from "vitest";
import { siteRuleDoubts } from "./site-rules.ts";

const doubtsOf = (contents: Record<string, string>, site: { path: string; source: string }[]) => {
  const files = new Map(
    Object.entries(contents).map(([path, content]) => [
      path,
      { path, executable: false, offset: 0, sizeBytes: Buffer.byteLength(content) },
    ]),
  );
  const read = async ({ path, sizeBytes }: { path: string; sizeBytes: number }) =>
    Buffer.from(contents[path] ?? "").subarray(0, sizeBytes);
  return siteRuleDoubts({ files, read }, site);
};

test("mistakes in the rules of a site are told with file and line, also where a link leads to them", async () => {
  const doubts = await doubtsOf({ "rules.txt": "/a /b\n/c /d 418\n", "dist/_headers": "/*\n  Connection: close\n" }, [
    { path: "_redirects", source: "rules.txt" },
    { path: "_headers", source: "dist/_headers" },
  ]);
  expect(doubts).toEqual([
    expect.stringMatching(/^_redirects line 2 has no effect: The status 418/),
    expect.stringMatching(/^_headers line 2 has no effect: Connection/),
  ]);
});

test("files of that name below the root are no rules, and a site without has no doubts", async () => {
  expect(await doubtsOf({ "a/_redirects": "nonsense" }, [{ path: "a/_redirects", source: "a/_redirects" }])).toEqual(
    [],
  );
});

test("a file that is too large has no effect", async () => {
  const doubts = await doubtsOf({ _redirects: "/a /b\n".repeat(50_000) }, [
    { path: "_redirects", source: "_redirects" },
  ]);
  expect(doubts).toEqual([expect.stringContaining("_redirects line 1 has no effect: The file may have")]);
});
