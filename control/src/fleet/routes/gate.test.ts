import { dayOf, sitePassDays, sitePassOf } from "@svc/proto/site-pass";
import { describe, expect, test } from "vitest";
import { gateOf, gateSecretOf, passOf } from "./gate.ts";

const secret = gateSecretOf("a secret of at least 32 characters");
const hash = "$2b$10$aaaaaaaaaaaaaaaaaaaaaubbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

test("a gate is the same on every replica, and fits the route table", () => {
  const gate = gateOf(secret, "p1", hash);
  expect(gateOf(gateSecretOf("a secret of at least 32 characters"), "p1", hash)).toEqual(gate);
  expect(gate.key).toHaveLength(32);
  expect(gate.revision).toMatch(/^[A-Za-z0-9_-]{11}$/);
});

test.each([
  { when: "another project", other: gateOf(secret, "p2", hash) },
  { when: "another password", other: gateOf(secret, "p1", hash.replace("b$10", "b$11")) },
  { when: "another secret", other: gateOf(gateSecretOf("another secret of 32 characters.."), "p1", hash) },
  { when: "a character moved from one field to the next", other: gateOf(secret, `p1${hash[0]}`, hash.slice(1)) },
])("$when has another gate", ({ other }) => {
  const gate = gateOf(secret, "p1", hash);
  expect(other.key.equals(gate.key)).toBe(false);
  expect(other.revision).not.toBe(gate.revision);
});

test("neither the hash nor the key can be read from the revision", () => {
  const { key, revision } = gateOf(secret, "p1", hash);
  for (const encoding of ["hex", "base64", "base64url"] as const) {
    expect(key.toString(encoding)).not.toContain(revision);
    expect(Buffer.from(hash).toString(encoding)).not.toContain(revision);
  }
});

describe("a pass of svc's own", () => {
  const site = { projectId: "p1", passwordHash: hash, channel: "production" };
  const { key } = gateOf(secret, "p1", hash);
  /** What edges let in at that time, newest first. */
  const openAt = (time: string): string[] =>
    Array.from({ length: sitePassDays }, (_, ago) => sitePassOf(key, "production", dayOf(Date.parse(time)) - ago));

  test.each([
    { made: "2030-01-01T00:00:00Z", opensUntil: "2030-01-01T23:59:59Z", shutAt: "2030-01-02T00:00:00Z" },
    { made: "2030-01-01T22:59:59Z", opensUntil: "2030-01-01T23:59:59Z", shutAt: "2030-01-02T00:00:00Z" },
    { made: "2030-01-01T23:30:00Z", opensUntil: "2030-01-02T23:59:59Z", shutAt: "2030-01-03T00:00:00Z" },
  ])("that is made at $made opens until $opensUntil", ({ made, opensUntil, shutAt }) => {
    const pass = passOf(secret, site, new Date(made));
    for (const time of [made, opensUntil]) expect(openAt(time)).toContain(pass);
    expect(openAt(shutAt)).not.toContain(pass);
  });

  test("opens one channel of one site, under one password", () => {
    const now = new Date("2030-01-01T12:00:00Z");
    const others = [
      { ...site, projectId: "p2" },
      { ...site, channel: "preview" },
      { ...site, passwordHash: `${hash}x` },
    ];
    const passes = [site, ...others].map((each) => passOf(secret, each, now));
    expect(new Set(passes).size).toBe(passes.length);
  });
});
