import { expect, test } from "vitest";
import { cleanResult, cleanRows } from "./clean.ts";

test.each([
  { when: "a field is called so", payload: { token: "abc", nested: [{ databaseUrl: "x" }] }, leaks: ["abc", '"x"'] },
  {
    when: "a URL in a log has a password",
    payload: { untrusted: { log: "at postgres://app:hunter22@db.svc.internal/app" } },
    leaks: ["hunter22"],
  },
  { when: "a known secret is in a text", payload: { log: "key is svc_key-secret!" }, leaks: ["svc_key-secret"] },
  { when: "a known secret is a name", payload: { untrusted: { "svc_key-secret": 1 } }, leaks: ["svc_key-secret"] },
  {
    when: "escapes would drive a terminal",
    payload: { log: "\u001b]0;title\u0007ok\u202e" },
    leaks: ["\\u001b", "\u202e"],
  },
])("nothing secret is left when $when", ({ payload, leaks }) => {
  const text = JSON.stringify(cleanResult(payload, new Set(["svc_key-secret"])));
  for (const leak of leaks) expect(text).not.toContain(leak);
});

test("whether there is a password may be said, and so may figures", () => {
  const payload = { passwordProtected: true, password: null, list: [{ value: "DE", count: 3 }], log: "a\tb\n" };
  expect(cleanResult(payload, new Set())).toEqual(payload);
});

test("texts of secret columns are kept back, numbers, other columns and empty cells not", () => {
  const columns = ["id", "password_hash", "apiToken", "tokens_used", "key", "value"];
  const rows = cleanRows(columns, [[1, "$2b$", "t", 512, "k", "v"]]);
  expect(rows).toEqual([[1, "[redacted]", "[redacted]", 512, "k", "v"]]);
  expect(cleanRows(["password"], [[null], ["x"]])).toEqual([[null], ["[redacted]"]]);
});
