import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { readConfig } from "../../config.ts";
import { tokenKeySettings } from "../../fleet/registry-tokens/testing.ts";
import { accountPrefix, defaultApiUrl, githostName } from "./settings.ts";

const dir = mkdtempSync(join(tmpdir(), "svc-githost-"));
afterAll(() => rmSync(dir, { recursive: true }));
const secretFile = join(dir, "secret");
writeFileSync(secretFile, "its secret\n");

const read = (env: Record<string, string>) =>
  readConfig(new Date(), {
    ...tokenKeySettings,
    SVC_DATABASE_URL: "postgres://svc@127.0.0.1/svc",
    SVC_MASTER_KEY: randomBytes(32).toString("base64"),
    SVC_AUTH_SECRET: randomBytes(32).toString("hex"),
    ...env,
  }).githost;
const app = { SVC_GITHOST_CLIENT_ID: "its id", SVC_GITHOST_CLIENT_SECRET_FILE: secretFile };

test.each([
  ["github", "https://github.com", "https://api.github.com"],
  ["github", "https://git.svc.test", "https://git.svc.test/api/v3"],
  ["gitea", "https://git.svc.test/gitea", "https://git.svc.test/gitea/api/v1"],
] as const)("the API of %s at %s is at %s", (kind, url, apiUrl) => {
  expect(defaultApiUrl(kind, url)).toBe(apiUrl);
});

describe("settings", () => {
  test("without an application there is no Git host", () => {
    expect(read({})).toBeUndefined();
    expect(read({ SVC_GITHOST_URL: "https://git.svc.test" })).toBeUndefined();
  });

  test("GitHub needs no address", () => {
    expect(read(app)).toEqual({
      kind: "github",
      url: "https://github.com",
      apiUrl: "https://api.github.com",
      clientId: "its id",
      clientSecret: "its secret",
    });
  });

  test("another one is named, a slash too many is not part of it", () => {
    const set = { ...app, SVC_GITHOST_KIND: "gitea", SVC_GITHOST_URL: "https://git.svc.test/gitea/" };
    expect(read(set)).toMatchObject({ url: "https://git.svc.test/gitea", apiUrl: "https://git.svc.test/gitea/api/v1" });
    expect(read({ ...set, SVC_GITHOST_API_URL: "http://10.0.0.5:3000/api/v1" })).toMatchObject({
      apiUrl: "http://10.0.0.5:3000/api/v1",
    });
  });

  test.each([
    [{ SVC_GITHOST_CLIENT_ID: "its id" }, "SVC_GITHOST_CLIENT_SECRET_FILE"],
    [{ SVC_GITHOST_CLIENT_SECRET_FILE: secretFile }, "SVC_GITHOST_CLIENT_ID"],
    [{ ...app, SVC_GITHOST_CLIENT_SECRET_FILE: "/nowhere" }, "SVC_GITHOST_CLIENT_SECRET_FILE"],
    [{ ...app, SVC_GITHOST_KIND: "gitea" }, "SVC_GITHOST_URL"],
    [{ ...app, SVC_GITHOST_KIND: "svn" }, "SVC_GITHOST_KIND"],
    [{ ...app, SVC_GITHOST_URL: "ftp://git.svc.test" }, "SVC_GITHOST_URL"],
  ])("%j is refused by name", (env, setting) => {
    expect(() => read(env as unknown as Record<string, string>)).toThrow(setting);
  });
});

test("people read a name that they know, and numbers belong to one Git host", () => {
  expect(githostName({ kind: "github", url: "https://github.com" })).toBe("GitHub");
  expect(githostName({ kind: "gitea", url: "https://git.svc.test:3000" })).toBe("git.svc.test:3000");
  expect(accountPrefix({ url: "https://git.svc.test:3000/gitea" })).toBe("git.svc.test:3000/");
});
