import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { CannotOpen, createSecrets } from "./secrets.ts";

const [old, fresh] = [randomBytes(32), randomBytes(32)];
const place = "env_var/p1/KEY";

test("what was sealed opens at its own place, and nowhere else", () => {
  const secrets = createSecrets([old]);
  const sealed = secrets.seal(Buffer.from("swordfish"), place);
  expect(secrets.open(sealed, place).toString()).toBe("swordfish");
  expect(() => secrets.open(sealed, "env_var/p2/KEY")).toThrow(CannotOpen);
  expect(sealed.includes("swordfish")).toBe(false);
});

test("a rotated key opens old values and seals new ones that the old key cannot open", () => {
  const sealed = createSecrets([old]).seal(Buffer.from("x"), place);
  const rotated = createSecrets([fresh, old]);
  expect(rotated.open(sealed, place).toString()).toBe("x");
  expect(() => createSecrets([old]).open(rotated.seal(Buffer.from("x"), place), place)).toThrow(CannotOpen);
});

test.each([0, 1, 5, 20, 33])("a flipped bit at byte %i is noticed", (at) => {
  const secrets = createSecrets([old]);
  const sealed = secrets.seal(Buffer.from("a value that is long enough"), place);
  sealed[at] = (sealed[at] ?? 0) ^ 1;
  expect(() => secrets.open(sealed, place)).toThrow(CannotOpen);
});

test("a digest is the same for the same content at the same place, and nobody else's with another key", () => {
  const [one, other] = [createSecrets([old]), createSecrets([fresh, old])];
  const digest = one.digest(Buffer.from("swordfish"), place);
  expect(digest).toMatch(/^[0-9a-f]{64}$/);
  expect(createSecrets([old, fresh]).digest(Buffer.from("swordfish"), place)).toBe(digest);
  expect(one.digest(Buffer.from("swordfish"), "env_var/p2/KEY")).not.toBe(digest);
  expect(one.digest(Buffer.from("sword"), place)).not.toBe(digest);
  expect(other.digest(Buffer.from("swordfish"), place)).not.toBe(digest);
});
