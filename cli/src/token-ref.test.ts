import { join } from "node:path";
import { expect, test } from "vitest";
import { aDirectory } from "./testing/svc.ts";
import { parseTokenRef, resolveTokenRef } from "./token-ref.ts";

test.each([
  ["literal:svc_abc:def", { scheme: "literal", value: "svc_abc:def" }],
  ["env:MY_TOKEN", { scheme: "env", name: "MY_TOKEN" }],
  ["file:/run/secrets/token", { scheme: "file", path: "/run/secrets/token" }],
  ["file:C:\\keys\\token", { scheme: "file", path: "C:\\keys\\token" }],
  ["dotenv:/a/.env:TOKEN", { scheme: "dotenv", path: "/a/.env", name: "TOKEN" }],
  ["dotenv:C:\\a\\.env:TOKEN", { scheme: "dotenv", path: "C:\\a\\.env", name: "TOKEN" }],
])("%s is read", (text, ref) => {
  expect(parseTokenRef(text)).toEqual(ref);
});

test.each([
  "",
  "svc_abc",
  "literal:",
  "env:",
  "env:not a name",
  "env:1X",
  "file:",
  "dotenv:.env",
  "dotenv:.env:",
  "dotenv::X",
  "https://x",
  "keychain:x",
])("%j is malformed", async (text) => {
  expect(parseTokenRef(text)).toBeNull();
  await expect(resolveTokenRef(text, { env: {}, directory: "/", home: "/" })).rejects.toMatchObject({
    code: "TOKEN_REF_INVALID",
  });
});

test("a key is found where it is referred to; paths count from the config's directory, ~ from home", async () => {
  await using directory = await aDirectory({ "key.txt": "from-file\n", ".env": "OTHER=1\nTOKEN='from-dotenv'\n" });
  const places = { env: { T: " from-env " }, directory: directory.path, home: directory.path };
  expect(await resolveTokenRef("literal:from-literal", places)).toBe("from-literal");
  expect(await resolveTokenRef("env:T", places)).toBe("from-env");
  expect(await resolveTokenRef("file:key.txt", places)).toBe("from-file");
  expect(await resolveTokenRef("file:~/key.txt", places)).toBe("from-file");
  expect(await resolveTokenRef(`file:${join(directory.path, "key.txt")}`, places)).toBe("from-file");
  expect(await resolveTokenRef("dotenv:.env:TOKEN", places)).toBe("from-dotenv");
});

test.each([
  "env:NONE",
  "env:EMPTY",
  "file:none.txt",
  "file:empty.txt",
  "dotenv:.env:NONE",
  "dotenv:none:TOKEN",
  "file:binary.txt",
])("%s points at nothing", async (text) => {
  await using directory = await aDirectory({ ".env": "A=1\n", "empty.txt": "\n", "binary.txt": "a\nb\n" });
  const places = { env: { EMPTY: "" }, directory: directory.path, home: "/" };
  await expect(resolveTokenRef(text, places)).rejects.toMatchObject({ code: "TOKEN_MISSING" });
});
