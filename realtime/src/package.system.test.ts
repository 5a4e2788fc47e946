import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { run } from "@svc/runtime/command";
import { thisNode } from "@svc/runtime/programs";
import { rolldown } from "rolldown";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const folder = fileURLToPath(new URL("..", import.meta.url));
const { resolve } = createRequire(import.meta.url);
/** Where this repository has its packages. */
const packagesFolder = dirname(dirname(resolve("typescript/package.json")));

/** Of somebody who installed the package, and nothing else; what is in `consumer/` is theirs. */
let dir = "";
let installed = "";
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-realtime-"));
  const npm = (words: readonly string[], cwd: string) =>
    run(["npm", ...words], {
      cwd,
      env: { ...process.env, npm_config_offline: "true", npm_config_update_notifier: "false" },
    });
  const { stdout } = await npm(["pack", "--json", "--pack-destination", dir], folder);
  const [file = ""] = /[\w.-]+\.tgz/.exec(stdout) ?? [];
  await writeFile(join(dir, "package.json"), JSON.stringify({ name: "consumer", private: true, type: "module" }));
  await npm(["install", "--no-audit", "--no-fund", `./${file}`], dir);
  installed = join(dir, "node_modules", "@svc", "realtime");
  // What an application in TypeScript has besides.
  for (const name of ["postgres", "@types"]) await symlink(join(packagesFolder, name), join(dir, "node_modules", name));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const manifest = async () =>
  JSON.parse(await readFile(join(installed, "package.json"), "utf8")) as Record<string, unknown>;

test("it brings nothing else, and asks for nothing but perhaps React", async () => {
  const { dependencies, peerDependencies, peerDependenciesMeta, engines, type } = await manifest();
  expect(dependencies).toBeUndefined();
  expect(peerDependencies).toEqual({ react: ">=18" });
  expect(peerDependenciesMeta).toEqual({ react: { optional: true } });
  expect([engines, type]).toEqual([{ node: ">=22" }, "module"]);
  expect(JSON.stringify(await manifest())).not.toMatch(/"(@svc\/(?!realtime")|svc-cli)/);
  const lock = JSON.parse(await readFile(join(dir, "package-lock.json"), "utf8")) as {
    packages: Record<string, unknown>;
  };
  expect(Object.keys(lock.packages)).toEqual(["", "node_modules/@svc/realtime"]);
});

test("a server made of it answers", async () => {
  await copyFile(join(folder, "consumer", "run.js"), join(dir, "run.js"));
  const { stdout } = await run([thisNode, "run.js"], { cwd: dir });
  expect(stdout.split("\n")).toEqual([
    'event: message|data: {"channel":"a","data":["x"]}',
    "25 1000 function",
    "TypeError",
    "",
  ]);
});

describe("an application in TypeScript", () => {
  test.each([
    { side: "server", app: "server.ts", lib: ["es2024"], types: ["node"], module: "nodenext" },
    { side: "server that is bundled", app: "server.ts", lib: ["es2024", "dom"], types: ["node"], module: "preserve" },
    { side: "browser", app: "browser.ts", lib: ["es2024", "dom"], types: [], module: "preserve" },
  ])("compiles on the $side, and every declaration with it", async ({ side, app, lib, types, module }) => {
    const place = join(dir, side.replaceAll(" ", "-"));
    await mkdir(place);
    await copyFile(join(folder, "consumer", app), join(place, app));
    await writeFile(
      join(place, "tsconfig.json"),
      JSON.stringify({
        compilerOptions: {
          strict: true,
          noEmit: true,
          exactOptionalPropertyTypes: true,
          target: "es2024",
          skipLibCheck: false,
          module,
          lib,
          types,
        },
        files: [app],
      }),
    );
    await run([thisNode, join(packagesFolder, "typescript", "bin", "tsc"), "-p", place]);
  });
});

describe("what it weighs, with gzip", () => {
  /** All that a bundler of whoever imports the entry takes of this package. */
  async function gzipBytes(entry: string): Promise<number> {
    const bundle = await rolldown({
      input: join(installed, "dist", entry),
      external: [/^node:/, "react"],
      logLevel: "silent",
    });
    const { output } = await bundle.generate({ format: "esm", minify: true });
    await bundle.close();
    return gzipSync(output.map((each) => ("code" in each ? each.code : "")).join(""), { level: 9 }).byteLength;
  }

  test.each([
    ["client.js", 1_000],
    ["react.js", 1_300],
    ["index.js", 4_000],
  ])("%s has at most %d bytes", async (entry, mostBytes) => {
    expect(await gzipBytes(entry)).toBeLessThanOrEqual(mostBytes);
  });
});

test("the hook's entry tells frameworks that it is the browser's", async () => {
  expect(await readFile(join(installed, "dist", "react.js"), "utf8")).toMatch(/^"use client";/);
});
