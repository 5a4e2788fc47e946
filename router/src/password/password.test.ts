import { describe, expect, test } from "vitest";
import { type Attempts, createAttempts, originOf } from "./attempts.ts";
import { refererPath, safeNext, withError } from "./next.ts";
import { dayOf, msUntilNextDay, tokenOf, tokenPattern, validTokens } from "./token.ts";

describe("where a visitor goes on", () => {
  test.each(["/", "/a/b", "/a?b=c&d=%2F%2Fe", "/a//b", "/a/..;/b", "/@evil.test", "/:80", "/a?next=//e"])(
    "%s is a place on the site",
    (said) => expect(safeNext(said)).toBe(said),
  );

  test.each([
    ["/a/../b", "/b"],
    ["/%2e%2e/x", "/x"],
    ["/a?svc_error=1", "/a"],
    ["/a?b=%20c&svc_error=1&d", "/a?b=%20c&d"],
    ["/a#fragment", "/a"],
  ])("%s becomes %s", (said, place) => expect(safeNext(said)).toBe(place));

  test.each([
    ...[
      "//evil.test",
      "///evil.test",
      "/\\evil.test",
      "\\\\evil.test",
      "/\t/evil.test",
      "/\n/evil.test",
      "\t//evil.test",
    ],
    ...[
      "https://evil.test/",
      "http:evil.test",
      "HTTP://evil.test",
      "javascript:alert(1)",
      "data:text/html,x",
      "evil.test",
    ],
    ...["@evil.test/", ":80/", "", " /a", "/a b", "/\u2028x", "/\u0000", "/a\r\nSet-Cookie: a=b", "/é", "?a", "#a"],
    ...["/_svc/password", "/_svc/password?next=/a", "/x/../_svc/password", `/${"a".repeat(2048)}`, null],
  ])("%j is none", (said) => expect(safeNext(said)).toBe("/"));

  test("a path that climbs to two slashes stays a path behind the host of the site", () => {
    expect(new URL(`http://shop.test${safeNext("/..//evil.test")}`).host).toBe("shop.test");
  });

  test("a wrong password is said in the query", () => {
    expect(withError("/a")).toBe("/a?svc_error=1");
    expect(withError("/a?b=c")).toBe("/a?b=c&svc_error=1");
    expect(safeNext(withError("/a?b=c"))).toBe("/a?b=c");
  });

  test("the page that sent the form counts when it is of this host", () => {
    expect(refererPath("http://shop.test:8080/a?b=%22", "shop.test")).toBe("/a?b=%22");
    expect(refererPath("http://evil.test/a", "shop.test")).toBeNull();
    expect(refererPath("nothing", "shop.test")).toBeNull();
    expect(refererPath(undefined, "shop.test")).toBeNull();
  });
});

