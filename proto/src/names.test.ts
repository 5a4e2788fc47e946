import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  accountNameFrom,
  accountNameProblem,
  branchProblem,
  generateSlug,
  projectNameProblem,
  siteHost,
  siteLabel,
  siteUrl,
  slugProblem,
} from "./names.ts";
import { reservedSlugs } from "./reserved-slugs.ts";

const valid = fc.stringMatching(/^[a-z0-9][a-z0-9-]{1,28}[a-z0-9]$/).filter((slug) => slugProblem(slug) === null);

describe("slugs", () => {
  test.each(["shop", "abc", "a-b-c", "a--b", "a--7b", "a-7", "developer", "previewer", "0-9", "x".repeat(30)])(
    "%s is one",
    (slug) => {
      expect(slugProblem(slug)).toBeNull();
    },
  );

  test.each([
    "ab",
    "",
    "x".repeat(31),
    "-ab",
    "ab-",
    "xn--abc",
    "Shop",
    "a b",
    "a.b",
    "a_b",
    "аpp1",
    "dev-x",
    "preview-x",
    "shop--7",
    "shop--007",
    "shop--4--5",
    "a---7",
    ...["login", "security", "abuse", "postmaster", "localhost", "internal", "wpad", "mta-sts"],
  ])("%j is none", (slug) => {
    expect(slugProblem(slug)).toMatch(/\.$/);
  });

  test("no reserved name is one, and nothing else is wrong with any", () => {
    for (const slug of reservedSlugs) expect(slugProblem(slug)).toContain("reserved");
  });

  test.each([
    { name: "My Shop", suffix: "", slug: "my-shop" },
    { name: "  Größe & Co. ", suffix: "", slug: "gro-e-co" },
    { name: "Café", suffix: "k3f9", slug: "cafe-k3f9" },
    { name: "日本語", suffix: "", slug: "site" },
    { name: "", suffix: "k3f9", slug: "site-k3f9" },
    { name: "www", suffix: "", slug: "site-www" },
    { name: "Dev Tools", suffix: "", slug: "site-dev-tools" },
    { name: "ab", suffix: "", slug: "site-ab" },
    { name: "Login", suffix: "", slug: "site-login" },
    { name: "Shop -- 7", suffix: "", slug: "shop-7" },
    { name: "Shop --", suffix: "7", slug: "shop-7" },
    { name: "a very long name that does not fit at all", suffix: "k3f9", slug: "a-very-long-name-that-doe-k3f9" },
  ])("$name with suffix '$suffix' becomes $slug", ({ name, suffix, slug }) => {
    expect(generateSlug(name, suffix)).toBe(slug);
  });

  test("whatever the name, the generated slug is valid and ends in the suffix", () => {
    const name = fc.oneof(
      fc.string({ unit: "grapheme" }),
      fc.string({ unit: "binary" }),
      fc.stringMatching(/^[a-zA-Z0-9 -]{0,60}$/),
      fc.constantFrom(...reservedSlugs, "xn--a", "dev-", "preview-x", "--", "a", "x-"),
    );
    fc.assert(
      fc.property(name, fc.stringMatching(/^[a-z0-9]{0,8}$/), (text, suffix) => {
        const slug = generateSlug(text, suffix);
        expect(slugProblem(slug)).toBeNull();
        expect(slug.endsWith(suffix)).toBe(true);
      }),
      { numRuns: 2000 },
    );
  });
});

