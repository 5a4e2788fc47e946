import { join } from "node:path";
import { parseManifest } from "@svc/proto";
import { expect, test } from "vitest";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { aDirectory } from "../testing/svc.ts";
import { listSource } from "./source.ts";

const aSite = "version: 2\napp:\n  name: Docs\n  type: static\n";

/** What listing a directory with these files says: warnings, or the error. */
async function look(files: Record<string, string>, { yes = false, at = "svc.yml" } = {}) {
  await using directory = await aDirectory(files);
  const warnings: string[] = [];
  const context = { globals: { yes }, warn: (text: string) => warnings.push(text) } as unknown as Context;
  const parsed = parseManifest(files[at] ?? "", { path: at });
  if (!("manifest" in parsed) || !("app" in parsed.manifest)) throw new Error("the manifest of the test is wrong");
  const place = { file: join(directory.path, at), directory: directory.path, repository: null, home: ".", path: at };
  try {
    await listSource(context, place, parsed.manifest);
    return { warnings };
  } catch (thrown) {
    if (!(thrown instanceof CliError)) throw thrown;
    const { code, message, hint } = thrown;
    return { code, message, hint };
  }
}

test.each([
  { when: "it is a site", files: { "svc.yml": aSite, "index.html": "" } },
  { when: "a build makes the site", files: { "svc.yml": aSite, "package.json": '{"scripts":{"build":"vite build"}}' } },
  {
    when: "a framework has a command of its own",
    files: {
      "svc.yml": aSite,
      "package.json": '{"scripts":{"docs:build":"vitepress build docs"},"devDependencies":{"vitepress":"1.6.4"}}',
    },
  },
  {
    when: "the workspace around it has the framework",
    files: {
      "svc.yml": `${aSite}source: { rootDirectory: apps/web }\n`,
      "nx.json": "{}",
      "package.json": '{"workspaces":["apps/*"],"devDependencies":{"nx":"20","vite":"6"}}',
      "apps/web/package.json": '{"name":"web"}',
      "apps/web/vite.config.ts": "export default {}",
      "apps/web/index.html": "",
      "apps/web/src/main.tsx": "",
    },
  },
  {
    when: "the workspace that has the framework lies below the top of the repository",
    files: {
      "svc.yml": `${aSite}source: { rootDirectory: front/apps/web }\n`,
      "front/nx.json": "{}",
      "front/package.json": '{"workspaces":["apps/*"],"devDependencies":{"nx":"20","vite":"6"}}',
      "front/apps/web/package.json": '{"name":"web"}',
      "front/apps/web/vite.config.ts": "export default {}",
      "front/apps/web/index.html": "",
      "front/apps/web/src/main.tsx": "",
    },
  },
  { when: "a command makes the site", files: { "svc.yml": `${aSite}build: { command: make }\n`, Makefile: "" } },
  { when: "it is meant", files: { "svc.yml": `${aSite}build: { allowUnusual: true }\n`, "data.json": "" } },
  {
    when: "a part of the project is served",
    files: {
      "svc.yml": `${aSite}build: { output: site }\n`,
      "site/index.html": "",
      "package.json": '{"scripts":{"build":"x"}}',
    },
  },
  { when: "it is a server", files: { "svc.yml": aSite.replace("static", "ssr"), "server.js": "" } },
])("goes on when $when", async ({ files }) => {
  expect(await look(files)).toEqual({ warnings: [] });
});

test.each([
  {
    when: "there is no first page",
    files: { "svc.yml": aSite, "a.css": "" },
    says: /^Visitors would get the files of this directory as they are:\n {2}There is no index\.html/,
    line: "app.type in line 4 of svc.yml",
  },
  {
    when: "what builds it is not packed",
    files: {
      "svc.yml": aSite,
      ".svcignore": "package.json\n",
      "package.json": '{"scripts":{"build":"x"}}',
      "a.css": "",
    },
    says: /\n {2}There is no index\.html/,
    line: "app.type in line 4 of svc.yml",
  },
  {
    when: "a project has no build",
    files: { "svc.yml": `${aSite}build:\n  allowUnusual: false\n`, "package.json": "{}" },
    says: /\n {2}package\.json is served: .*build\.command and build\.output\.$/,
    line: "build in line 5 of svc.yml",
  },
  {
    when: "package.json is none",
    files: { "svc.yml": aSite, "package.json": "null" },
    says: /package\.json is served/,
    line: "app.type in line 4 of svc.yml",
  },
  {
    when: "the output is the wrong one",
    files: { "svc.yml": `${aSite}build:\n  output: out\n`, "out/en/index.html": "" },
    says: /^Visitors would get the files in out as they are:\n.*There is one in en:/,
    line: "build.output in line 6 of svc.yml",
  },
  {
    when: "the app lies deeper",
    files: { "svc.yml": `${aSite}source: { rootDirectory: web }\n`, "web/index.html": "", "web/id_rsa": "" },
    says: /^Visitors would get the files in web as they are:\n {2}id_rsa may hold secrets/,
    line: "app.type in line 4 of svc.yml",
  },
])("stops when $when", async ({ files, says, line }) => {
  expect(await look(files)).toEqual({
    code: "DEPLOY_TRIGGER_FAILED",
    message: expect.stringMatching(says),
    hint: `Change ${line}. If it is meant like this, write allowUnusual: true below build there, or run the same command with --yes`,
  });
});

test("what --yes lets go on is a warning", async () => {
  expect(await look({ "svc.yml": aSite, "index.html": "", "deploy.pem": "" }, { yes: true })).toEqual({
    warnings: [expect.stringMatching(/^deploy\.pem may hold secrets/)],
  });
});