describe("attempts", () => {
  const rates = {
    client: { atOnce: 3, everyMs: 1000 },
    network: { atOnce: 100, everyMs: 10 },
    site: { atOnce: 1000, everyMs: 1 },
    newcomer: { atOnce: 0, everyMs: 1000 },
    reserve: { atOnce: 0, everyMs: 1000 },
    bucketsMax: 100,
    knownMax: 2,
  };
  /** How many of the attempts are looked at. */
  const looked = (attempts: Attempts, addresses: Iterable<string>, nowMs: (n: number) => number = () => 0) =>
    [...addresses].filter((address, n) => attempts.take("s", address, nowMs(n)) === 0).length;
  const several = (count: number, address: (n: number) => string) =>
    Array.from({ length: count }, (_, n) => address(n));

  test("some at once, then one by one as time goes", () => {
    const attempts = createAttempts(rates);
    expect([0, 0, 0, 0].map(() => attempts.take("s", "192.0.2.1", 0))).toEqual([0, 0, 0, 1000]);
    expect(attempts.take("s", "192.0.2.2", 0)).toBe(0);
    expect(attempts.take("another", "192.0.2.1", 0)).toBe(0);
    expect(attempts.take("s", "192.0.2.1", 400)).toBe(600);
    expect(attempts.take("s", "192.0.2.1", 1000)).toBe(0);
    expect(attempts.take("s", "192.0.2.1", 1000)).toBe(1000);
  });

  test("one that was not made costs whoever asked, and the site's others nothing", () => {
    const attempts = createAttempts({ ...rates, site: { atOnce: 1, everyMs: 1000 } });
    for (let n = 0; n < 3; n += 1) {
      expect(attempts.take("s", "192.0.2.1", 0)).toBe(0);
      attempts.refund("s", "192.0.2.1");
    }
    expect(attempts.take("s", "192.0.2.1", 0)).toBe(1000);
    expect(attempts.take("s", "198.51.100.1", 0)).toBe(0);
  });

  test("a clock that is set back keeps nobody waiting for longer", () => {
    const attempts = createAttempts(rates);
    expect([0, 0, 0].map(() => attempts.take("s", "192.0.2.1", 1e12))).toEqual([0, 0, 0]);
    expect(attempts.take("s", "192.0.2.1", 0)).toBe(1000);
    expect(attempts.take("s", "192.0.2.1", 1000)).toBe(0);
  });

  test("a thousand tries in a minute come to at most 20 that are looked at", () => {
    const from = several(1000, () => "192.0.2.1");
    expect(looked(createAttempts(), from, (n) => n * 60)).toBeLessThanOrEqual(20);
  });

  test.each([
    { of: "a /48 of IPv6", address: (n: number) => `2001:db8:7:${(n % 65_536).toString(16)}::${(n >> 16) + 1}` },
    { of: "a /24 of IPv4", address: (n: number) => `192.0.2.${n % 256}` },
  ])("the clients of $of have one allowance together", ({ address }) => {
    expect(looked(createAttempts(), several(200_000, address))).toBe(20);
    expect(looked(createAttempts(), several(60_000, address), (n) => n)).toBeLessThanOrEqual(40);
  });

  test("many networks together do not guess fast either, and each refusal is about seconds", () => {
    const attempts = createAttempts();
    const address = (n: number) => `2001:db8:${(n % 65_536).toString(16)}::${(n >> 16) + 1}`;
    // What the site has, and its reserve.
    expect(looked(attempts, several(200_000, address))).toBe(60 + 10);
    expect(looked(attempts, several(60_000, address), (n) => n)).toBeLessThanOrEqual(60 + 20);
    const waits = several(1000, (n) => `198.51.${n % 256}.7`).map((each) => attempts.take("s", each, 60_000));
    expect(Math.max(...waits)).toBeLessThanOrEqual(6000);
    expect(attempts.take("another", "198.51.100.7", 60_000)).toBe(0);
  });

  test("one network leaves the site's others something", () => {
    const attempts = createAttempts();
    const client = (n: number) => `2001:db8:7:${n.toString(16)}::1`;
    for (let second = 0; second < 60; second += 1) looked(attempts, several(50, client), () => second * 1000);
    expect(attempts.take("s", "192.0.2.1", 60_000)).toBe(0);
  });

  test("networks that guess on and on do not keep out a visitor from another, and guess no faster for it", () => {
    const attempts = createAttempts();
    const guesser = (n: number) => `198.51.${n % 50}.7`;
    const hours = 2.25;
    let guesses = 0;
    for (let second = 0; second <= hours * 3600; second += 5)
      guesses += looked(attempts, several(100, guesser), () => second * 1000);
    expect(guesses).toBeGreaterThan(hours * 3600);
    expect(guesses).toBeLessThanOrEqual(hours * 3600 + 60 + 50 * (2 + 2 * hours));
    const now = hours * 3_600_000;
    // One mistake is forgiven.
    expect([0, 0].map(() => attempts.take("s", "192.0.2.1", now))).toEqual([0, 0]);
    expect(attempts.take("s", "192.0.2.1", now)).toBeGreaterThan(0);
  });

  test("who has known the password before has to wait for nobody else", () => {
    const attempts = createAttempts({ ...rates, site: { atOnce: 2, everyMs: 1000 } });
    const logIn = (address: string, nowMs: number) => {
      expect(attempts.take("s", address, nowMs)).toBe(0);
      attempts.welcome("s", address);
    };
    logIn("192.0.2.1", 0);
    logIn("192.0.2.2", 0);
    const strangers = several(10, (n) => `198.51.${n}.7`);
    expect(looked(attempts, strangers)).toBe(2);
    expect([0, 0, 0, 0].map(() => attempts.take("s", "192.0.2.1", 0))).toEqual([0, 0, 0, 1000]);
    // Only so many are known: those who came last.
    logIn("192.0.2.3", 10_000);
    expect(looked(attempts, strangers, () => 10_000)).toBe(2);
    expect(["192.0.2.1", "192.0.2.2", "192.0.2.3"].map((each) => attempts.take("s", each, 10_000))).toEqual([
      1000, 0, 0,
    ]);
  });

  test("what is not full again is not forgotten: new clients wait instead", () => {
    const attempts = createAttempts({ ...rates, bucketsMax: 21 });
    // A site, its network, and nineteen clients.
    expect(
      looked(
        attempts,
        several(100, (n) => `192.0.2.${n}`),
      ),
    ).toBe(19);
    for (let n = 0; n < 2; n += 1) expect(attempts.take("s", "192.0.2.1", 0)).toBe(0);
    expect(attempts.take("s", "192.0.2.1", 0)).toBe(1000);
    expect(attempts.take("s", "192.0.2.200", 0)).toBe(1000);
    // Those who tried once are full again by now, and the one who tried three times is not.
    expect(attempts.take("s", "192.0.2.200", 1000)).toBe(0);
    expect(attempts.take("s", "192.0.2.1", 1000)).toBe(0);
    expect(attempts.take("s", "192.0.2.1", 1000)).toBe(1000);
  });

  test.each([
    ["192.0.2.7", "192.0.2.7", "192.0.2.0/24"],
    ["::ffff:192.0.2.7", "192.0.2.7", "192.0.2.0/24"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", "2001:db8:1::/48"],
    ["2001:0DB8:1:2::9", "2001:db8:1:2::/64", "2001:db8:1::/48"],
    ["2001:db8::1", "2001:db8:0:0::/64", "2001:db8:0::/48"],
    ["::1", "0:0:0:0::/64", "0:0:0::/48"],
    ["fe80::1%eth0", "fe80:0:0:0::/64", "fe80:0:0::/48"],
    ["", "", ""],
  ])("%s is the client %s in %s", (address, client, network) => expect(originOf(address)).toEqual({ client, network }));
});

describe("the cookie", () => {
  const key = Buffer.alloc(32, 7);
  const day = dayOf(Date.UTC(2030, 0, 8));

  test("is one of eight values, and each is of one day and one key", () => {
    const tokens = validTokens(key, "production", day);
    expect(new Set(tokens).size).toBe(8);
    for (const token of tokens) expect(token).toMatch(new RegExp(tokenPattern));
    expect(tokens[0]).toBe(tokenOf(key, "production", day));
    expect(tokens).toContain(tokenOf(key, "production", day - 7));
    expect(tokens).not.toContain(tokenOf(key, "production", day - 8));
    expect(tokens).not.toContain(tokenOf(key, "production", day + 1));
    expect(validTokens(key, "preview", day).some((token) => tokens.includes(token))).toBe(false);
    expect(validTokens(Buffer.alloc(32, 8), "production", day).some((token) => tokens.includes(token))).toBe(false);
  });

  test("changes at midnight of UTC", () => {
    const midnight = Date.UTC(2030, 0, 9);
    expect(dayOf(midnight - 1)).toBe(day);
    expect(dayOf(midnight)).toBe(day + 1);
    expect(msUntilNextDay(midnight - 1)).toBe(1);
    expect(msUntilNextDay(midnight)).toBe(86_400_000);
  });
});
