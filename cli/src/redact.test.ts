import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isSecretName, redact, redacted, scrub } from "./redact.ts";

test.each([
  "token",
  "tokenRef",
  "password",
  "secret",
  "apiKey",
  "api_key",
  "value",
  "key",
  "accessToken",
  "newPassword",
  "client_secret",
  "databaseUrl",
  "connection-string",
  "Authorization",
  "privateKey",
  "Set-Cookie",
  "passphrase",
])("a field called %s is not printed", (name) => {
  expect(isSecretName(name)).toBe(true);
  expect(redact({ [name]: "s3cret" })).toEqual({ [name]: redacted });
});

test.each([
  "keys",
  "passwordProtected",
  "url",
  "name",
  "slug",
  "tokens",
  "bootstrap",
  "id",
  "start",
  "credentials",
  "monkey",
  "source",
  "message",
])("a field called %s is printed", (name) => {
  expect(redact({ [name]: "seen" })).toEqual({ [name]: "seen" });
});

test("secrets are found at any depth, and whole objects under a secret name go", () => {
  expect(redact({ a: [{ token: { id: 1 } }, { b: { password: 5 } }], tokenRef: ["x"] })).toEqual({
    a: [{ token: redacted }, { b: { password: redacted } }],
    tokenRef: redacted,
  });
});

test("whether there is a secret may be said", () => {
  expect(redact({ password: true, token: null })).toEqual({ password: true, token: null });
});

test("what is not secret comes through unchanged", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const harmless = JSON.parse(
        JSON.stringify({ a: value }, (name, item) => (isSecretName(name) ? undefined : item)),
      );
      expect(redact(harmless)).toEqual(harmless);
    }),
  );
});

describe("in running text", () => {
  test("passwords of URLs are hidden", () => {
    expect(scrub("postgres://bob:hunter22@db.test/x and https://u:p@h.test", [])).toBe(
      `postgres://bob:${redacted}@db.test/x and https://u:${redacted}@h.test`,
    );
  });
  test("the secrets of this run are hidden", () => {
    expect(scrub("key svc_abcdef in svc_abcdef!", ["svc_abcdef"])).toBe(`key ${redacted} in ${redacted}!`);
  });
  test("a text without secrets is left alone", () => {
    expect(scrub("http://shop.svc.localhost:8080/a?b=c:d@e", [])).toBe("http://shop.svc.localhost:8080/a?b=c:d@e");
  });
});

test("a value that is counted is shown, and a value with anything else is not", () => {
  const lists = { paths: [{ value: "/", count: 3 }] };
  expect(redact(lists)).toEqual(lists);
  for (const other of [{ value: "x" }, { value: "x", count: "3" }, { value: "x", count: 3, name: "KEY" }])
    expect(redact(other)).toMatchObject({ value: redacted });
});
