import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { explicitSlug, findManifest, getManifest, locateManifest } from "./manifest-file.ts";
import { aDirectory } from "./testing/svc.ts";

const valid = "version: 2\nslug: shop\napp: { name: Shop, type: static }\n";

test("a manifest knows its place in its repository", async () => {
  await using directory = await aDirectory({ "svc.yml": valid, "apps/web/svc.yml": valid });
  const root = directory.path;
  expect(await locateManifest(join(root, "apps/web"), "svc.yml")).toMatchObject({ home: ".", path: "svc.yml" });
  // Named from above, it is one of what lies there.
  const named = await getManifest(await locateManifest(root, "apps/web/svc.yml"));
  expect(named).toMatchObject({ source: { rootDirectory: "apps/web", manifestPath: "apps/web/svc.yml" } });
  await mkdir(join(root, ".git"));
  expect(await locateManifest(join(root, "apps/web"), "svc.yml")).toMatchObject({
    home: "apps/web",
    path: "apps/web/svc.yml",
  });
  const place = await locateManifest(root, "apps/web/svc.yml");
  expect(place).toMatchObject({ home: "apps/web", path: "apps/web/svc.yml", directory: join(root, "apps/web") });
  expect(await getManifest(place)).toMatchObject({
    source: { rootDirectory: "apps/web", manifestPath: "apps/web/svc.yml" },
  });
});

test("an explicit slug is one, auto is none", async () => {
  await using directory = await aDirectory({ "svc.yml": valid, "auto.yml": valid.replace("slug: shop", "slug: auto") });
  expect(explicitSlug(await getManifest(await locateManifest(directory.path, "svc.yml")))).toBe("shop");
  expect(explicitSlug(await getManifest(await locateManifest(directory.path, "auto.yml")))).toBeNull();
});

test("no manifest, and one that is wrong in several places", async () => {
  await using directory = await aDirectory({
    "bad.yml": "version: 2\napp:\n  nam: Shop\n  type: magic\n",
    "dir/x": "",
    "latin.yml": Buffer.from(valid.replace("Shop", "Caf\u00e9"), "latin1"),
    "large.yml": `# ${"x".repeat(1024 * 1024)}`,
  });
  const at = (path: string) => locateManifest(directory.path, path);
  expect(await findManifest(await at("svc.yml"))).toBeNull();
  await expect(getManifest(await at("svc.yml"))).rejects.toMatchObject({ code: "MANIFEST_NOT_FOUND" });
  await expect(getManifest(await at("dir"))).rejects.toMatchObject({ code: "MANIFEST_NOT_FOUND" });
  await expect(getManifest(await at("large.yml"))).rejects.toMatchObject({ code: "MANIFEST_INVALID" });
  await expect(getManifest(await at("latin.yml"))).rejects.toMatchObject({
    code: "MANIFEST_INVALID",
    message: expect.stringContaining("is not text in UTF-8"),
  });
  await expect(getManifest(await at("none/svc.yml"))).rejects.toMatchObject({ code: "MANIFEST_NOT_FOUND" });
  await expect(getManifest(await at("bad.yml"))).rejects.toMatchObject({
    code: "MANIFEST_INVALID",
    message: expect.stringMatching(/line 4, column 9: app\.type[\s\S]*line 3, column 3: .*did you mean name\?/),
  });
});
