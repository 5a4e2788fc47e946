import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { run } from "@svc/runtime/command";
import { ownProgram } from "@svc/runtime/programs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { engineEnvironment } from "./engine.ts";

let dir: string;
let env: NodeJS.ProcessEnv;
const first = (paths: string | undefined): string => paths?.split(delimiter)[0] ?? "";
const runc = ownProgram(join(first(engineEnvironment({}, "").PATH), "runc"));

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-runc-"));
  // Stands for the real one: says what it was told.
  const real = join(dir, "runc");
  await writeFile(real, '#!/bin/sh\nfor each in "$@"; do echo "<$each>"; done\n');
  await chmod(real, 0o755);
  env = engineEnvironment({ PATH: [dir, process.env["PATH"]].join(delimiter) }, "");
});
afterAll(async () => {
  await rm(dir, { recursive: true });
});

/** A step's description with the parts of it that a Dockerfile has a say in, as the engine writes it. */
const description = (capabilities: readonly string[], said: string) => ({
  ociVersion: "1.0.2",
  process: {
    args: ["/bin/sh", "-c", said, said],
    env: [`X=${said}`, said],
    cwd: said,
    capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities },
  },
  hostname: said,
  mounts: [{ destination: said, source: said }],
});

async function start(bundle: string, content: string): Promise<{ said: string; config: string }> {
  await mkdir(bundle, { recursive: true });
  await writeFile(join(bundle, "config.json"), content);
  const { stdout } = await run([runc, "--log", "a b", "run", "--bundle", bundle, "--keep", "id"], { env });
  return { said: stdout, config: await readFile(join(bundle, "config.json"), "utf8") };
}

const given = ["CAP_CHOWN", "CAP_NET_RAW", "CAP_SETUID", "CAP_MKNOD", "CAP_AUDIT_WRITE"];
const left = ["CAP_CHOWN", "CAP_CHOWN", "CAP_SETUID", "CAP_CHOWN", "CAP_CHOWN"];

test.each([
  "make",
  'a "quoted" \\ word',
  '"CAP_NET_RAW"',
  '\\"CAP_NET_RAW\\"',
  '","CAP_NET_RAW","',
  '"capabilities":{"bounding":["CAP_NET_RAW"]}',
  "line\nCAP_NET_RAW\n\u2028 \u{1f600} \ufffd",
  "$(touch /x) `id` ' ; --bundle",
  "X=CAP_NET_RAW",
])("a step loses the rights that it needs not, and nothing else changes, with %j in its Dockerfile", async (said) => {
  const bundle = join(dir, "a b", "buildkit", "executor", "x1");
  const result = await start(bundle, JSON.stringify(description(given, said)));
  expect(JSON.parse(result.config)).toEqual(description(left, said));
  expect(result.said).toBe(
    ["--log", "a b", "run", "--bundle", bundle, "--keep", "id"].map((each) => `<${each}>\n`).join(""),
  );
});

test("a word that is nothing but a right only changes itself", async () => {
  const { config } = await start(
    join(dir, "buildkit", "executor", "x2"),
    JSON.stringify(description(given, "CAP_NET_RAW")),
  );
  expect(JSON.parse(config)).toEqual({
    ...description(left, "CAP_CHOWN"),
    process: { ...description(left, "CAP_CHOWN").process, env: ["X=CAP_NET_RAW", "CAP_CHOWN"] },
  });
});

test("what is no step of a build is started as it is", async () => {
  const text = JSON.stringify(description(given, "x"));
  expect((await start(join(dir, "moby", "x3"), text)).config).toBe(text);
  const { stdout } = await run([runc, "exec", "id", "", "a b", "*"], { env });
  expect(stdout).toBe("<exec>\n<id>\n<>\n<a b>\n<*>\n");
});

test("a step whose rights cannot be taken is not started", async () => {
  const bundle = join(dir, "buildkit", "executor", "missing");
  await expect(run([runc, "run", `--bundle=${bundle}`, "id"], { env })).rejects.toThrow();
  await mkdir(bundle);
  await expect(run([runc, "run", "-b", bundle, "id"], { env })).rejects.toThrow(/config\.json/);
});

test("a copy of it that comes first or last in the path does not start it again", async () => {
  const copies = await mkdtemp(join(tmpdir(), "svc-runc-copy-"));
  await copyFile(join(first(engineEnvironment({}, "").PATH), "runc"), join(copies, "runc"));
  const own = first(engineEnvironment({}, "").PATH);
  for (const path of [
    [copies, own, dir],
    [own, copies, dir],
    [own, dir, copies],
  ]) {
    const { stdout } = await run([runc, "--version"], {
      env: { PATH: [...path, process.env["PATH"]].join(delimiter) },
    });
    expect(stdout).toBe("<--version>\n");
  }
  await rm(copies, { recursive: true });
});
