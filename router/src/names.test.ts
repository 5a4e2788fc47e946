import { create } from "@bufbuild/protobuf";
import { type Route, RouteSchema } from "@svc/proto/edge";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  bundleName,
  entryName,
  entryPattern,
  firstSequence,
  isHost,
  isRevision,
  isUpstream,
  parseEntry,
  targetName,
  upstreamsPattern,
  wicketName,
} from "./names.ts";
import { anEntrance, aPage, aProxy, aRedirect, aStatic, guarded, told } from "./testing/routes.ts";

const hex = "ab".repeat(32);
const host = "shop.svc.localhost";

describe("isHost", () => {
  test.each([
    "shop.svc.localhost",
    "a.b",
    "xn--shp-1na.de",
    "preview-shop--12.svc.localhost",
    "1.2.3.4",
    `${"a".repeat(63)}.test`,
  ])("takes %j", (text) => expect(isHost(text)).toBe(true));
  test.each([
    "",
    "localhost",
    "Shop.svc.localhost",
    "shop.svc.localhost.",
    ".shop.svc.localhost",
    "shop..localhost",
    "-shop.localhost",
    "shop.-a.test",
    "shop.svc.localhost:80",
    "../etc",
    "a/b.test",
    "a.test/b",
    "a.test\n",
    "*.test",
    "a_b.test",
    "a%2e.test",
    "[::1]",
    "{env.HOME}.test",
    "shöp.test",
    `${"a.".repeat(130)}test`,
  ])("refuses %j", (text) => expect(isHost(text)).toBe(false));

  test("whatever it takes is one name in a directory, and no pattern", () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z0-9.*?/\\[\]{}~%_-]{1,40}$/), (text) => {
        if (isHost(text)) expect(text).toMatch(/^[a-z0-9][a-z0-9.-]*$/);
        if (isHost(text)) expect(text).not.toContain("..");
      }),
    );
  });
});

describe("isUpstream", () => {
  test.each(["127.0.0.1:80", "10.0.0.1:65535", "[fd00::1]:80", "[::1]:80"])("takes %j", (text) =>
    expect(isUpstream(text)).toBe(true),
  );
  test.each([
    "127.0.0.1",
    ":80",
    "127.0.0.1:0",
    "127.0.0.1:080",
    "127.0.0.1:65536",
    "127.0.0.1:80-90",
    "unix//run/docker.sock",
    "tcp/127.0.0.1:80",
    "127.0.0.1:80/x",
    "a~b:80",
    "{http.request.host}:80",
    "A:80",
    "a b:80",
    "169.254.169.254:80",
    "0.0.0.0:80",
    "[fe80::1]:80",
    "[::]:80",
    "user@host:80",
    "all:1",
    "node-1:8080",
    "a.b.test:1",
  ])("refuses %j", (text) => expect(isUpstream(text)).toBe(false));
});

/** The route with one more upstream, or one more entrance that is no upstream. */
const withUpstream = (route: Route, upstream: string): Route => {
  if (route.target.case === "proxy") route.target.value.upstreams.push(upstream);
  return route;
};
const withEntrance = (route: Route, entrance: string): Route => {
  if (route.target.case === "proxy") route.target.value.entrances.push(entrance);
  return route;
};

