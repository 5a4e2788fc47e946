import { mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { deleteState, readState, statePath, writeState } from "./state.ts";
import { projectId } from "./testing/api.ts";
import { aDirectory } from "./testing/svc.ts";

const project = { id: projectId, slug: "shop", name: "Shop", type: "static" };

test("a directory is linked, and unlinked", async () => {
  await using directory = await aDirectory();
  expect(await readState(directory.path)).toBeNull();
  await writeState(directory.path, project);
  expect(await readState(directory.path)).toEqual({ id: projectId, slug: "shop" });
  await deleteState(directory.path);
  expect(await readState(directory.path)).toBeNull();
});

test("what else a repository puts there does not count", async () => {
  await using directory = await aDirectory();
  await mkdir(join(directory.path, ".svc"));
  const text = JSON.stringify({ apiUrl: "https://evil.example.test", tokenRef: "env:HOME", project });
  await writeFile(statePath(directory.path), text);
  expect(await readState(directory.path)).toEqual({ id: projectId, slug: "shop" });
});

test.each(["", "{", "[]", "{}", '{"project":{"id":"../x","slug":"a"}}', '{"project":{"id":5}}'])(
  "%j is damaged",
  async (text) => {
    await using directory = await aDirectory({ ".svc/state.json": text });
    await expect(readState(directory.path)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  },
);

test("a directory, or more than it can be, in its place is damaged, too", async () => {
  await using directory = await aDirectory({ ".svc/state.json/x": "" });
  await expect(readState(directory.path)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  await expect(writeState(directory.path, project)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  await using other = await aDirectory({ ".svc/state.json": " ".repeat(65 * 1024) });
  await expect(readState(other.path)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
});

test("nothing is written through a link that the repository brings", async () => {
  await using directory = await aDirectory({ "elsewhere/keep": "" });
  await symlink("elsewhere", join(directory.path, ".svc"));
  await expect(writeState(directory.path, project)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  expect(await readdir(join(directory.path, "elsewhere"))).toEqual(["keep"]);
});
