import { readdir, readFile, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { aDirectory, envelopeOf, svc } from "../testing/svc.ts";

const args = ["init", "--template", "realtime-todo", "--json"];
const filesBelow = async (directory: string) =>
  (await readdir(directory, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile()).length;

test("a template is a whole app, with a manifest that holds and the package that it needs", async () => {
  await using directory = await aDirectory();
  const { path: cwd } = directory;
  const reply = envelopeOf(await svc([...args, "--name", "Ship: list"], { cwd }));
  expect(reply).toMatchObject({
    ...{ ok: true, manifest: "svc.yml", app: "Ship: list", template: "realtime-todo" },
    files: expect.arrayContaining([".gitignore", "package-lock.json", "src/server.js", "public/index.html"]),
    hint: expect.stringContaining("svc deploy"),
  });
  expect(await filesBelow(cwd)).toBe((reply["files"] as string[]).length + 1);
  expect(envelopeOf(await svc(["manifest", "validate", "--json"], { cwd }))).toMatchObject({ ok: true });
  expect(await readFile(join(cwd, "svc.yml"), "utf8")).toMatch(/^ {2}name: "Ship: list"$/m);
  const { dependencies } = JSON.parse(await readFile(join(cwd, "package.json"), "utf8"));
  const vendored = dependencies["@svc/realtime"].replace(/^file:/, "");
  expect(JSON.parse(await readFile(join(cwd, vendored, "package.json"), "utf8"))).toMatchObject({
    ...{ name: "@svc/realtime", exports: { "./client": { default: "./client.js" } } },
  });
  expect((await import(join(cwd, vendored, "index.js"))).createRealtime).toBeTypeOf("function");
});

test("it says whose app it is to a person, and names its templates to who asks for another", async () => {
  await using directory = await aDirectory();
  const { path: cwd } = directory;
  const { stdout } = await svc(args.slice(0, 3), { cwd });
  expect(stdout).toMatch(/^✓ Wrote svc\.yml and \d+ files for Todos\n {2}Next: Run svc deploy/);
  const { error } = envelopeOf(await svc(["init", "--template", "chat", "--json"], { cwd }));
  expect(error).toMatchObject({ message: expect.stringMatching(/one of ociimage, realtime-todo, not "chat"/) });
});

test("what is there is not replaced unasked", async () => {
  await using directory = await aDirectory({ "src/server.js": "mine", "README.md": "mine", "notes.txt": "mine" });
  const { path: cwd } = directory;
  expect(envelopeOf(await svc(args, { cwd }))).toMatchObject({
    error: {
      code: "CLI_INVALID_USAGE",
      message: expect.stringMatching(/^README\.md, src\/server\.js exist already/),
      hint: expect.stringContaining("`svc init --template realtime-todo --force`"),
    },
  });
  expect(await filesBelow(cwd)).toBe(3);

  expect(envelopeOf(await svc([...args, "--force"], { cwd }))).toMatchObject({ ok: true });
  expect(await readFile(join(cwd, "src/server.js"), "utf8")).toContain("createRealtime");
  expect(await readFile(join(cwd, "notes.txt"), "utf8")).toBe("mine");
  expect(envelopeOf(await svc(args, { cwd }))).toMatchObject({
    error: { code: "MANIFEST_INVALID", hint: expect.stringContaining("--template realtime-todo --force") },
  });
});

test("a run that was cut off is taken up again: what is there as it should be is no hindrance", async () => {
  await using directory = await aDirectory();
  const { path: cwd } = directory;
  await svc(args, { cwd });
  for (const path of ["svc.yml", "src/http.js", "public"]) await rm(join(cwd, path), { recursive: true });
  expect(envelopeOf(await svc(args, { cwd }))).toMatchObject({ ok: true });
  expect(await readFile(join(cwd, "public/app.js"), "utf8")).toContain("subscribe");
});

test("nothing is written through a link", async () => {
  await using elsewhere = await aDirectory();
  await using directory = await aDirectory();
  const { path: cwd } = directory;
  await symlink(elsewhere.path, join(cwd, "vendor"));
  for (const force of [[], ["--force"]]) {
    expect(envelopeOf(await svc([...args, ...force], { cwd }))).toMatchObject({
      error: { code: "CLI_INVALID_USAGE", message: expect.stringMatching(/^vendor is no directory of its own/) },
    });
  }
  expect([await filesBelow(cwd), await filesBelow(elsewhere.path)]).toEqual([0, 0]);
});
