import { chmod, mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { configPath, readConfig, writeConfig } from "./config.ts";
import { resolveCredentials } from "./credentials.ts";
import { aUser } from "./testing/api.ts";
import { aDirectory } from "./testing/svc.ts";

const stored = { apiUrl: "https://svc.example.test", tokenRef: "literal:stored-key", user: aUser };

/** Credentials with `config` stored, and the warnings that came with them. */
async function resolve(config: object | string | null, env: Record<string, string> = {}, mode = 0o600) {
  await using directory = await aDirectory();
  if (config !== null) {
    const path = configPath({}, directory.path);
    await mkdir(join(path, ".."), { recursive: true });
    await writeFile(path, typeof config === "string" ? config : JSON.stringify(config), { mode });
    await chmod(path, mode);
  }
  const warnings: string[] = [];
  const found = await resolveCredentials({ env, home: directory.path, warn: (text) => warnings.push(text) });
  return { ...found, warnings };
}

test("the stored login counts, unless SVC_TOKEN is set", async () => {
  expect(await resolve(stored)).toEqual({
    apiUrl: "https://svc.example.test",
    token: "stored-key",
    source: "config",
    warnings: [],
  });
  expect(await resolve(stored, { SVC_TOKEN: "from-env" })).toMatchObject({ token: "from-env", source: "env" });
});

test("with SVC_TOKEN and SVC_API_URL no stored login is needed, nor looked at", async () => {
  const env = { SVC_TOKEN: "k", SVC_API_URL: "http://127.0.0.1:9999" };
  expect(await resolve(null, env)).toMatchObject({ apiUrl: "http://127.0.0.1:9999", token: "k" });
  expect(await resolve("{ damaged", env)).toMatchObject({ apiUrl: "http://127.0.0.1:9999" });
  expect(await resolve(null, { SVC_TOKEN: "k" })).toMatchObject({ apiUrl: "http://127.0.0.1:4000" });
});

test("a stored key is not sent to another place than the one it was made for", async () => {
  await expect(resolve(stored, { SVC_API_URL: "https://evil.example.test" })).rejects.toMatchObject({
    code: "CLOUD_NOT_LOGGED_IN",
  });
  const local = { ...stored, apiUrl: "http://localhost:4000" };
  expect(await resolve(local, { SVC_API_URL: "http://127.0.0.1:4000" })).toMatchObject({ token: "stored-key" });
});

test.each([
  ["no login", null, {}, "CLOUD_NOT_LOGGED_IN"],
  ["a damaged file", "{ damaged", {}, "CONFIG_INVALID"],
  ["a file of something else", "[]", {}, "CONFIG_INVALID"],
  ["an API over plain http", { ...stored, apiUrl: "http://svc.example.test" }, {}, "CONFIG_INVALID"],
  ["SVC_API_URL over plain http", stored, { SVC_API_URL: "http://svc.example.test" }, "CONFIG_INVALID"],
  ["a malformed tokenRef", { ...stored, tokenRef: "abc" }, {}, "TOKEN_REF_INVALID"],
  ["a file that is larger than any login", " ".repeat(65 * 1024), {}, "CONFIG_INVALID"],
  ["a tokenRef to a directory", { ...stored, tokenRef: "file:." }, {}, "TOKEN_MISSING"],
  ["a tokenRef to a variable in a directory", { ...stored, tokenRef: "dotenv:.:KEY" }, {}, "TOKEN_MISSING"],
  ["a tokenRef to nothing", { ...stored, tokenRef: "env:NONE" }, {}, "TOKEN_MISSING"],
  ["a key that no header can carry", stored, { SVC_TOKEN: "a\nb" }, "TOKEN_MISSING"],
])("with %s", async (_, config, env, code) => {
  await expect(resolve(config, env as Record<string, string>)).rejects.toMatchObject({ code });
});

test("a login that others can read is told about", async () => {
  const { warnings } = await resolve(stored, {}, 0o644);
  expect(warnings).toEqual([expect.stringContaining("chmod 600")]);
});

test("the login is stored whole, for its owner only, and never through a link", async () => {
  await using directory = await aDirectory({ "target.txt": "untouched" });
  const path = configPath({ XDG_CONFIG_HOME: join(directory.path, "xdg") }, "/nowhere");
  expect(path).toBe(join(directory.path, "xdg", "svc", "config.json"));
  await writeConfig(path, stored);
  await writeConfig(path, { ...stored, tokenRef: "literal:second" });
  expect(await readConfig(path)).toEqual({ ...stored, tokenRef: "literal:second" });
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect((await stat(join(path, ".."))).mode & 0o777).toBe(0o700);

  const link = join(directory.path, "link.json");
  await symlink(join(directory.path, "target.txt"), link);
  await expect(writeConfig(link, stored)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  expect(await readFile(join(directory.path, "target.txt"), "utf8")).toBe("untouched");
});

test("a relative XDG_CONFIG_HOME does not count", () => {
  expect(configPath({ XDG_CONFIG_HOME: "relative" }, "/home/ada")).toBe("/home/ada/.config/svc/config.json");
});

test("with a directory in the place of the stored login", async () => {
  await using directory = await aDirectory();
  const path = configPath({}, directory.path);
  await mkdir(path, { recursive: true });
  await expect(readConfig(path)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  await expect(writeConfig(path, stored)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
});
