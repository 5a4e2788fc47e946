import { describe, expect, test } from "vitest";
import { mayAuthenticateAt, parseChallenge } from "./challenge.ts";

describe("parseChallenge", () => {
  test.each([
    { when: "there is no header", header: undefined, is: null },
    { when: "the scheme is basic", header: 'Basic realm="x"', is: { scheme: "basic" } },
    {
      when: "a token service is named",
      header: 'Bearer realm="https://auth.test/token",service="r.test",scope="repository:a/b:pull,push"',
      is: { scheme: "bearer", realm: "https://auth.test/token", service: "r.test", scope: "repository:a/b:pull,push" },
    },
    {
      when: "quotes are escaped and a scope is missing",
      header: 'bearer Realm="https://auth.test/\\"t\\"", service=plain',
      is: { scheme: "bearer", realm: 'https://auth.test/"t"', service: "plain", scope: null },
    },
    { when: "the realm is missing", header: 'Bearer service="x"', is: null },
    { when: "the scheme is one we do not speak", header: "Negotiate abc", is: null },
    { when: "the second of two can be met", header: ["Negotiate abc", "Basic realm=x"], is: { scheme: "basic" } },
  ])("when $when", ({ header, is }) => {
    expect(parseChallenge(header)).toEqual(is);
  });
});

describe("mayAuthenticateAt", () => {
  const registry = new URL("https://registry.test:5000");
  test.each([
    { realm: "https://registry.test/token", may: true },
    { realm: "https://registry.test:8443/token", may: true },
    { realm: "https://auth.test/token", may: true },
    { realm: "https://evil.test/token", may: false },
    { realm: "https://registry.test.evil.test/token", may: false },
    { realm: "https://registry.test@evil.test/token", may: false },
    { realm: "https://user:secret@registry.test/token", may: false },
    { realm: "http://registry.test/token", may: false },
    { realm: "file:///etc/passwd", may: false },
    { realm: "token", may: false },
  ])("$realm: $may", ({ realm, may }) => {
    expect(mayAuthenticateAt(realm, registry, ["auth.test"])).toBe(may);
  });

  test("another port may be somebody else's, where that is asked", () => {
    const exactly = (realm: string) => mayAuthenticateAt(realm, registry, ["auth.test"], { exactPort: true });
    expect(
      ["https://registry.test:5000/t", "https://registry.test:8443/t", "https://auth.test:8443/t"].map(exactly),
    ).toEqual([true, false, false]);
  });
});
