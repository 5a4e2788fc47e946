import { expect, test } from "vitest";
import { gateOf, gateSecretOf } from "./gate.ts";

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
