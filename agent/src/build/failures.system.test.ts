import { afterAll, beforeAll, expect, test } from "vitest";
import { type BuildBench, baseImage, createBuildBench, type TestBuild, type TestRecipe } from "../testing/builds.ts";

// Builds that fail for real. Each has to tell the person who deployed what to do.

let bench: BuildBench;
beforeAll(async () => {
  bench = await createBuildBench();
});
afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
});

type Files = Readonly<Record<string, string>>;
interface Situation {
  when: string;
  files: Files;
  recipe: TestRecipe;
  spec?: TestBuild;
  code?: string;
  exitCode?: number;
  says: readonly string[];
}

const app = (value: { buildCommand?: string; startCommand?: string } = {}): TestRecipe => ({
  case: "image",
  value: { port: 3000, ...value },
});
const own: TestRecipe = { case: "image", value: { dockerfile: "Dockerfile", port: 3000 } };
const dockerfile = (text: string): Files => ({ Dockerfile: text, "a.txt": "a" });
const pack = (value: object): Files => ({ "package.json": JSON.stringify({ name: "app", ...value }) });

const situations: readonly Situation[] = [
  {
    when: "the build command fails",
    files: { ...pack({ scripts: { build: "echo about to break && exit 3" } }), "server.js": "" },
    recipe: app({ buildCommand: "npm run build", startCommand: "node server.js" }),
    exitCode: 3,
    says: ['The step "RUN npm run build" failed: exit code 3.', "about to break"],
  },
  {
    when: "the command does not exist",
    files: { "a.txt": "a" },
    recipe: app({ buildCommand: "nosuch-tool --build", startCommand: "x" }),
    exitCode: 127,
    says: ['The step "RUN nosuch-tool --build" failed: exit code 127.', "nosuch-tool: not found"],
  },
  {
    when: "a step writes far too much before it fails",
    files: { "a.txt": "a" },
    recipe: app({
      buildCommand: "seq 1 100000; printf '\\033[31mred\\033[0m bell\\007\\n'; exit 4",
      startCommand: "x",
    }),
    exitCode: 4,
    says: ["99999\n100000\nred bell"],
  },
  {
    when: "a secret value is in the command and its output",
    files: { "a.txt": "a" },
    recipe: app({ buildCommand: "echo token is s3cret-value; exit 5", startCommand: "x" }),
    spec: { redact: ["s3cret-value"] },
    exitCode: 5,
    says: ['The step "RUN echo token is [redacted]; exit 5"', "Last lines:\ntoken is [redacted]"],
  },
  {
    when: "nothing says how to start",
    files: { "a.txt": "a" },
    recipe: app(),
    says: ["start.command"],
  },
  {
    when: "the output directory is missing",
    files: { "a.txt": "a" },
    recipe: { case: "static", value: { command: "true", output: "dist" } },
    code: "BUILD_OUTPUT_MISSING",
    says: ['no directory "dist"', "build.output"],
  },
  {
    when: "the output directory is empty",
    files: { "a.txt": "a" },
    recipe: { case: "static", value: { command: "mkdir dist", output: "dist" } },
    code: "BUILD_OUTPUT_MISSING",
    says: ["build.output"],
  },
  {
    when: "the Dockerfile is missing",
    files: { "a.txt": "a" },
    recipe: own,
    spec: { rootDirectory: "." },
    says: ['no Dockerfile at "Dockerfile"', "build.dockerfile"],
  },
  {
    when: "an instruction is unknown",
    files: dockerfile(`# comment\nFROM ${baseImage}\n\nRUNN x\n`),
    recipe: own,
    says: ["Line 4 of the Dockerfile: RUNN is not an instruction"],
  },
  {
    when: "an instruction is unknown, behind lines of the platform's own",
    files: dockerfile(`FROM ${baseImage}\nRUN a \\\n  b\nRUNN x\n`),
    recipe: own,
    spec: { caBundle: "PEM" },
    says: ["Line 4 of the Dockerfile: RUNN"],
  },
  {
    when: "the base image does not exist",
    files: dockerfile("FROM nosuch.registry.test/nothing:1\n"),
    recipe: own,
    code: "OCI_REGISTRY_BLOCKED",
    says: ['The base image "nosuch.registry.test/nothing:1" cannot be used. It is not on the public internet.'],
  },
  {
    when: "the base image has an odd name",
    files: dockerfile("FROM localhost.:4500/x\n"),
    recipe: own,
    says: [
      'Line 1 of the Dockerfile: "localhost.:4500/x" is not the name of an image. "localhost.:4500" is not a registry host.',
    ],
  },
  {
    when: "COPY names a file that is not there",
    files: dockerfile(`FROM ${baseImage}\nCOPY nosuch.txt /\n`),
    recipe: own,
    says: ['The step "COPY nosuch.txt /" failed: there is no "nosuch.txt" in the upload.', ".dockerignore"],
  },
  {
    when: "COPY names a file that is ignored",
    files: { ...dockerfile(`FROM ${baseImage}\nCOPY a.txt /\n`), ".dockerignore": "*.txt\n" },
    recipe: own,
    says: ['there is no "a.txt" in the upload'],
  },
  {
    when: "COPY takes from a stage what is not there",
    files: dockerfile(`FROM ${baseImage} AS build\nFROM scratch\nCOPY --from=build /nosuch /x\n`),
    recipe: own,
    says: ['there is no "nosuch" in "build"'],
  },
  {
    when: "it names another parser",
    files: dockerfile(`# syntax=evil.test/frontend\nFROM ${baseImage}\n`),
    recipe: own,
    says: ['the syntax "evil.test/frontend"', "remove the line"],
  },
  {
    when: "a step asks for privileges",
    files: dockerfile(`FROM ${baseImage}\nRUN --security=insecure mount\n`),
    recipe: own,
    says: ["--security=insecure is not available"],
  },
  {
    when: "a step asks for the host's network",
    files: dockerfile(`FROM ${baseImage}\nRUN --network=host true\n`),
    recipe: own,
    says: ["--network=host is not available"],
  },
  {
    when: "the engine itself would fetch something",
    files: dockerfile(`FROM ${baseImage}\nADD http://169.254.169.254/latest/meta-data/ /x\n`),
    recipe: own,
    says: ["ADD does not fetch", "RUN step"],
  },
];

test.each(situations)("when $when, the person is told", async ({ files, recipe, spec, code, exitCode, says }) => {
  const { failure } = await bench.outcome(await bench.build(files, recipe, spec));
  expect(failure).toMatchObject({ code: code ?? "BUILD_FAILED", ...(exitCode !== undefined && { exitCode }) });
  for (const text of says) expect(failure?.message).toContain(text);
  expect(Buffer.byteLength(failure?.message ?? "")).toBeLessThanOrEqual(4096);
  expect(failure?.message).not.toMatch(/(?![\n\t])\p{Cc}|s3cret-value|\/var\/lib/u);
});