describe("site hosts", () => {
  test.each([
    { channel: "production", prNumber: null, host: "shop.svc.test" },
    { channel: "preview", prNumber: null, host: "preview-shop.svc.test" },
    { channel: "preview", prNumber: 12, host: "preview-shop--12.svc.test" },
    { channel: "dev", prNumber: null, host: "dev-shop.svc.test" },
  ] as const)("$channel $prNumber is $host", ({ channel, prNumber, host }) => {
    expect(siteHost({ slug: "shop", channel, prNumber }, "svc.test")).toBe(host);
  });

  test("a URL keeps the scheme and port of the content URL", () => {
    const site = { slug: "shop", channel: "production" } as const;
    expect(siteUrl(site, "http://svc.localhost:8080")).toBe("http://shop.svc.localhost:8080");
    expect(siteUrl(site, "https://svc.test/")).toBe("https://shop.svc.test");
  });

  test("every label fits DNS, and no project's production name is another's preview or dev name", () => {
    const channel = fc.constantFrom("preview", "dev" as const);
    const pr = fc.option(fc.integer({ min: 1, max: 2_147_483_647 }));
    fc.assert(
      fc.property(valid, valid, channel, pr, (one, other, at, prNumber) => {
        const label = siteLabel({ slug: one, channel: at, prNumber });
        expect(label).toMatch(/^[a-z0-9-]{1,63}$/);
        expect(label).not.toBe(siteLabel({ slug: other, channel: "production" }));
      }),
    );
  });

  test("the preview of a pull request has no other project's name", () => {
    fc.assert(
      fc.property(valid, fc.integer({ min: 1, max: 2_147_483_647 }), (slug, prNumber) => {
        const label = siteLabel({ slug, channel: "preview", prNumber });
        const named = label.slice(siteLabel({ slug: "", channel: "preview" }).length);
        expect(slugProblem(named)).not.toBeNull();
        const ends = [...named.matchAll(/--(?=\d+$)/g)].map(({ index }) => named.slice(0, index));
        expect(ends.filter((other) => slugProblem(other) === null)).toEqual([slug]);
      }),
    );
  });
});

test.each(["main", "feature/x-1", "release-2.0", "ü", "a".repeat(255), "🌊".repeat(255)])(
  "%s is a branch name",
  (branch) => {
    expect(branchProblem(branch)).toBeNull();
  },
);
test.each([
  "",
  "-o",
  "../x",
  "a..b",
  "a b",
  "a~1",
  "a^",
  "a:b",
  "a?",
  "a*",
  "a[",
  "a\\b",
  "/a",
  "a/",
  "a//b",
  "a.lock",
  "a.lock/b",
  "@",
  "a@{1}",
  ".a",
  "a/.b",
  "a.",
  "a\n",
  "a".repeat(256),
  "🌊".repeat(256),
])("%j is no branch name", (branch) => {
  expect(branchProblem(branch)).not.toBeNull();
});

test.each([
  { name: "Ada Lovelace", fits: true },
  { name: "a".repeat(100), fits: true },
  { name: "👩‍🚀", fits: true },
  { name: "", fits: false },
  { name: " \u2003", fits: false },
  { name: "a".repeat(101), fits: false },
  ...["a\0", "a\nb", "a\u202eb", "a\u2028b", "\ud800"].map((name) => ({ name, fits: false })),
])("%j can name an account: $fits", ({ name, fits }) => {
  expect(accountNameProblem(name) === null).toBe(fits);
});

test.each([
  { from: "Ada", name: "Ada" },
  { from: "  Ada \t\r\n Lovelace\u2028", name: "Ada Lovelace" },
  { from: "A\0d\u202ea\ud800", name: "Ada\ufffd" },
  { from: "x".repeat(60_000), name: "x".repeat(100) },
  { from: "😀".repeat(101), name: "😀".repeat(100) },
  { from: "\0 \u202e", name: "ada" },
  { from: "", name: "ada" },
])("of the name $from an account gets $name", ({ from, name }) => {
  expect(accountNameFrom(from, "ada")).toBe(name);
});

test("whatever another service calls somebody, the account has a name", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 300 }), (from) => {
      expect(accountNameProblem(accountNameFrom(from, "ada"))).toBe(null);
    }),
  );
});

test("project names have 1 to 100 characters and no space around them", () => {
  expect(projectNameProblem("🚲".repeat(100))).toBeNull();
  for (const name of ["", " ", " a", "a ", "x".repeat(101)]) expect(projectNameProblem(name)).not.toBeNull();
});
