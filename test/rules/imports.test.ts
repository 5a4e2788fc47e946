import { posix } from "node:path";
import { describe, expect, test } from "vitest";
import { type SourceFile, sourcesOf } from "./sources.ts";

/**
 * Which of our packages each workspace may import. Nobody may import `test`, and programs never one another. Tests of all
 * of them start programs, so they may import `runtime`.
 */
const arrows: Record<string, readonly string[]> = {
  runtime: [],
  proto: [],
  registry: ["@svc/proto"],
  link: ["@svc/proto"],
  operators: [],
  control: ["@svc/runtime", "@svc/proto", "@svc/registry", "@svc/operators"],
  agent: ["@svc/runtime", "@svc/proto", "@svc/registry", "@svc/link", "@svc/operators"],
  router: ["@svc/runtime", "@svc/proto", "@svc/registry", "@svc/link", "@svc/operators"],
  cli: ["@svc/runtime", "@svc/proto"],
  deploy: ["@svc/runtime", "@svc/proto"],
  test: [
    "@svc/runtime",
    "@svc/proto",
    "@svc/registry",
    "@svc/link",
    "@svc/control",
    "@svc/agent",
    "@svc/router",
    "@svc/deploy",
  ],
};

const isOurs = (specifier: string) => specifier.startsWith("@svc/") || specifier.startsWith("svc-cli");
const packageOf = (specifier: string) =>
  specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
const isTest = ({ path }: Pick<SourceFile, "path">) => /(\.test|testing|\/fixtures\/).*\.ts$/.test(path);

describe.each(Object.entries(arrows))("%s", (workspace, allowed) => {
  const files = sourcesOf(workspace);

  test("imports only the packages it may know", () => {
    const wrong = files.flatMap((file) => {
      const may = isTest(file) ? [...allowed, "@svc/runtime"] : allowed;
      return file.imports
        .filter(({ specifier }) => isOurs(specifier) && !may.includes(packageOf(specifier)))
        .map(({ specifier }) => `${file.path} imports ${specifier}`);
    });
    expect(wrong).toEqual([]);
  });

  test("reaches another workspace by a relative path only for what tests of both share", () => {
    const wrong = files.flatMap((file) =>
      file.imports
        .map(({ specifier }) => ({ specifier, target: posix.join(posix.dirname(file.path), specifier) }))
        .filter(({ specifier, target }) => specifier.startsWith(".") && !target.startsWith(`${workspace}/`))
        .filter(
          ({ target }) =>
            !(isTest(file) && isTest({ path: target }) && allowed.includes(`@svc/${target.split("/")[0]}`)),
        )
        .map(({ specifier }) => `${file.path} imports ${specifier}`),
    );
    expect(wrong).toEqual([]);
  });

  test("names files with their ending", () => {
    const wrong = files.flatMap(({ path, imports }) =>
      imports
        .filter(({ specifier }) => specifier.startsWith(".") && !/\.(ts|mjs|json)$/.test(specifier))
        .map(({ specifier }) => `${path} imports ${specifier}`),
    );
    expect(wrong).toEqual([]);
  });
});

/** Files of these names decide and do nothing else. */
const pureNames = /(\/(rules|steps|placement|table|access|reconcile)|proto\/src\/lifecycle)\.ts$/;
const impureImports = /^(node:|kysely|pg$|dockerode|fastify|undici|pino)/;
const impureWords = [/\bDate\.now\(/, /\bnew Date\(\)/, /\bMath\.random\(/, /\bprocess\./, /\bperformance\.now\(/];

describe("files that only decide", () => {
  const files = ["proto", "control", "agent", "router", "cli"]
    .flatMap(sourcesOf)
    .filter((file) => pureNames.test(file.path) && !isTest(file));

  test("import nothing that acts", () => {
    const wrong = files.flatMap(({ path, imports }) =>
      imports
        .filter(({ specifier, typeOnly }) => !typeOnly && impureImports.test(specifier))
        .map(({ specifier }) => `${path} imports ${specifier}`),
    );
    expect(wrong).toEqual([]);
  });

  test("take the time, chance and surroundings as arguments", () => {
    const wrong = files.flatMap(({ path, text }) =>
      impureWords.filter((word) => word.test(text)).map((word) => `${path} has ${word.source}`),
    );
    expect(wrong).toEqual([]);
  });
});

describe("inside control", () => {
  const files = sourcesOf("control").filter((file) => !isTest(file));

  test("endpoints and workers are known only to what puts the server together", () => {
    const assemblers = new Set(["control/src/start.ts", "control/src/http/server.ts"]);
    const wrong = files.flatMap(({ path, imports }) =>
      imports
        .filter(({ typeOnly }) => !typeOnly)
        .map(({ specifier }) => posix.join(posix.dirname(path), specifier))
        .filter((target) => /\/(endpoints|worker)\.ts$/.test(target) && !target.startsWith("control/src/work/"))
        .filter((target) => !assemblers.has(path) && posix.dirname(target) !== posix.dirname(path))
        .map((target) => `${path} imports ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  test("stores know neither endpoints nor HTTP", () => {
    const wrong = files
      .filter(({ path }) => path.endsWith("/store.ts"))
      .flatMap(({ path, imports }) =>
        imports
          .filter(({ specifier, typeOnly }) => !typeOnly && /fastify|\/http\/(server|endpoint)\.ts$/.test(specifier))
          .map(({ specifier }) => `${path} imports ${specifier}`),
      );
    expect(wrong).toEqual([]);
  });
});

describe("environment variables", () => {
  test("are read by the programs' main files only", () => {
    const wrong = ["control", "agent", "router", "link", "registry", "proto"]
      .flatMap(sourcesOf)
      .filter((file) => !isTest(file) && !file.path.endsWith("/src/main.ts") && /\bprocess\.env\b/.test(file.text))
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });
});
