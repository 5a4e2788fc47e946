import { describe, expect, test } from "vitest";
import { identityProblem } from "../sessions/identity.ts";
import { nodeNames, redeem, type StoredToken } from "./rules.ts";
import { formatBootstrapToken, parseBootstrapToken } from "./token.ts";

const now = new Date("2030-01-01T12:00:00Z");
const before = (ms: number) => new Date(now.getTime() - ms);
const after = (ms: number) => new Date(now.getTime() + ms);
const keyHash = Buffer.alloc(32, 1);
const otherKeyHash = Buffer.alloc(32, 2);
const fresh: StoredToken = {
  expiresAt: after(60_000),
  revokedAt: null,
  usedAt: null,
  usedKeyHash: null,
  nodeId: null,
};
const used: StoredToken = { ...fresh, usedAt: before(30_000), usedKeyHash: keyHash, nodeId: "n1" };

describe("redeeming a bootstrap token", () => {
  test.each<{ when: string; token: StoredToken | null; secretMatches?: boolean; gives: unknown }>([
    { when: "it is fresh", token: fresh, gives: { admit: "new" } },
    { when: "nobody made it", token: null, gives: { refuse: "unknown" } },
    { when: "the secret is wrong", token: fresh, secretMatches: false, gives: { refuse: "unknown" } },
    { when: "it was revoked", token: { ...fresh, revokedAt: before(1) }, gives: { refuse: "revoked" } },
    { when: "it ended", token: { ...fresh, expiresAt: now }, gives: { refuse: "expired" } },
    { when: "the same key asks again", token: used, gives: { admit: "again", nodeId: "n1" } },
    { when: "another key asks", token: { ...used, usedKeyHash: otherKeyHash }, gives: { refuse: "used" } },
    {
      when: "the same key asks again just past the end",
      token: { ...used, expiresAt: before(1) },
      gives: { admit: "again", nodeId: "n1" },
    },
    {
      when: "the same key asks again long past the end",
      token: { ...used, usedAt: before(700_000), expiresAt: before(1) },
      gives: { refuse: "expired" },
    },
    {
      when: "the same key asks again after a revocation",
      token: { ...used, revokedAt: before(1) },
      gives: { refuse: "revoked" },
    },
  ])("when $when", ({ token, secretMatches = true, gives }) => {
    expect(redeem(token, { secretMatches, keyHash, now })).toEqual(gives);
  });
});

describe("names", () => {
  test.each([
    { wish: "web-1", role: "node", names: ["web-1", "web-1-2"] },
    { wish: "  Rack 7 / unit_3 ", role: "node", names: ["rack-7-unit-3", "rack-7-unit-3-2"] },
    { wish: "", role: "edge", names: ["edge", "edge-2"] },
    { wish: "../../..", role: "node", names: ["node", "node-2"] },
    { wish: `${"a".repeat(39)}-${"b".repeat(40)}`, role: "node", names: ["a".repeat(39), `${"a".repeat(39)}-2`] },
  ] as const)("wish '$wish' of a $role", ({ wish, role, names }) => {
    expect(nodeNames(wish, role, 2)).toEqual(names);
  });
});

describe("an identity against its row", () => {
  const row = { role: "node", incarnation: 2, lifecycle: "active" } as const;
  test.each([
    { when: "it is the present one", identity: { role: "node", incarnation: 2 }, row, gives: null },
    { when: "there is no row", identity: { role: "node", incarnation: 1 }, row: null, gives: "unknown" },
    { when: "the row is of another role", identity: { role: "edge", incarnation: 2 }, row, gives: "unknown" },
    { when: "the row is older", identity: { role: "node", incarnation: 3 }, row, gives: "unknown" },
    { when: "the certificate is older", identity: { role: "node", incarnation: 1 }, row, gives: "fenced" },
    {
      when: "the node was fenced",
      identity: { role: "node", incarnation: 2 },
      row: { ...row, lifecycle: "fenced" as const },
      gives: "fenced",
    },
    {
      when: "the node was removed",
      identity: { role: "node", incarnation: 2 },
      row: { ...row, lifecycle: "removed" as const },
      gives: "fenced",
    },
  ])("when $when", ({ identity, row, gives }) => {
    expect(identityProblem(identity, row)).toBe(gives);
  });
});

describe("bootstrap token text", () => {
  const parts = {
    clusterId: "0b8f6c1e-6f0c-4d8e-9a3b-2f1d5c7e9a01",
    caSha256: "ab".repeat(32),
    id: "0123456789abcdef",
    secret: "cd".repeat(16),
  };
  test("survives writing and reading", () => {
    expect(parseBootstrapToken(formatBootstrapToken(parts))).toEqual(parts);
  });
  test.each([
    "",
    "svcn1",
    formatBootstrapToken(parts).slice(0, -1),
    `${formatBootstrapToken(parts)}.x`,
    "svcn2.a.b.c.d",
  ])("'%s' is not a token", (text) => {
    expect(parseBootstrapToken(text)).toBeNull();
  });
});