describe("targetName", () => {
  test.each([
    { when: "a proxy", route: aProxy(host, "10.0.0.1:80"), name: "p1~10.0.0.1:80" },
    {
      when: "a proxy with several upstreams",
      route: aProxy(host, "10.0.0.2:2", "10.0.0.1:1", "10.0.0.2:2"),
      name: "p2~10.0.0.1:1~10.0.0.2:2",
    },
    { when: "an entrance", route: anEntrance(host, "10.0.0.1:80"), name: "t1~10.0.0.1:80" },
    {
      when: "several entrances",
      route: anEntrance(host, "10.0.0.2:2", "10.0.0.1:1"),
      name: "t2~10.0.0.1:1~10.0.0.2:2",
    },
    {
      when: "an entrance beside an upstream that is none",
      route: withUpstream(anEntrance(host, "10.0.0.2:2"), "10.0.0.1:1"),
      name: "t1~10.0.0.2:2",
    },
    {
      when: "an upstream whose entrance is gone",
      route: withEntrance(aProxy(host, "10.0.0.1:1"), "10.0.0.2:2"),
      name: "p1~10.0.0.1:1",
    },
    { when: "a bundle", route: aStatic(host, `sha256:${hex}`), name: `s~${hex}` },
    { when: "a bundle with fallback", route: aStatic(host, `sha256:${hex}`, true), name: `f~${hex}` },
    { when: "a stopped site", route: aPage(host, "STOPPED"), name: "x~stopped" },
    { when: "a suspended site", route: aPage(host, "SUSPENDED"), name: "x~suspended" },
    { when: "an empty site", route: aPage(host, "EMPTY"), name: "x~empty" },
    { when: "a redirect", route: aRedirect(`www.${host}`, host), name: `r~${host}` },
    { when: "a site for TLS alone", route: told(aPage(host, "EMPTY"), 31_536_000), name: "h31536000~x~empty" },
    { when: "the same with all below it", route: told(aPage(host, "EMPTY"), 300, true), name: "i300~x~empty" },
    { when: "one that browsers are to forget", route: told(aPage(host, "EMPTY"), 0), name: "h0~x~empty" },
    { when: "more than anybody may say", route: told(aPage(host, "EMPTY"), 9_999_999_999), name: "h63072000~x~empty" },
  ])("of $when is $name", ({ route, name }) => expect(targetName(route)).toEqual({ name }));

  test.each([
    { when: "a host that is none", route: aProxy("../etc", "10.0.0.1:1") },
    { when: "no upstream", route: aProxy(host) },
    { when: "an upstream that is none", route: aProxy(host, "10.0.0.1:1", "b") },
    { when: "too many upstreams", route: aProxy(host, ...Array.from({ length: 11 }, (_, n) => `10.0.0.1:${n + 1}`)) },
    {
      when: "upstreams too long for a name",
      route: aProxy(host, ...Array.from({ length: 10 }, (_, n) => `${"a".repeat(30)}:${n + 1}`)),
    },
    { when: "a digest of another kind", route: aStatic(host, "sha512:00") },
    { when: "a digest that climbs", route: aStatic(host, `sha256:../${hex.slice(3)}`) },
    { when: "an unspecified page", route: aPage(host, "UNSPECIFIED") },
    { when: "a redirect to a URL", route: aRedirect(host, "https://evil.test") },
    { when: "a redirect to itself", route: aRedirect(host, host) },
    { when: "no target", route: create(RouteSchema, { host }) },
  ])("refuses $when", ({ route }) => expect(targetName(route)).toHaveProperty("problem"));

  test("is split by Caddy's patterns into the same parts", () => {
    const target = targetName(aProxy(host, ...Array.from({ length: 10 }, (_, n) => `10.0.0.${n}:8080`)));
    if ("problem" in target) throw new Error(target.problem);
    const [, , kind, args = ""] = new RegExp(entryPattern).exec(`/${host}/${entryName(7, target.name)}`) ?? [];
    const [, ...upstreams] = new RegExp(upstreamsPattern(10)).exec(args) ?? [];
    expect([kind, ...upstreams]).toEqual(target.name.split("~"));
    expect(new RegExp(upstreamsPattern(9)).test(args)).toBe(false);
  });

  const wicket = wicketName({ revision: "Re_vision-1", channel: "production" });

  test("has another gate for each channel of a project, each as a gate is named", () => {
    const preview = wicketName({ revision: "Re_vision-1", channel: "preview" });
    expect(preview).not.toBe(wicket);
    expect([wicket, preview].map(isRevision)).toEqual([true, true]);
  });

  test("names the gate before everything else, and Caddy's pattern finds it there", () => {
    const targets = [aProxy(host, "10.0.0.1:80"), aStatic(host, `sha256:${hex}`), aPage(host, "STOPPED")];
    for (const route of [...targets, aRedirect(host, "shop.test")]) {
      const open = targetName(route);
      const target = targetName(guarded(route, "Re_vision-1"));
      if ("problem" in target || "problem" in open) throw new Error("unexpected");
      expect(target.name).toBe(`${wicket}~${open.name}`);
      const [, gate, kind, args] = new RegExp(entryPattern).exec(`/${host}/${entryName(7, target.name)}`) ?? [];
      expect(`${gate}~${kind}~${args}`).toBe(target.name);
      const [, none] = new RegExp(entryPattern).exec(`/${host}/${entryName(7, open.name)}`) ?? [];
      expect(none).toBeUndefined();
    }
  });

  test("always has a name behind a gate: a host that kept its old entry would stay open", () => {
    const upstreams = Array.from({ length: 10 }, (_, n) => `[2001:db8:1111:2222:3333:4444:5555:${n}666]:65535`);
    expect(targetName(aProxy(host, ...upstreams))).toHaveProperty("problem");
    const shortened = targetName(guarded(aProxy(host, ...upstreams), "Re_vision-1"));
    expect(shortened).toMatchObject({ name: expect.stringContaining(`${wicket}~p4~`) });
    const far = `${"a".repeat(60)}.${"b".repeat(60)}.${"c".repeat(60)}.${"d".repeat(50)}.test`;
    expect(targetName(guarded(aRedirect(host, far), "Re_vision-1"))).toEqual({ name: `${wicket}~x~failed` });
    // Nothing of what control sends becomes a path, and nobody can pass what nobody can name.
    expect(targetName(guarded(aPage(host, "EMPTY"), "../x"))).toEqual({ name: `${"_".repeat(11)}~x~empty` });
  });

  test("is a file name without separators or placeholders, whatever control sends", () => {
    fc.assert(
      fc.property(fc.string(), fc.array(fc.string(), { maxLength: 4 }), fc.string(), (name, upstreams, digest) => {
        for (const route of [
          aProxy(name, ...upstreams),
          aProxy(host, ...upstreams),
          aStatic(host, digest),
          aRedirect(host, name),
        ]) {
          const target = targetName(route);
          if ("name" in target) expect(target.name).toMatch(/^[a-z0-9.:[\]~-]{1,240}$/);
        }
      }),
    );
  });
});

test("a newer entry sorts before an older one", () => {
  const names = [firstSequence, firstSequence - 1, 255, 16, 1].map((sequence) => entryName(sequence, "x~stopped"));
  expect(names.toSorted()).toEqual(names.toReversed());
  expect(names.map((name) => parseEntry(name)?.sequence)).toEqual([firstSequence, firstSequence - 1, 255, 16, 1]);
});

test.each(["", "x~stopped", "1fffffffffffff", "1fffffffffffff~", "1FFFFFFFFFFFFF~x", ".ready"])(
  "%j is no entry",
  (name) => expect(parseEntry(name)).toBeNull(),
);

test("only a sha256 digest names a bundle", () => {
  expect(bundleName(`sha256:${hex}`)).toBe(hex);
  for (const digest of ["", hex, `sha256:${hex.toUpperCase()}`, `sha256:${hex}/`, "sha256:..", `sha512:${hex}`]) {
    expect(bundleName(digest)).toBeNull();
  }
});
